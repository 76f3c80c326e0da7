//! What audio needs, on machines that are scripted.

use laggard_model::{AudioFinding, AudioNeed, Host};

use super::{LAPTOP, Machine};
use crate::host::audio;

const USER: &str = "== proc/self/status\nUid:\t1000\t1000\t1000\t1000\n";

fn found(texts: &[&str]) -> Vec<AudioFinding> {
    let machine = Machine::new(&texts.concat());
    audio(&machine.files, &machine.host())
}

fn of(texts: &[&str], need: AudioNeed) -> AudioFinding {
    let all = found(texts);
    all.into_iter().find(|one| one.need == need).unwrap()
}

#[test]
fn a_card_that_shares_its_interrupt_is_found_with_whom() {
    let of = |text| of(&[text], AudioNeed::SoundInterrupt);

    let shared = of("== proc/interrupts\n           CPU0       CPU1\n \
         16:  100  0  IR-IO-APIC   16-fasteoi   i801_smbus, snd_ice1712, uhci_hcd:usb3\n \
         17:  100  0  IR-IO-APIC   17-fasteoi   ahci\n");
    let alone = of(
        "== proc/interrupts\n           CPU0\n131:  7  IR-PCI-MSI 514048-edge  snd_hda_intel:card0\n",
    );

    assert_eq!(shared.is_met, Some(false));
    assert_eq!(
        shared.what,
        "interrupt 16 serves i801_smbus, snd_ice1712, uhci_hcd:usb3"
    );
    assert_eq!(alone.is_met, Some(true), "{alone:?}");
}

#[test]
fn where_there_is_no_sound_card_nothing_is_said_of_its_interrupt() {
    let interrupts = "== proc/interrupts\n 24:  9  PCI-MSIX-0000:00:01.0 0-edge  virtio0-config\n";
    for (cards, what) in [
        ("", "no sound card"),
        (
            "== proc/asound/cards\n--- no soundcards ---\n",
            "no sound card",
        ),
        (
            "== proc/asound/cards\n 1 [Scarlett  ]: USB-Audio - Scarlett 2i2\n",
            "the sound card is on USB: whatever else is on its controller shares that one's interrupt",
        ),
    ] {
        let found = of(&[interrupts, cards], AudioNeed::SoundInterrupt);

        assert_eq!((found.is_met, &*found.what), (None, what), "{cards}");
    }
}

#[test]
fn a_laptop_as_it_is_sold_has_a_remedy_for_each_need_that_it_does_not_meet() {
    let texts = [
        &LAPTOP.replace("Name:\tlaggard", "Name:\tlaggard\nUid:\t1000\t1000"),
        "== proc/sys/vm/swappiness\n60\n",
    ];

    let found = found(&texts);

    for one in &found {
        assert_eq!(one.advice.is_some(), one.is_met == Some(false), "{one:?}");
    }
    let unmet = found.iter().filter(|one| one.is_met == Some(false));
    let unmet: Vec<AudioNeed> = unmet.map(|one| one.need).collect();
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
fn limits_are_the_user_s_and_root_s_say_nothing() {
    let limits = |priority: &str, memory: &str| {
        format!(
            "== proc/self/limits\nLimit Soft Limit Hard Limit Units\n\
             Max locked memory         {memory}     {memory}     bytes\n\
             Max realtime priority     {priority}   {priority}\n"
        )
    };
    // As of a program whose file has every capability.
    let capable = "== proc/self/status\nUid:\t1000\t1000\nCapEff:\t000001ffffffffff\n";
    let root = "== proc/self/status\nUid:\t0\t0\nCapEff:\t000001ffffffffff\n";
    let few = limits("0", "8388608");
    let all = limits("95", "unlimited");
    let of = |who, limits: &str| {
        [AudioNeed::Priority, AudioNeed::MemoryLock]
            .map(|need| of(&[who, limits], need))
            .map(|one| (one.is_met, one.what))
    };

    assert_eq!(of(USER, &all).map(|one| one.0), [Some(true); 2]);
    for who in [USER, capable] {
        assert_eq!(of(who, &few).map(|one| one.0), [Some(false); 2], "{who}");
    }
    for (is_met, what) in of(root, &all) {
        assert_eq!(is_met, None, "{what}");
        assert!(what.contains("without sudo"), "{what}");
    }
    // rtkit gives less than JACK's own, and is what desktops have.
    let rtkit = "== usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service\n\n";
    let [priority, memory] = of(&format!("{USER}{rtkit}"), &few);
    assert_eq!(priority.0, Some(true), "{}", priority.1);
    assert_eq!(memory.0, Some(false), "{}", memory.1);
}

#[test]
fn what_the_kernel_was_booted_with_and_no_swap_meet_a_need() {
    let machine = Machine::new(USER);
    let met = |need, change: &dyn Fn(&mut Host)| {
        let mut host = machine.host();
        change(&mut host);
        let all = audio(&machine.files, &host);
        all.into_iter().find(|one| one.need == need).unwrap().is_met
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
fn what_cannot_be_read_is_not_guessed() {
    for one in found(&[USER]) {
        match one.need {
            // The command line lacks it, which is all there is to know.
            AudioNeed::ThreadedInterrupts => assert_eq!(one.is_met, Some(false)),
            AudioNeed::Governor
            | AudioNeed::IdleStates
            | AudioNeed::SoundInterrupt
            | AudioNeed::Priority
            | AudioNeed::MemoryLock
            | AudioNeed::Swappiness => assert_eq!(one.is_met, None, "{one:?}"),
        }
    }
}
