//! Audio prerequisites of scripted machines.

use laggard_model::{AudioFinding, AudioNeed, AudioState, Host};

use super::{LAPTOP, Machine};
use crate::host::audio;

const USER: &str = "== proc/self/status\nUid:\t1000\t1000\t1000\t1000\n";

fn findings(texts: &[&str]) -> Vec<AudioFinding> {
    let machine = Machine::new(&texts.concat());
    audio(&machine.files, &machine.host())
}

fn finding(texts: &[&str], need: AudioNeed) -> AudioFinding {
    let findings = findings(texts);
    findings
        .into_iter()
        .find(|finding| finding.need == need)
        .unwrap()
}

#[test]
fn shared_interrupt_of_a_card_is_reported_with_its_users() {
    let finding = |text| finding(&[text], AudioNeed::SoundInterrupt);

    let shared = finding(
        "== proc/interrupts\n           CPU0       CPU1\n \
         16:  100  0  IR-IO-APIC   16-fasteoi   i801_smbus, snd_ice1712, uhci_hcd:usb3\n \
         17:  100  0  IR-IO-APIC   17-fasteoi   ahci\n",
    );
    let alone = finding(
        "== proc/interrupts\n           CPU0\n131:  7  IR-PCI-MSI 514048-edge  snd_hda_intel:card0\n",
    );

    assert_eq!(shared.is_met, Some(false));
    let devices = ["i801_smbus", "snd_ice1712", "uhci_hcd:usb3"];
    assert_eq!(
        shared.state,
        AudioState::SharedInterrupt {
            number: "16".into(),
            devices: devices.map(Into::into).into(),
        }
    );
    assert_eq!(alone.is_met, Some(true), "{alone:?}");
}

#[test]
fn sound_interrupt_is_unknown_without_a_sound_card() {
    let interrupts = "== proc/interrupts\n 24:  9  PCI-MSIX-0000:00:01.0 0-edge  virtio0-config\n";
    for (cards, state) in [
        ("", AudioState::NoSoundCard),
        (
            "== proc/asound/cards\n--- no soundcards ---\n",
            AudioState::NoSoundCard,
        ),
        (
            "== proc/asound/cards\n 1 [Scarlett  ]: USB-Audio - Scarlett 2i2\n",
            AudioState::SoundOnUsb,
        ),
    ] {
        let finding = finding(&[interrupts, cards], AudioNeed::SoundInterrupt);

        assert_eq!((finding.is_met, finding.state), (None, state), "{cards}");
    }
}

#[test]
fn laptop_has_unmet_needs() {
    let texts = [
        &LAPTOP.replace("Name:\tlaggard", "Name:\tlaggard\nUid:\t1000\t1000"),
        "== proc/sys/vm/swappiness\n60\n",
    ];

    let findings = findings(&texts);

    let unmet = findings
        .iter()
        .filter(|finding| finding.is_met == Some(false));
    let unmet: Vec<AudioNeed> = unmet.map(|finding| finding.need).collect();
    assert_eq!(
        unmet,
        [
            AudioNeed::Governor,
            AudioNeed::IdleStates,
            AudioNeed::ThreadedInterrupts,
            AudioNeed::Priority,
            AudioNeed::Swappiness,
        ]
    );
}

#[test]
fn limits_are_those_of_the_user_and_unknown_for_root() {
    let limits = |priority: &str, memory: &str| {
        format!(
            "== proc/self/limits\nLimit Soft Limit Hard Limit Units\n\
             Max locked memory         {memory}     {memory}     bytes\n\
             Max realtime priority     {priority}   {priority}\n"
        )
    };
    // Program whose file has every capability.
    let capable = "== proc/self/status\nUid:\t1000\t1000\nCapEff:\t000001ffffffffff\n";
    let root = "== proc/self/status\nUid:\t0\t0\nCapEff:\t000001ffffffffff\n";
    let low = limits("0", "8388608");
    let high = limits("95", "unlimited");
    let finding = |who, limits: &str| {
        [AudioNeed::Priority, AudioNeed::MemoryLock]
            .map(|need| finding(&[who, limits], need))
            .map(|finding| (finding.is_met, finding.state))
    };

    assert_eq!(
        finding(USER, &high).map(|finding| finding.0),
        [Some(true); 2]
    );
    for who in [USER, capable] {
        assert_eq!(
            finding(who, &low).map(|finding| finding.0),
            [Some(false); 2],
            "{who}"
        );
    }
    assert_eq!(
        finding(root, &high),
        [
            (None, AudioState::LimitsOfRoot),
            (None, AudioState::LimitsOfRoot)
        ]
    );
    // rtkit gives a lower priority than JACK requests, and is usual on desktops.
    let rtkit = "== usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service\n\n";
    let [priority, memory] = finding(&format!("{USER}{rtkit}"), &low);
    assert_eq!(priority.0, Some(true), "{:?}", priority.1);
    assert_eq!(memory.0, Some(false), "{:?}", memory.1);
}

#[test]
fn threadirqs_and_no_swap_meet_a_need() {
    let machine = Machine::new(USER);
    let met = |need, change: &dyn Fn(&mut Host)| {
        let mut host = machine.host();
        change(&mut host);
        let findings = audio(&machine.files, &host);
        findings
            .into_iter()
            .find(|finding| finding.need == need)
            .unwrap()
            .is_met
    };
    let threads = AudioNeed::ThreadedInterrupts;

    let booted = |words: &'static str| move |host: &mut Host| host.command_line = words.into();
    assert_eq!(met(threads, &booted("quiet threadirqs")), Some(true));
    assert_eq!(met(threads, &booted("quiet nothreadirqs")), Some(false));
    let rt = |host: &mut Host| host.preemption = Some("rt".into());
    assert_eq!(met(threads, &rt), Some(true));
    let no_swap = |host: &mut Host| host.settings.swap_bytes = Some(0);
    assert_eq!(met(AudioNeed::Swappiness, &no_swap), Some(true));
}

#[test]
fn unreadable_files_give_unknown() {
    for finding in findings(&[USER]) {
        match finding.need {
            // The command line is known, and the option is absent.
            AudioNeed::ThreadedInterrupts => assert_eq!(finding.is_met, Some(false)),
            _ => assert_eq!(finding.is_met, None, "{finding:?}"),
        }
    }
}
