use std::collections::{BTreeMap, BTreeSet, HashMap};

use laggard_answer::why::RecordedEpisodes;
use laggard_model::{Activity, FlightEvent, Happening, Tid};
use prost::Message as _;

use super::*;
use laggard_made::late::{episode, manifest, notes};

fn trace(episodes: &[Episode]) -> wire::Trace {
    let late = RecordedEpisodes::new("r.laggard", manifest(), episodes.to_vec(), notes());
    wire::Trace::decode(perfetto(&Explained::new(&late, None)).as_slice()).unwrap()
}

/// Every slice of a trace: track, depth, name, start and end in us after the
/// recording's start.
fn slices(trace: &wire::Trace) -> Vec<(String, usize, String, u64, u64)> {
    let start = manifest().clock.start_ns.ns();
    let tracks: HashMap<u64, String> = trace
        .packet
        .iter()
        .filter_map(|packet| packet.track_descriptor.as_ref())
        .filter_map(|track| Some((track.uuid?, track.name.clone()?)))
        .collect();
    let interned = trace.packet[1].interned_data.as_ref().unwrap();
    let name = |iid: u64| {
        let mut names = interned.event_names.iter();
        names
            .find(|name| name.iid == Some(iid))
            .unwrap()
            .name
            .clone()
    };
    let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    let mut slices = Vec::new();
    for packet in &trace.packet {
        let Some(event) = &packet.track_event else {
            continue;
        };
        let time_us = (packet.timestamp.unwrap() - start) / 1_000;
        let track = event.track_uuid.unwrap();
        let stack = open.entry(track).or_default();
        match event.r#type.unwrap() {
            wire::SLICE_BEGIN => stack.push((name(event.name_iid.unwrap()).unwrap(), time_us)),
            wire::SLICE_END => {
                let (name, from) = stack.pop().expect("a slice ends that began");
                slices.push((tracks[&track].clone(), stack.len(), name, from, time_us));
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    slices
}

#[test]
fn an_episode_is_a_slice_with_a_slice_for_each_stage_and_cause() {
    let slices = slices(&trace(&[episode(1)]));

    let expiry = 5_000_000;
    for (track, depth, name, from, to) in [
        ("stages", 0, "#1: 2.00 ms late", 0, 2_002),
        ("stages", 1, "interrupt latency (expiry to irq)", 0, 10),
        ("stages", 1, "scheduling (waking to running)", 12, 2_000),
        ("causes", 0, "preempted by hog", 15, 2_000),
        ("running", 0, "hog (95)", -1_000, 2_000),
        ("running", 1, "local timer", 10, 15),
    ] {
        let after_us = |us: i64| u64::try_from(expiry + us).unwrap();
        let wanted = (
            track.into(),
            depth,
            name.into(),
            after_us(from),
            after_us(to),
        );
        assert!(slices.contains(&wanted), "{wanted:?} in {slices:#?}");
    }
}

#[test]
fn what_two_episodes_saw_alike_is_drawn_once() {
    let mut other = episode(1);
    other.number = 2;
    let drawn = slices(&trace(&[episode(1), other]));

    let runs = |slices: &[(String, usize, String, u64, u64)]| {
        slices.iter().filter(|slice| slice.0 == "running").count()
    };

    assert_eq!(runs(&drawn), runs(&slices(&trace(&[episode(1)]))));
}

#[test]
fn samples_refer_to_chains_that_are_there() {
    let trace = trace(&[episode(1)]);

    let interned = trace.packet[1].interned_data.as_ref().unwrap();
    let callstacks: BTreeSet<u64> = interned
        .callstacks
        .iter()
        .filter_map(|callstack| callstack.iid)
        .collect();
    let samples: Vec<&wire::PerfSample> = trace
        .packet
        .iter()
        .filter_map(|packet| packet.perf_sample.as_ref())
        .collect();
    assert_eq!(samples.len(), 3);
    assert!(
        samples
            .iter()
            .all(|sample| callstacks.contains(&sample.callstack_iid.unwrap()))
    );
    assert_eq!(
        interned.function_names[0].str.as_deref(),
        Some(&b"spin"[..])
    );
    assert_eq!(interned.mapping_paths[0].str.as_deref(), Some(&b"hog"[..]));
}

#[test]
fn times_are_those_of_the_monotonic_clock() {
    let trace = trace(&[episode(1)]);

    let snapshot = trace.packet[0].clock_snapshot.as_ref().unwrap();
    assert_eq!(snapshot.primary_trace_clock, Some(wire::MONOTONIC));
    let defaults = trace.packet[1].trace_packet_defaults.as_ref().unwrap();
    assert_eq!(defaults.timestamp_clock_id, Some(wire::MONOTONIC));
    let events = trace
        .packet
        .iter()
        .filter(|packet| packet.track_event.is_some());
    for packet in events {
        assert!(packet.timestamp >= Some(manifest().clock.start_ns.ns()));
    }
}

/// Returns an episode with a known thread; only these have scheduler events.
fn of_a_thread(number: u64) -> Episode {
    Episode {
        thread: Some(Tid(90)),
        ..episode(number)
    }
}

/// The events of the only CPU, in us after the recording's start.
fn scheduled(episodes: &[Episode]) -> Vec<(u64, wire::FtraceEvent)> {
    let start = manifest().clock.start_ns.ns();
    let trace = trace(episodes);
    let bundles = trace
        .packet
        .into_iter()
        .filter_map(|packet| packet.ftrace_events);
    let [bundle] = bundles.collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(bundle.cpu, Some(1));
    let time_us = |event: &wire::FtraceEvent| (event.timestamp.unwrap() - start) / 1_000;
    let events = bundle.event.into_iter();
    events.map(|event| (time_us(&event), event)).collect()
}

#[test]
fn the_scheduler_s_events_say_who_ran_and_who_was_woken() {
    let events: Vec<(u64, u32, String)> = scheduled(&[of_a_thread(1)])
        .into_iter()
        .map(|(at, event)| {
            let what = match (event.sched_switch, event.sched_waking) {
                (Some(switch), None) => format!(
                    "{} {} -> {} {}",
                    switch.prev_comm.unwrap(),
                    if switch.prev_state == Some(0) {
                        "R"
                    } else {
                        "S"
                    },
                    switch.next_comm.unwrap(),
                    switch.next_prio.unwrap()
                ),
                (None, Some(waking)) => {
                    assert_eq!((waking.pid, waking.target_cpu), (Some(90), Some(1)));
                    assert_eq!(waking.prio, Some(9));
                    format!("woken: {}", waking.comm.unwrap())
                }
                other => panic!("{other:?}"),
            };
            (at, event.pid.unwrap(), what)
        })
        .collect();

    let nobody = (4 << 20) + 1;
    assert_eq!(
        events,
        [
            (4_999_000, nobody, "not recorded R -> hog 4".into()),
            (5_000_012, 95, "woken: lag/1/fifo:90".into()),
            (5_002_000, 95, "hog R -> lag/1/fifo:90 9".into()),
            (5_003_000, 90, "lag/1/fifo:90 S -> not recorded 0".into()),
        ]
    );
}

#[test]
fn who_leaves_a_cpu_is_who_came_to_it_also_between_two_windows() {
    let events = scheduled(&[of_a_thread(1), of_a_thread(2), of_a_thread(3)]);

    let switches: Vec<&wire::SchedSwitch> = events
        .iter()
        .filter_map(|(_, event)| event.sched_switch.as_ref())
        .collect();
    assert_eq!(switches.len(), 9);
    for pair in switches.windows(2) {
        assert_eq!(pair[0].next_pid, pair[1].prev_pid, "{pair:?}");
        assert_eq!(pair[0].next_prio, pair[1].prev_prio, "{pair:?}");
    }
    assert!(events.is_sorted_by_key(|(at, _)| *at), "{events:?}");
    let woken = events
        .iter()
        .filter(|(_, event)| event.sched_waking.is_some());
    assert_eq!(woken.count(), 3);
}

#[test]
fn the_clock_that_perfetto_takes_the_scheduler_s_times_for_is_ours() {
    let trace = trace(&[of_a_thread(1)]);

    let clocks = &trace.packet[0].clock_snapshot.as_ref().unwrap().clocks;
    let timestamp = |id| {
        clocks
            .iter()
            .find(|clock| clock.clock_id == Some(id))
            .unwrap()
            .timestamp
    };
    assert_eq!(timestamp(wire::BOOTTIME), timestamp(wire::MONOTONIC));
}

/// Ends that were not recorded leave activities open, which must not be drawn again at
/// each event.
#[test]
fn size_is_linear_in_the_events_if_their_ends_are_missing() {
    const EVENTS: u64 = 2_000;
    let mut late = episode(1);
    let from = late.evidence.from_ns;
    let begin = |after_ns: u64| FlightEvent {
        at_ns: from + Nanos::from_ns(after_ns),
        what: Happening::Begin(Activity::Irq(5)),
    };
    let begins: Vec<FlightEvent> = (1..=EVENTS).map(begin).collect();
    late.evidence.events.splice(1..1, begins);

    let packets = trace(&[late]).packet.len() as u64;

    assert!((EVENTS..5 * EVENTS).contains(&packets), "{packets}");
}
