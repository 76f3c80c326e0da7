//! Tests of `laggard why` with kernel events of Windows.
//!
//! The events are synthetic. Tests on Windows cover their source.

use laggard_etl::{EventName, KernelLog, LogPlan, PointerWidth, TraceEvent};
use laggard_made::trace::{DRIVER, MadeEvent};
use laggard_made::{Made, START, line};
use laggard_model::{
    Activity, Address, Backend, Cpu, Episode, EpisodeNotes, Happening, Host, LineId, Nanos,
    Service, Stage, Symbols, Tid,
};
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, in_one_line, run};

/// The thread that measures, and its process.
const OURS: u32 = 42;
const LAGGARD: u32 = 6;

/// Returns the kernel events of a wakeup that was due `us` after the start and ran 2 ms later. A
/// DPC of a driver takes most of this time, a thread of higher priority the rest.
fn events(us: u64) -> Vec<MadeEvent> {
    let ticks_after = |after: u64| (START.ns() / 1_000 + us + after).cast_signed();
    vec![
        MadeEvent::switch(ticks_after(0) - 500, OURS, 77, 8),
        MadeEvent::ready(ticks_after(10), OURS),
        MadeEvent::dpc(68, ticks_after(1_500), ticks_after(12), DRIVER + 0x20),
        MadeEvent::preemption(ticks_after(1_501), 77, 79, 26),
        MadeEvent::switch(ticks_after(1_998), 79, OURS, 24),
    ]
}

fn log(due: &[u64]) -> KernelLog {
    let mut log = KernelLog::new(LogPlan {
        entries: 10_000,
        sampled: Some(Nanos::from_ms(1)),
        clock: Nanos::from_us,
    });
    log.watch([Tid(OURS)]);
    let names = [
        MadeEvent::image(1, DRIVER, 0x1000, r"\SystemRoot\System32\drivers\made.sys"),
        MadeEvent::process(1, 7, b"chrome.exe"),
        MadeEvent::thread(3, 1, 7, 77),
        MadeEvent::process(1, 9, b"audiodg.exe"),
        MadeEvent::thread(3, 1, 9, 79),
        MadeEvent::process(1, LAGGARD, b"laggard.exe"),
        MadeEvent::thread(3, 1, LAGGARD, OURS),
    ];
    for made in names
        .into_iter()
        .chain(due.iter().flat_map(|us| events(*us)))
    {
        log.add(&TraceEvent {
            name: EventName::Kernel {
                group: made.group,
                opcode: made.opcode,
            },
            version: made.version,
            cpu: 1,
            ticks: made.ticks,
            thread: None,
            pointers: PointerWidth::Eight,
            payload: &made.payload,
        });
    }
    log
}

/// A late wakeup, with the way of its thread and the evidence that the log has.
fn episode(number: u64, us: u64, log: &mut KernelLog) -> Episode {
    let expiry = START + Nanos::from_us(us);
    let user = expiry + Nanos::from_us(2_000);
    let way_found = log.way(Tid(OURS), expiry, user);
    let after = |time: Nanos| time.saturating_sub(expiry);
    let before = expiry.saturating_sub(Nanos::from_ms(1));
    Episode {
        causes: Vec::new(),
        number,
        line: LineId(0),
        cpu: Cpu(1),
        seq: us / 1_000,
        expiry_ns: expiry,
        slack_ns: Nanos::ZERO,
        stages: [
            (Stage::Waking, after(way_found.ready.unwrap().0)),
            (Stage::Running, after(way_found.ran.unwrap())),
            (Stage::User, after(user)),
        ]
        .into(),
        threshold_ns: Nanos::from_ms(1),
        censored: false,
        passed_ns: Vec::new(),
        thread: Some(Tid(OURS)),
        evidence: log.evidence(1, before, user + Nanos::from_us(200)),
    }
}

/// As `SymbolBook` of the measuring side names them.
fn symbols(log: &KernelLog, late: &[Episode]) -> Symbols {
    let events = late.iter().flat_map(|episode| &episode.evidence.events);
    let routines = events.filter_map(|event| match event.what {
        Happening::Begin(Activity::Dpc(address) | Activity::Isr(address)) => Some(address),
        Happening::Begin(_) | Happening::End(_) | Happening::Switch { .. } => None,
    });
    Symbols {
        kernel: routines
            .map(|address: Address| (address, log.symbol(address)))
            .collect(),
        own_threads: log.threads_of(LAGGARD),
        ..Symbols::default()
    }
}

/// Records 6 s. In every second, one wakeup is late.
fn recorded(dir: &TempDir) {
    let due = [
        500_000, 1_500_000, 2_500_000, 3_500_000, 4_500_000, 5_500_000,
    ];
    let mut log = log(&due);
    let late: Vec<Episode> = (1..)
        .zip(due)
        .map(|(number, us)| episode(number, us, &mut log))
        .collect();
    let mut made = Made::new(&[line(Service::Realtime(24), 1)]);
    made.manifest.backend = Backend::Etw;
    made.manifest.host = Host::windows("10.0.19045");
    for number in 0..6_000 {
        let us = if number % 1_000 == 500 { 2_000 } else { 20 };
        made = made.served(0, 1, &[(Stage::User, us * 1_000)]);
    }
    let notes = EpisodeNotes {
        thresholds_ns: vec![Some(Nanos::from_ms(1))],
        kept: late.len() as u64,
        unseen_switches: Some(log.unseen_switches()),
        symbols: symbols(&log, &late),
        ..EpisodeNotes::default()
    };
    made.record_with(&dir.path().join("w.laggard"), &late, &notes);
}

fn screen(dir: &TempDir, words: &str) -> String {
    let output = run(dir.path(), words);
    let text = output.text();
    assert!(
        output.status.success(),
        "{words}: {text}{:?}",
        output.stderr
    );
    text
}

#[test]
fn why_names_the_driver_and_the_thread_and_what_helps_on_windows() {
    let dir = TempDir::new().unwrap();
    recorded(&dir);

    let why = screen(&dir, "why w.laggard");
    let all_episodes = screen(&dir, "why w.laggard --all");
    let second_episode = screen(&dir, "why w.laggard --episode 2");
    let show = screen(&dir, "show w.laggard");
    let bug = screen(&dir, "why w.laggard --bug 1");

    println!("{why}\n{all_episodes}\n{second_episode}\n{show}");
    why.assert_has("74 %  8.93 ms      6  1.49 ms          512 us  DPC: made.sys+0x20 (CPU 1)");
    all_episodes.assert_has("preempted by audiodg.exe");
    // It contains only names from the events, and no advice for Linux.
    for foreign in [
        "thread 77",
        "taskset",
        "PREEMPT_RT",
        "/proc",
        "/sys",
        "softirq",
        "Linux",
    ] {
        let screens = [&why, &all_episodes, &second_episode, &show, &bug];
        assert!(
            !screens.iter().any(|text| text.contains(foreign)),
            "{foreign}"
        );
    }
    assert!(
        in_one_line(&second_episode).contains("chrome.exe (priority 8) > made.sys+0x20"),
        "{second_episode}"
    );
    show.assert_has("DPC: made.sys+0x20, every 1.00 s");
    show.assert_has("update the named driver");
    let words = in_one_line(&all_episodes);
    assert!(
        words.contains("unseen context switches: 0"),
        "{all_episodes}"
    );
}
