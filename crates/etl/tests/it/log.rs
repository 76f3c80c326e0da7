//! Newest events of a running Windows: trace data of a window, and wakeups of a thread.

use laggard_etl::{EventName, ProviderId};
use laggard_etl::{KernelLog, LogPlan, PointerWidth, TraceEvent, Way};
use laggard_made::trace::{DRIVER, MadeEvent};
use laggard_model::{
    Activity, Address, FlightEvent, Happening, Nanos, Sampler, Span, Tid, windows_priority,
};

/// A tick is a microsecond, so that expected times equal the given ones.
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

/// Returns a short description of each event of a window.
fn described(events: &[FlightEvent]) -> Vec<String> {
    let what = |event: &FlightEvent| match &event.what {
        Happening::Begin(ISR) => "isr".to_owned(),
        Happening::End(ISR) => "isr ends".into(),
        Happening::Begin(DPC) => "dpc".into(),
        Happening::End(DPC) => "dpc ends".into(),
        Happening::Switch { name, .. } => name.clone(),
        other => panic!("{other:?}"),
    };
    let words = |event: &FlightEvent| format!("{} {}", event.at_ns.ns() / 1_000, what(event));
    events.iter().map(words).collect()
}

/// Handlers are recorded at their end. A handler that started in another one ends in
/// it.
#[test]
fn window_has_its_events_in_time_order() {
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
        described(&evidence.events),
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
fn handler_that_ends_as_another_starts_does_not_contain_it() {
    let log = log(&[
        MadeEvent::switch(100, 0, 77, 8),
        MadeEvent::isr(1_300, 1_200, DRIVER + 0x10),
        MadeEvent::dpc(68, 1_400, 1_300, DRIVER + 0x20),
        // No tick passed.
        MadeEvent::dpc(69, 1_500, 1_500, DRIVER + 0x20),
    ]);

    let evidence = log.evidence(1, US(1_000), US(2_000));

    assert_eq!(
        described(&evidence.events),
        [
            "100 thread 77",
            "1200 isr",
            "1300 isr ends",
            "1300 dpc",
            "1400 dpc ends"
        ]
    );
}

/// A window ends while a handler runs, which is recorded later.
#[test]
fn handler_that_outlasts_the_window_started_in_it() {
    let log = log(&[
        MadeEvent::switch(100, 0, 77, 8),
        MadeEvent::switch(2_500, 77, 42, 24),
        MadeEvent::dpc(68, 2_400, 1_100, DRIVER + 0x20),
        MadeEvent::dpc(68, 3_400, 2_600, DRIVER + 0x20),
    ]);

    let evidence = log.evidence(1, US(1_000), US(2_000));

    assert_eq!(
        described(&evidence.events),
        ["100 thread 77", "1100 dpc", "2400 dpc ends"]
    );
}

#[test]
fn switch_shows_preemption_and_missing_switches() {
    let log = log(&[
        MadeEvent::switch(100, 0, 77, 8),
        MadeEvent::preemption(1_100, 77, 42, 24),
        MadeEvent::switch(1_200, 9, 0, 0),
    ]);

    let evidence = log.evidence(1, US(1_000), US(2_000));

    let switches: Vec<_> = evidence.events[1..]
        .iter()
        .map(|event| match event.what {
            Happening::Switch {
                priority,
                priority_before,
                before,
                preempted,
                ..
            } => (priority, priority_before, before, preempted),
            Happening::Begin(_) | Happening::End(_) => panic!("{event:?}"),
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
fn sample_has_its_chain_in_any_order_of_its_parts() {
    let kernel = DRIVER + 0x30;
    let log = log(&[
        MadeEvent::thread(3, 1, 7, 77),
        MadeEvent::sample(1_500, 77, kernel),
        MadeEvent::stack(1_500, 1_500, 77, &[kernel, kernel + 1]),
        MadeEvent::switch(1_600, 77, 42, 8),
        MadeEvent::stack(1_700, 1_500, 77, &[0x7ff6_0000_1000, 0x7ff6_0000_2000]),
        MadeEvent::sample(1_800, 77, 0x7ff6_0000_3000),
        // The episode of an unknown sample.
        MadeEvent::stack(1_900, 1_499, 77, &[1]),
    ]);

    let samples = log.evidence(1, US(1_000), US(2_000)).samples;

    let addresses = |addresses: &[u64]| addresses.iter().copied().map(Address).collect::<Vec<_>>();
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
fn forgotten_and_lost_events_are_gaps() {
    let mut log = KernelLog::new(LogPlan { entries: 3, ..PLAN });
    for ticks in [100, 200, 300, 400, 500] {
        add(&mut log, 1, &MadeEvent::switch(ticks, 0, 77, 8));
    }

    assert!(log.evidence(1, US(150), US(450)).overwritten);
    assert!(!log.evidence(1, US(200), US(450)).overwritten);

    log.lost(Span::new(US(460), US(480)));
    // Until the next switch the running thread is unknown.
    let gap = |from_ns, to_ns| Span::new(from_ns, to_ns);
    let evidence = log.evidence(1, US(300), US(500));
    assert!(evidence.overwritten);
    assert_eq!(evidence.gaps, [gap(US(460), US(500))]);
    assert_eq!(log.evidence(1, US(300), US(460)).gaps, []);
    // Events that have not arrived are unknown, not absent.
    let evidence = log.evidence(1, US(490), US(900));
    assert_eq!(
        evidence.gaps,
        [gap(US(490), US(500)), gap(US(500), US(900))]
    );
}

#[test]
fn ready_and_run_times_belong_to_one_wait() {
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
    // A timer can be early: the thread was ready when its wait started.
    assert_eq!(
        log.way(Tid(42), US(1_200), US(1_400)),
        Way {
            ready: Some((US(1_200), 2)),
            ran: Some(US(1_300)),
        }
    );
    // It was made ready, and the switch was lost.
    assert_eq!(log.way(Tid(42), US(2_000), US(2_050)), Way::default());
    // This thread is not watched.
    assert_eq!(log.way(Tid(43), US(1_000), US(1_050)), Way::default());
}

/// Buffers of several CPUs can arrive one after the other.
#[test]
fn late_events_are_sorted() {
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
        described(&events),
        ["1000 Idle", "1020 thread 42", "2000 thread 77"]
    );
}

#[test]
fn kernel_address_is_named_by_its_driver() {
    let mut log = log(&[
        MadeEvent::image(1, DRIVER, 0x1000, r"\SystemRoot\System32\drivers\made.sys"),
        MadeEvent::process(1, 7, b"chrome.exe"),
        MadeEvent::thread(3, 1, 7, 77),
        MadeEvent::thread(1, 1, 7, 78),
        MadeEvent::thread(3, 1, 8, 79),
    ]);

    let name = log.symbol(Address(DRIVER + 0x20)).name;
    assert_eq!(name.as_deref(), Some("made.sys+0x20"));
    // An image that is loaded later has the same class, with another type.
    let mut loaded = MadeEvent::image(1, DRIVER + 0x1000, 0x1000, r"\SystemRoot\new.sys");
    loaded.opcode = 10;
    add(&mut log, 0, &loaded);
    let name = log.symbol(Address(DRIVER + 0x1020)).name;
    assert_eq!(name.as_deref(), Some("new.sys+0x20"));
    assert!(log.symbol(Address(DRIVER + 0x2000)).unknown.is_some());
    assert_eq!(log.threads_of(7), [Tid(77), Tid(78)].into());
}

#[test]
fn unreadable_events_are_counted() {
    let mut short = MadeEvent::switch(1_000, 0, 77, 8);
    short.payload.truncate(8);
    let before_the_clock = MadeEvent::switch(-1, 0, 77, 8);
    let log = log(&[short, before_the_clock, MadeEvent::ready(1, 77)]);

    assert_eq!(log.unreadable(), 2);
}

/// A live session has classes where a file has groups.
#[test]
fn class_equals_the_group_of_a_file() {
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
