//! Constructed events without a real trace; one ISR is real.

use std::io::Cursor;

use laggard_etl::{
    Decoded, EventName, HandlerKind, KernelEvent, PointerWidth, Trace, TraceEvent, TraceTally,
    decode,
};
use laggard_made::trace::{DRIVER, MadeEvent, MadeTrace};
use laggard_model::Nanos;

/// 10 MHz: a tick is 100 ns.
const HZ: i64 = 10_000_000;

fn tally(trace: MadeTrace) -> TraceTally {
    let mut trace = Trace::open(Cursor::new(trace.bytes())).unwrap();
    let mut tally = TraceTally::new(trace.header());
    trace.visit(|event| tally.add(event)).unwrap();
    tally
}

fn us(us: u64) -> Option<Nanos> {
    Some(Nanos::from_us(us))
}

/// Trace from a bug report against a library that reads traces.
#[test]
fn real_isr_is_decoded() {
    let payload = [
        0xef, 0x60, 0x83, 0xe0, 0xd0, 1, 0, 0, 0x10, 0xf3, 0xa8, 0x9e, 0x06, 0xf8, 0xff, 0xff, 1,
        0x61, 0, 0,
    ];
    let event = TraceEvent {
        name: EventName::Kernel {
            group: 15,
            opcode: 67,
        },
        version: 2,
        cpu: 0,
        ticks: 1_996_631_531_786,
        thread: None,
        pointers: PointerWidth::Eight,
        payload: &payload,
    };

    assert_eq!(
        decode(&event),
        Decoded::Known(KernelEvent::Handler {
            sort: HandlerKind::Isr,
            begun: 1_996_631_531_759,
            routine: 0xffff_f806_9ea8_f310,
            vector: Some(97),
        })
    );
    let short = TraceEvent {
        payload: &payload[..18],
        ..event
    };
    assert_eq!(decode(&short), Decoded::Unreadable);
    let old = TraceEvent {
        version: 1,
        ..event
    };
    assert_eq!(decode(&old), Decoded::Unreadable);
}

#[test]
fn handlers_are_counted_by_kind_and_driver_with_those_over_the_limit() {
    let trace = MadeTrace::new(HZ, 0, 0)
        .buffer(
            0,
            &[
                MadeEvent::image(900, DRIVER, 0x10000, r"\SystemRoot\drivers\made.sys"),
                MadeEvent::isr(1_250, 1_000, DRIVER + 0xf310),
                MadeEvent::isr(2_251, 2_000, DRIVER + 0xf310),
                MadeEvent::dpc(68, 4_000, 3_000, DRIVER + 0x10),
                MadeEvent::dpc(69, 5_001, 4_000, DRIVER + 0x20),
                MadeEvent::dpc(66, 5_100, 5_050, 0x1234),
            ],
        )
        .buffer(
            1,
            // Before the counter started, and after its end.
            &[
                MadeEvent::dpc(68, 6_000, -1, DRIVER),
                MadeEvent::dpc(68, 6_000, 6_001, DRIVER),
            ],
        );

    let tally = tally(trace);

    let drivers = tally.drivers();
    let counts_of = |sort, name: &str| {
        let handler = &drivers[&(sort, name.to_owned())];
        (
            handler.times.count(),
            handler.times.max(),
            handler.over_limit,
        )
    };
    assert_eq!(
        counts_of(HandlerKind::Isr, "made.sys"),
        (2, Some(Nanos::from_ns(25_100)), 1)
    );
    assert_eq!(counts_of(HandlerKind::Dpc, "made.sys"), (1, us(100), 0));
    assert_eq!(
        counts_of(HandlerKind::TimerDpc, "made.sys"),
        (1, Some(Nanos::from_ns(100_100)), 1)
    );
    assert_eq!(
        counts_of(HandlerKind::ThreadedDpc, "unknown"),
        (1, us(5), 0)
    );
    assert_eq!(tally.implausible, 2);
    let routines: Vec<String> = tally.routines().into_keys().map(|(_, name)| name).collect();
    assert_eq!(
        routines,
        [
            "made.sys+0xf310",
            "made.sys+0x10",
            "made.sys+0x20",
            "0x1234"
        ]
    );
}

#[test]
fn wait_of_a_thread_lasts_from_ready_to_running_across_cpus() {
    // The buffer of CPU 1 is first in the file and has the later events.
    let trace = MadeTrace::new(HZ, 0, 0)
        .buffer(
            1,
            &[
                MadeEvent::switch(1_500, 0, 8, 15),
                MadeEvent::switch(3_000, 8, 9, 8),
            ],
        )
        .buffer(
            0,
            &[
                MadeEvent::process(100, 4, b"made.exe"),
                MadeEvent::thread(3, 100, 4, 8),
                MadeEvent::ready(1_000, 8),
                MadeEvent::ready(1_600, 8),
                MadeEvent::ready(3_100, 10),
            ],
        );

    let tally = tally(trace);

    let threads: Vec<_> = tally.threads.threads().collect();
    assert_eq!(threads.len(), 1);
    assert_eq!(
        (threads[0].id, threads[0].name.as_deref()),
        (8, Some("made.exe"))
    );
    assert_eq!(
        (threads[0].ready.count(), threads[0].ready.max()),
        (1, us(50))
    );
    assert_eq!(threads[0].priorities, Some((15, 15)));
    let threads = &tally.threads;
    assert_eq!((threads.switches, threads.readied), (2, 3));
    assert_eq!(threads.resumed, 1, "nobody made thread 9 ready");
    assert_eq!(threads.unclear, 1, "thread 8 was made ready while it ran");
    assert_eq!(threads.waiting(), 1, "thread 10");
    assert_eq!(threads.by_priority[&15].count(), 1);
}

#[test]
fn reused_thread_id_is_another_thread() {
    let trace = MadeTrace::new(HZ, 0, 0).buffer(
        0,
        &[
            MadeEvent::process(100, 4, b"first.exe"),
            MadeEvent::process(100, 5, b"second.exe"),
            MadeEvent::thread(1, 110, 4, 8),
            MadeEvent::ready(200, 8),
            MadeEvent::switch(210, 0, 8, 8),
            MadeEvent::ready(220, 8),
            MadeEvent::thread(2, 300, 4, 8),
            MadeEvent::thread(1, 400, 5, 8),
            MadeEvent::switch(900, 0, 8, 8),
            MadeEvent::hard_fault(1_000, 910, 8),
        ],
    );

    let tally = tally(trace);

    let threads: Vec<_> = tally.threads.threads().collect();
    let times_of = |place: usize| {
        let thread = &threads[place];
        (
            thread.name.clone().unwrap(),
            thread.ready.max(),
            thread.faults.max(),
        )
    };
    assert_eq!(threads.len(), 2);
    assert_eq!(times_of(0), ("first.exe".into(), us(1), None));
    assert_eq!(times_of(1), ("second.exe".into(), None, us(9)));
}

#[test]
fn header_has_the_losses_and_the_clock() {
    let trace = Trace::open(Cursor::new(MadeTrace::new(HZ, 7, 2).bytes())).unwrap();
    let header = trace.header();

    assert_eq!((header.events_lost, header.buffers_lost), (7, 2));
    assert_eq!((header.hz, header.session.as_str()), (10_000_000, "made"));
    assert_eq!(header.between(10, 9), None);
    assert_eq!(header.between(i64::MIN, i64::MAX), None);
    assert_eq!(header.between(-5, 5), us(1));
}

/// A message without a timestamp must not sort first: thousands of such buffers would
/// be in memory at once.
#[test]
fn messages_without_a_timestamp_keep_their_position_in_the_file() {
    let trace = MadeTrace::new(HZ, 0, 0)
        .buffer(0, &[MadeEvent::ready(1_000, 8)])
        .messages(0, 3)
        .buffer(0, &[MadeEvent::ready(2_000, 8)]);
    let mut trace = Trace::open(Cursor::new(trace.bytes())).unwrap();
    let mut times = Vec::new();

    trace
        .visit(|event| times.push((event.name == EventName::Message, event.ticks)))
        .unwrap();

    let message = (true, 1_000);
    assert_eq!(
        times[1..],
        [(false, 1_000), message, message, message, (false, 2_000)]
    );
}

#[test]
fn short_threads_leave_room_for_waiting_ones() {
    let mut trace = MadeTrace::new(HZ, 0, 0);
    for number in 0..1_000 {
        let began = i64::from(number) * 100;
        let events: Vec<MadeEvent> = (0..40)
            .flat_map(|event| {
                let (thread, ticks) = (100 + number * 40 + event, began + i64::from(event));
                [
                    MadeEvent::thread(1, ticks, 4, thread),
                    MadeEvent::thread(2, ticks, 4, thread),
                ]
            })
            .take(40)
            .collect();
        trace = trace.buffer(0, &events);
    }
    let tally = tally(trace.buffer(
        0,
        &[
            MadeEvent::thread(1, 200_000, 4, 8),
            MadeEvent::ready(200_001, 8),
            MadeEvent::switch(200_011, 0, 8, 15),
        ],
    ));

    assert_eq!(tally.threads.crowded, 0);
    let threads: Vec<_> = tally.threads.threads().collect();
    assert_eq!(threads.len(), 1);
    assert_eq!((threads[0].id, threads[0].process), (8, Some(4)));
    assert_eq!(threads[0].ready.max(), us(1));
}

#[test]
fn preempted_thread_waits_until_it_runs_again() {
    let trace = MadeTrace::new(HZ, 0, 0).buffer(
        0,
        &[
            MadeEvent::ready(1_000, 8),
            MadeEvent::switch(1_030, 0, 8, 24),
            // Another thread takes its CPU for 20 ms; its ready event is repeated.
            MadeEvent::preemption(2_000, 8, 9, 26),
            MadeEvent::ready(2_001, 8),
            MadeEvent::switch(202_000, 9, 8, 24),
            // It was made ready while it ran, and was then preempted.
            MadeEvent::ready(203_000, 8),
            MadeEvent::preemption(204_000, 8, 9, 26),
            MadeEvent::switch(204_070, 9, 8, 24),
            // The idle thread can always continue.
            MadeEvent::switch(205_000, 8, 0, 0),
            MadeEvent::preemption(206_000, 0, 9, 26),
            MadeEvent::preemption(207_000, 9, 8, 24),
        ],
    );

    let tally = tally(trace);

    let threads = &tally.threads;
    let waits = &threads.by_priority[&24];
    assert_eq!((waits.count(), waits.max()), (3, us(20_000)));
    assert_eq!(waits.sum_ns(), 3_000 + 20_000_000 + 7_000);
    assert_eq!(threads.preempted, 2);
    assert_eq!(threads.unclear, 0);
    assert_eq!(threads.waiting(), 1, "thread 9");
}

#[test]
fn drivers_at_one_address_are_named_by_time() {
    let image = |opcode: u8, ticks, name| {
        let mut event = MadeEvent::image(ticks, DRIVER, 0x1000, name);
        event.opcode = opcode;
        event
    };
    let dpc = |ticks| MadeEvent::dpc(68, ticks, ticks - 100, DRIVER + 0x10);
    let trace = MadeTrace::new(HZ, 0, 0).buffer(
        0,
        &[
            dpc(1_000),
            image(2, 2_000, "ndis.sys"),
            image(10, 3_000, "tcpip.sys"),
            dpc(4_000),
            dpc(5_000),
            image(4, 9_000, "tcpip.sys"),
        ],
    );

    let tally = tally(trace);

    let drivers: Vec<(String, u64)> = tally
        .drivers()
        .into_iter()
        .map(|((_, name), handler)| (name, handler.times.count()))
        .collect();
    assert_eq!(drivers, [("ndis.sys".into(), 1), ("tcpip.sys".into(), 2)]);
}

#[test]
fn covered_time_contains_every_handler() {
    let trace = MadeTrace::new(HZ, 0, 0).buffer(
        0,
        &[
            MadeEvent::ready(100_000, 8),
            MadeEvent::dpc(68, 102_000, 50_000, DRIVER),
            MadeEvent::dpc(68, 103_000, 102_000, DRIVER),
        ],
    );

    let tally = tally(trace);

    assert_eq!(tally.span(), us(5_300));
    assert_eq!((tally.early, tally.implausible), (1, 0));
}
