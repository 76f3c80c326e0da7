//! From the rings' entries to events and samples; `bpf/flight.h`, `bpf/stacks.h`.

use laggard_bpf::value::Value;
use laggard_model::{
    Activity, Address, FlightEvent, Happening, Nanos, StackSample, Throttle, Tid, Vector,
};

use shared::{
    BEFORE_MASK, BEFORE_SLEEPS, FLIGHT_HRTIMER, FLIGHT_IDLE, FLIGHT_IRQ, FLIGHT_LEFT, FLIGHT_QUOTA,
    FLIGHT_RENAMED, FLIGHT_SOFTIRQ, FLIGHT_SWITCH, FLIGHT_TIMER, FLIGHT_VECTOR, FLIGHT_WORK,
    NEXT_SERVED, VECTOR_CALL_FUNCTION, VECTOR_CALL_FUNCTION_SINGLE, VECTOR_IRQ_WORK,
    VECTOR_LOCAL_TIMER, VECTOR_RESCHEDULE, VECTOR_THERMAL,
};
pub(super) use shared::{FlightRecord, RingHead, StackSample as Sample};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; the programs use some fields alone"
)]
mod shared {
    use crate::board::Shared;

    include!(concat!(env!("OUT_DIR"), "/flight.rs"));
}

/// What a ring has: entries of whole words, one of which is the time.
pub(super) trait Entry: Value {
    /// Where the time lies, in bytes.
    const TIME_AT: usize;

    /// Reads it by its words, each given by its number.
    fn from_words(word: impl Fn(usize) -> u64) -> Self;
}

impl Entry for FlightRecord {
    const TIME_AT: usize = Self::TIME_NS_AT;

    fn from_words(word: impl Fn(usize) -> u64) -> Self {
        Self::from_words(word)
    }
}

impl Entry for Sample {
    const TIME_AT: usize = Self::TIME_NS_AT;

    fn from_words(word: impl Fn(usize) -> u64) -> Self {
        Self::from_words(word)
    }
}

impl FlightRecord {
    /// When it was taken.
    pub(super) const fn time(&self) -> Nanos {
        Nanos::from_ns(self.time_ns)
    }

    /// Whether it is a switch.
    pub(super) fn is_switch(&self) -> bool {
        u32::from(self.kind) == FLIGHT_SWITCH
    }

    /// Why the thread before a switch does not run.
    fn left(&self) -> u32 {
        u32::from(self.before) & BEFORE_MASK
    }

    /// Whether it is a switch to a thread that the fair server chose.
    fn is_served(&self) -> bool {
        self.is_switch() && u32::from(self.before) & NEXT_SERVED != 0
    }

    /// Whether it is a switch to a normal thread from a real-time one that could go on:
    /// the fair server or real-time throttling took the CPU from it.
    fn is_takeover(&self) -> bool {
        self.is_switch()
            && self.left() != BEFORE_SLEEPS
            && priority(self.left_prio) < NORMAL
            && priority(self.prio) >= NORMAL
    }

    /// The event that it tells, or `None` for one that this program does not
    /// know.
    pub(super) fn event(&self) -> Option<FlightEvent> {
        let what = if self.is_switch() {
            Happening::Switch {
                tid: Tid(self.id),
                name: name(self.what),
                priority: priority(self.prio),
                priority_before: Some(priority(self.left_prio)),
                before: None,
                preempted: self.left() != BEFORE_SLEEPS,
            }
        } else {
            let ends = self.kind % 2 == 1;
            let function = Address(if ends { 0 } else { self.what[0] });
            let activity = activity(u32::from(self.kind & !1), self.id, function)?;
            if ends {
                Happening::End(activity)
            } else {
                Happening::Begin(activity)
            }
        };
        Some(FlightEvent {
            at_ns: self.time(),
            what,
        })
    }
}

/// The events that `records`, in order of time, tell.
pub(super) fn events(records: &[FlightRecord]) -> Vec<FlightEvent> {
    let mut left = None;
    let mut events = Vec::with_capacity(records.len());
    for record in records {
        if u32::from(record.kind) == FLIGHT_LEFT {
            left = Some(Tid(record.id));
            continue;
        }
        let Some(mut event) = record.event() else {
            continue;
        };
        if let Happening::Switch { before, .. } = &mut event.what {
            *before = left.take();
        }
        events.push(event);
    }
    events
}

/// What begins with a record of this kind, or `None` for one that this program
/// does not know.
pub(in crate::linux) const fn activity(kind: u32, id: u32, function: Address) -> Option<Activity> {
    Some(match kind {
        FLIGHT_IRQ => Activity::Irq(id),
        FLIGHT_VECTOR => match vector(id) {
            Some(vector) => Activity::Vector(vector),
            None => return None,
        },
        FLIGHT_SOFTIRQ => Activity::Softirq(id),
        FLIGHT_HRTIMER => Activity::Hrtimer(function),
        FLIGHT_TIMER => Activity::Timer(function),
        FLIGHT_WORK => Activity::Work(function),
        FLIGHT_IDLE => Activity::Idle(id),
        _ => return None,
    })
}

/// A priority as the kernel counts, of one in a record.
fn priority(stored: u8) -> i16 {
    i16::from(stored) - 1
}

/// An interrupt of the CPU itself, by its number in `enum flight_vector`.
const fn vector(id: u32) -> Option<Vector> {
    Some(match id {
        VECTOR_LOCAL_TIMER => Vector::LocalTimer,
        VECTOR_RESCHEDULE => Vector::Reschedule,
        VECTOR_CALL_FUNCTION => Vector::CallFunction,
        VECTOR_CALL_FUNCTION_SINGLE => Vector::CallFunctionSingle,
        VECTOR_IRQ_WORK => Vector::IrqWork,
        VECTOR_THERMAL => Vector::Thermal,
        _ => return None,
    })
}

/// Goes back from the end of a window through a ring's records, to the switch
/// before the window however long ago that was: who was switched in then runs as
/// it begins.
#[derive(Debug)]
pub(super) struct GoingBack {
    from: Nanos,
    has_arrived: bool,
}

impl GoingBack {
    /// For a window that begins at `from`.
    pub(super) const fn to(from: Nanos) -> Self {
        Self {
            from,
            has_arrived: false,
        }
    }

    /// Whether the next older record is wanted.
    pub(super) fn wants(&mut self, record: &FlightRecord) -> bool {
        let is_wanted = !self.has_arrived || record.time() >= self.from;
        // Of a thread that was run above real-time threads, the thread before it is wanted
        // too: it is the one that kept the CPU.
        let is_above = record.is_served() || record.is_takeover();
        self.has_arrived |= record.time() < self.from && record.is_switch() && !is_above;
        is_wanted
    }
}

/// Priority of normal threads, and less urgent ones, as the kernel counts.
const NORMAL: i16 = 100;

/// How far before a window the activities are kept that may not have ended.
const CONTEXT: Nanos = Nanos::from_secs(1);

/// Leaves out of `records` what is older than the window from `from` on can
/// have to do with: not the switch to who runs then.
pub(super) fn forget_old(records: &mut Vec<FlightRecord>, from: Nanos) {
    let context = from.saturating_sub(CONTEXT);
    records.retain(|record| record.time() >= context || record.is_switch());
}

/// Gives each thread of `records`, which are in order of time, the name that it
/// left by, in what was recorded of it before: it had that name at the end of its
/// stay, and what it was called at the beginning was its parent's, or that of the
/// program that it ran before.
pub(super) fn give_newest_names(records: &mut [FlightRecord]) {
    for at in 0..records.len() {
        let FlightRecord { kind, id, what, .. } = records[at];
        if u32::from(kind) != FLIGHT_RENAMED {
            continue;
        }
        let its = |one: &&mut FlightRecord| one.is_switch() && one.id == id;
        records[..at]
            .iter_mut()
            .filter(its)
            .for_each(|one| one.what = what);
    }
}

/// The threads that could not run because a group's quota was used up, from records in
/// order of time.
pub(super) fn throttles(records: &[FlightRecord]) -> Vec<Throttle> {
    let of_quota = records
        .iter()
        .filter(|record| u32::from(record.kind) == FLIGHT_QUOTA);
    of_quota
        .map(|record| Throttle {
            at_ns: record.time(),
            tid: Tid(record.id),
            group: Some(record.what[0]).filter(|&group| group != 0),
        })
        .collect()
}

/// The switches to threads that the fair server chose, from records in order of time.
pub(super) fn served(records: &[FlightRecord]) -> Vec<Nanos> {
    let served = records.iter().filter(|record| record.is_served());
    served.map(FlightRecord::time).collect()
}

/// The sample that an entry tells.
pub(super) fn sample(entry: &Sample) -> StackSample {
    let chain = |frames: &[u64], count: u32| {
        let count = (count as usize).min(frames.len());
        frames[..count].iter().map(|&at| Address(at)).collect()
    };
    StackSample {
        at_ns: Nanos::from_ns(entry.time_ns),
        tid: Tid(entry.tid),
        process: entry.tgid,
        priority: i16::try_from(entry.prio).ok(),
        kernel: chain(&entry.kernel, entry.nr_kernel),
        user: chain(&entry.user, entry.nr_user),
    }
}

fn name(words: [u64; 2]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time_ns: u64, kind: u32, id: u32) -> FlightRecord {
        FlightRecord {
            time_ns,
            id,
            kind: u8::try_from(kind).unwrap(),
            ..FlightRecord::default()
        }
    }

    #[test]
    fn a_switch_is_read_with_name_and_priorities() {
        let record = FlightRecord {
            before: 1,
            prio: 0,
            left_prio: 140,
            what: [
                u64::from_ne_bytes(*b"kworker/"),
                u64::from_ne_bytes(*b"1:2\0junk"),
            ],
            ..record(7, FLIGHT_SWITCH, 42)
        };

        let event = record.event().unwrap();

        assert!(record.is_switch());
        assert_eq!(event.at_ns, Nanos::from_ns(7));
        assert_eq!(
            event.what,
            Happening::Switch {
                tid: Tid(42),
                name: "kworker/1:2".into(),
                priority: -1,
                priority_before: Some(139),
                before: None,
                preempted: true,
            }
        );
    }

    #[test]
    fn throttles_have_the_thread_and_its_group() {
        let quota = |at: u64, tid: u32, group: u64| FlightRecord {
            what: [group, 0],
            ..record(at, FLIGHT_QUOTA, tid)
        };

        let throttles = throttles(&[
            record(1, FLIGHT_SWITCH, 42),
            quota(2, 42, 7),
            record(3, FLIGHT_SWITCH, 1),
            quota(4, 43, 0),
        ]);

        let throttle = |at, tid, group| Throttle {
            at_ns: Nanos::from_ns(at),
            tid: Tid(tid),
            group,
        };
        assert_eq!(throttles, [throttle(2, 42, Some(7)), throttle(4, 43, None)]);
    }

    /// Of a window that starts while the fair server runs normal threads, the real-time
    /// thread before them is kept, however long ago it was switched in.
    #[test]
    fn window_during_service_starts_with_the_starving_thread() {
        let flag = |before: u32| u8::try_from(before).unwrap();
        let served = |at, tid, left_prio| FlightRecord {
            before: flag(1 | NEXT_SERVED),
            prio: 121,
            left_prio,
            ..record(Nanos::from_ms(at).ns(), FLIGHT_SWITCH, tid)
        };
        let spinner = FlightRecord {
            prio: 50,
            ..record(Nanos::from_ms(100).ns(), FLIGHT_SWITCH, 5)
        };
        // The kernel that runs does not mark service: the takeover alone shows it.
        let takeover = FlightRecord {
            before: flag(1),
            ..served(1_000, 7, 50)
        };
        let ring = [
            record(Nanos::from_ms(1).ns(), FLIGHT_SWITCH, 4),
            spinner,
            served(1_000, 7, 50),
            served(1_010, 8, 121),
        ];
        let wanted = |ring: &[FlightRecord]| {
            let mut back = GoingBack::to(Nanos::from_ms(1_020));
            let newest_first = ring.iter().rev();
            newest_first.take_while(|one| back.wants(one)).count()
        };

        assert_eq!(wanted(&ring), 3);
        assert_eq!(wanted(&[ring[0], spinner, takeover]), 2);
        assert_eq!(wanted(&[ring[0], spinner, record(2, FLIGHT_SWITCH, 9)]), 1);
        assert_eq!(super::served(&ring).len(), 2);
        assert!(!super::served(&[takeover]).contains(&takeover.time()));
    }

    #[test]
    fn who_runs_as_a_window_begins_is_known_however_long_ago_it_was_switched_in() {
        let ms = |at: u64| Nanos::from_ms(at).ns();
        let switch = |at| record(ms(at), FLIGHT_SWITCH, 42);
        let interrupt = |at| record(ms(at), FLIGHT_IRQ, 9);
        let ring = [
            switch(500),
            switch(1_000),
            interrupt(2_000),
            interrupt(4_800),
            interrupt(5_001),
            switch(5_002),
        ];
        let from = Nanos::from_secs(5);
        let mut back = GoingBack::to(from);

        let newest_first = ring.into_iter().rev();
        let mut found: Vec<_> = newest_first.take_while(|one| back.wants(one)).collect();
        forget_old(&mut found, from);

        let kept = found.iter().rev().map(|one| one.time().ns() / ms(1));
        assert_eq!(kept.collect::<Vec<_>>(), [1_000, 4_800, 5_001, 5_002]);
    }

    #[test]
    fn a_thread_that_leaves_by_a_new_name_had_it_while_it_ran() {
        let named = |at, kind, id, name: &[u8; 8]| FlightRecord {
            what: [u64::from_ne_bytes(*name), 0],
            ..record(at, kind, id)
        };
        let mut records = [
            named(1, FLIGHT_SWITCH, 42, b"parent\0\0"),
            named(2, FLIGHT_SWITCH, 7, b"parent\0\0"),
            named(3, FLIGHT_SWITCH, 42, b"parent\0\0"),
            named(4, FLIGHT_RENAMED, 42, b"child\0\0\0"),
            named(5, FLIGHT_SWITCH, 7, b"parent\0\0"),
        ];

        give_newest_names(&mut records);

        let names = records.iter().filter_map(|one| match one.event()?.what {
            Happening::Switch { tid, name, .. } => Some((tid.0, name)),
            Happening::Begin(_) | Happening::End(_) => None,
        });
        let expected = [(42, "child"), (7, "parent"), (42, "child"), (7, "parent")];
        let expected = expected.map(|(tid, name)| (tid, name.to_owned()));
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_switch_from_a_thread_that_was_not_seen_to_come_says_so() {
        let records = [
            record(1, FLIGHT_SWITCH, 42),
            record(2, FLIGHT_LEFT, 7),
            record(3, FLIGHT_SWITCH, 43),
            record(4, FLIGHT_SWITCH, 44),
        ];

        let events = events(&records);

        let before = events.iter().filter_map(|one| match one.what {
            Happening::Switch { tid, before, .. } => Some((tid.0, before)),
            Happening::Begin(_) | Happening::End(_) => None,
        });
        let expected = [(42, None), (43, Some(Tid(7))), (44, None)];
        assert_eq!(before.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_record_of_a_later_version_is_left_out() {
        assert_eq!(record(1, 200, 0).event(), None);
        assert_eq!(record(1, FLIGHT_VECTOR, 99).event(), None);
    }

    #[test]
    fn the_end_of_a_function_does_not_say_which() {
        let end = FlightRecord {
            what: [0xdead, 0],
            ..record(1, FLIGHT_HRTIMER + 1, 0)
        };

        let event = end.event().unwrap();

        assert_eq!(event.what, Happening::End(Activity::Hrtimer(Address(0))));
    }
}
