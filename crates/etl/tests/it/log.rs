//! The newest of what a Windows that runs tells: the evidence of a window, and the way
//! of a thread.

use laggard_etl::{EventName, ProviderId};
use laggard_etl::{KernelLog, LogPlan, PointerWidth, TraceEvent, Way};
use laggard_made::trace::{DRIVER, MadeEvent};
use laggard_model::{
    Activity, Address, FlightEvent, Happening, Nanos, Sampler, Span, Tid, windows_priority,
};

/// A tick is a microsecond, so that what is made reads as what is found.
const fn clock(ticks: u64) -> Nanos {
    Nanos::from_us(ticks)
}

const PLAN: LogPlan = LogPlan {
    entries: 1_000,
    sampled: Some(Nanos::from_ms(1)),
    clock,
};
const ISR: Activity = Activity::Isr(Address(DRIVER + 0x10));
const DPC: Activity = Activity::Dpc(Address(DRIVER + 0x20));
const US: fn(u64) -> Nanos = Nanos::from_us;

fn add(log: &mut KernelLog, cpu: u16, made: &MadeEvent) {
    log.add(&TraceEvent {
        name: EventName::Kernel {
            group: made.group,
            opcode: made.opcode,
        },
        version: made.version,
        cpu,
        ticks: made.ticks,
        thread: None,
        pointers: PointerWidth::Eight,
        payload: &made.payload,
    });
}

fn log(events: &[MadeEvent]) -> KernelLog {
    let mut log = KernelLog::new(PLAN);
    log.watch([Tid(42)]);
    for event in events {
        add(&mut log, 1, event);
    }
    log
}

/// Each event of a window in few words.
fn told(events: &[FlightEvent]) -> Vec<String> {
    let what = |one: &FlightEvent| match &one.what {
        Happening::Begin(ISR) => "isr".to_owned(),
        Happening::End(ISR) => "isr ends".into(),
        Happening::Begin(DPC) => "dpc".into(),
        Happening::End(DPC) => "dpc ends".into(),
        Happening::Switch { name, .. } => name.clone(),
        other => panic!("{other:?}"),
    };
    let words = |one: &FlightEvent| format!("{} {}", one.at_ns.ns() / 1_000, what(one));
    events.iter().map(words).collect()
}

/// Handlers are told when they end, and what began in one ends in it.
#[test]
fn a_window_is_told_in_the_order_in_which_it_happened() {
    let log = log(&[
        MadeEvent::process(1, 7, b"chrome.exe"),
        MadeEvent::thread(3, 1, 7, 77),
        MadeEvent::switch(100, 0, 77, 8),
        MadeEvent::isr(1_300, 1_200, DRIVER + 0x10),
        MadeEvent::dpc(68, 1_900, 1_100, DRIVER + 0x20),
        MadeEvent::switch(1_900, 77, 42, 24),
        MadeEvent::ready(2_000, 43),
    ]);

    let evidence = log.evidence(1, US(1_000), US(2_000));

    assert_eq!(
        told(&evidence.events),
        [
            "100 chrome.exe",
            "1100 dpc",
            "1200 isr",
            "1300 isr ends",
            "1900 dpc ends",
            "1900 thread 42"
        ]
    );
    assert!(!evidence.overwritten);
    assert_eq!(
        evidence.sampler,
        Some((Sampler::Profile, Nanos::from_ms(1)))
    );
    assert_eq!(log.evidence(0, US(1_000), US(2_000)).events, []);
}

#[test]
fn what_ends_as_another_begins_does_not_hold_it() {
    let log = log(&[
        MadeEvent::switch(100, 0, 77, 8),
        MadeEvent::isr(1_300, 1_200, DRIVER + 0x10),
        MadeEvent::dpc(68, 1_400, 1_300, DRIVER + 0x20),
        // No tick passed.
        MadeEvent::dpc(69, 1_500, 1_500, DRIVER + 0x20),
    ]);

    let evidence = log.evidence(1, US(1_000), US(2_000));

    assert_eq!(
        told(&evidence.events),
        [
            "100 thread 77",
            "1200 isr",
            "1300 isr ends",
            "1300 dpc",
            "1400 dpc ends"
        ]
    );
}

/// A window ends while a handler runs, which is told later.
#[test]
fn a_handler_that_outlasts_the_window_began_in_it() {
    let log = log(&[
        MadeEvent::switch(100, 0, 77, 8),
        MadeEvent::switch(2_500, 77, 42, 24),
        MadeEvent::dpc(68, 2_400, 1_100, DRIVER + 0x20),
        MadeEvent::dpc(68, 3_400, 2_600, DRIVER + 0x20),
    ]);

    let evidence = log.evidence(1, US(1_000), US(2_000));

    assert_eq!(
        told(&evidence.events),
        ["100 thread 77", "1100 dpc", "2400 dpc ends"]
    );
}

#[test]
fn a_switch_says_who_could_have_gone_on_and_which_one_was_not_seen() {
    let log = log(&[
        MadeEvent::switch(100, 0, 77, 8),
        MadeEvent::preemption(1_100, 77, 42, 24),
        MadeEvent::switch(1_200, 9, 0, 0),
    ]);

    let evidence = log.evidence(1, US(1_000), US(2_000));

    let switches: Vec<_> = evidence.events[1..]
        .iter()
        .map(|one| match one.what {
            Happening::Switch {
                priority,
                priority_before,
                before,
                preempted,
                ..
            } => (priority, priority_before, before, preempted),
            Happening::Begin(_) | Happening::End(_) => panic!("{one:?}"),
        })
        .collect();
    assert_eq!(log.unseen_switches(), 1);
    let eight = Some(windows_priority(8));
    assert_eq!(
        switches,
        [
            (windows_priority(24), eight, None, true),
            (windows_priority(0), eight, Some(Tid(9)), false)
        ]
    );
}

#[test]
fn a_sample_has_its_chain_whichever_part_of_it_comes_first() {
    let kernel = DRIVER + 0x30;
    let log = log(&[
        MadeEvent::thread(3, 1, 7, 77),
        MadeEvent::sample(1_500, 77, kernel),
        MadeEvent::stack(1_500, 1_500, 77, &[kernel, kernel + 1]),
        MadeEvent::switch(1_600, 77, 42, 8),
        MadeEvent::stack(1_700, 1_500, 77, &[0x7ff6_0000_1000, 0x7ff6_0000_2000]),
        MadeEvent::sample(1_800, 77, 0x7ff6_0000_3000),
        // Of a sample that nobody saw.
        MadeEvent::stack(1_900, 1_499, 77, &[1]),
    ]);

    let samples = log.evidence(1, US(1_000), US(2_000)).samples;

    let addresses = |all: &[u64]| all.iter().copied().map(Address).collect::<Vec<_>>();
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[0].kernel, addresses(&[kernel, kernel + 1]));
    assert_eq!(
        samples[0].user,
        addresses(&[0x7ff6_0000_1000, 0x7ff6_0000_2000])
    );
    assert_eq!((samples[0].tid, samples[0].process), (Tid(77), 7));
    assert_eq!(samples[1].kernel, []);
    assert_eq!(samples[1].user, addresses(&[0x7ff6_0000_3000]));
}

#[test]
fn what_is_not_known_any_more_and_what_was_lost_are_told() {
    let mut log = KernelLog::new(LogPlan { entries: 3, ..PLAN });
    for ticks in [100, 200, 300, 400, 500] {
        add(&mut log, 1, &MadeEvent::switch(ticks, 0, 77, 8));
    }

    assert!(log.evidence(1, US(150), US(450)).overwritten);
    assert!(!log.evidence(1, US(200), US(450)).overwritten);

    log.lost(Span {
        from_ns: US(460),
        to_ns: US(480),
    });
    // Until the next switch nobody knows who runs.
    let gap = |from_ns, to_ns| Span { from_ns, to_ns };
    let evidence = log.evidence(1, US(300), US(500));
    assert!(evidence.overwritten);
    assert_eq!(evidence.gaps, [gap(US(460), US(500))]);
    assert_eq!(log.evidence(1, US(300), US(460)).gaps, []);
    // And what has not come yet is not known to be nothing.
    let evidence = log.evidence(1, US(490), US(900));
    assert_eq!(
        evidence.gaps,
        [gap(US(490), US(500)), gap(US(500), US(900))]
    );
}

#[test]
fn the_way_of_a_thread_is_that_of_one_wait() {
    let mut log = log(&[
        MadeEvent::ready(900, 42),
        MadeEvent::switch(910, 0, 42, 24),
        MadeEvent::ready(1_010, 42),
        MadeEvent::ready(1_011, 43),
        MadeEvent::switch(1_020, 0, 42, 24),
        MadeEvent::switch(1_030, 42, 77, 26),
        MadeEvent::switch(1_040, 77, 42, 24),
        MadeEvent::switch(1_300, 77, 42, 24),
        MadeEvent::ready(2_010, 42),
    ]);
    add(&mut log, 2, &MadeEvent::ready(1_190, 42));

    assert_eq!(
        log.way(Tid(42), US(1_000), US(1_050)),
        Way {
            ready: Some((US(1_010), 1)),
            ran: Some(US(1_020)),
        }
    );
    // A timer can be early: the thread could run as what it was to wait for began.
    assert_eq!(
        log.way(Tid(42), US(1_200), US(1_400)),
        Way {
            ready: Some((US(1_200), 2)),
            ran: Some(US(1_300)),
        }
    );
    // It was made ready, and the switch was lost.
    assert_eq!(log.way(Tid(42), US(2_000), US(2_050)), Way::default());
    // Nobody watches that one.
    assert_eq!(log.way(Tid(43), US(1_000), US(1_050)), Way::default());
}

/// Buffers of several CPUs can come one after the other.
#[test]
fn events_that_come_late_have_their_place() {
    let mut log = log(&[
        MadeEvent::switch(2_000, 0, 77, 8),
        MadeEvent::switch(1_000, 77, 0, 0),
        MadeEvent::switch(1_020, 0, 42, 24),
        MadeEvent::ready(1_010, 42),
    ]);

    assert_eq!(log.newest(), US(2_000));
    let ready = log.way(Tid(42), US(1_000), US(1_050)).ready;
    assert_eq!(ready, Some((US(1_010), 1)));
    let events = log.evidence(1, US(900), US(3_000)).events;
    assert_eq!(
        told(&events),
        ["1000 Idle", "1020 thread 42", "2000 thread 77"]
    );
}

#[test]
fn a_place_in_the_kernel_is_named_by_its_driver() {
    let mut log = log(&[
        MadeEvent::image(1, DRIVER, 0x1000, r"\SystemRoot\System32\drivers\made.sys"),
        MadeEvent::process(1, 7, b"chrome.exe"),
        MadeEvent::thread(3, 1, 7, 77),
        MadeEvent::thread(1, 1, 7, 78),
        MadeEvent::thread(3, 1, 8, 79),
    ]);

    let name = log.symbol(Address(DRIVER + 0x20)).name;
    assert_eq!(name.as_deref(), Some("made.sys+0x20"));
    // One that is loaded meanwhile is of the same class, by another type.
    let mut loaded = MadeEvent::image(1, DRIVER + 0x1000, 0x1000, r"\SystemRoot\new.sys");
    loaded.opcode = 10;
    add(&mut log, 0, &loaded);
    let name = log.symbol(Address(DRIVER + 0x1020)).name;
    assert_eq!(name.as_deref(), Some("new.sys+0x20"));
    assert!(log.symbol(Address(DRIVER + 0x2000)).unknown.is_some());
    assert_eq!(log.threads_of(7), [Tid(77), Tid(78)].into());
}

#[test]
fn what_cannot_be_read_is_counted() {
    let mut short = MadeEvent::switch(1_000, 0, 77, 8);
    short.payload.truncate(8);
    let before_the_clock = MadeEvent::switch(-1, 0, 77, 8);
    let log = log(&[short, before_the_clock, MadeEvent::ready(1, 77)]);

    assert_eq!(log.unreadable(), 2);
}

/// A session that is read while it runs tells classes, where a file has groups.
#[test]
fn a_class_is_the_group_that_a_file_has() {
    let perf_info = ProviderId([
        0xb4, 0xbf, 0x1d, 0xce, 0x7e, 0x13, 0xa6, 0x4d, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c,
        0xbc,
    ]);
    let other = ProviderId([7; 16]);

    assert_eq!(
        EventName::of_class(perf_info, 67),
        EventName::Kernel {
            group: 15,
            opcode: 67
        }
    );
    assert_eq!(
        EventName::of_class(other, 67),
        EventName::Classic {
            provider: other,
            opcode: 67
        }
    );
}
