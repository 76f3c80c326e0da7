//! Events and samples from the entries of the rings; `bpf/flight.h`, `bpf/stacks.h`.

use laggard_bpf::value::Value;
use laggard_model::{
    Activity, Address, FlightEvent, Happening, Nanos, StackSample, Throttle, Tid, Vector,
};

use super::super::interrupts::CpuInterrupts;
use shared::{
    BEFORE_MASK, BEFORE_SLEEPS, BEFORE_THROTTLED, FLIGHT_HRTIMER, FLIGHT_IDLE, FLIGHT_IRQ,
    FLIGHT_LEFT, FLIGHT_QUOTA, FLIGHT_RENAMED, FLIGHT_SOFTIRQ, FLIGHT_SWITCH, FLIGHT_TIMER,
    FLIGHT_VECTOR, FLIGHT_WORK, SERVED, VECTOR_CALL_FUNCTION, VECTOR_CALL_FUNCTION_SINGLE,
    VECTOR_IRQ_WORK, VECTOR_LOCAL_TIMER, VECTOR_RESCHEDULE, VECTOR_THERMAL,
};
pub(super) use shared::{FlightRecord, RingHead, StackSample as Sample};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; only the programs use some fields"
)]
mod shared {
    use crate::board::Shared;

    include!(concat!(env!("OUT_DIR"), "/flight.rs"));
}

/// Entry of a ring: whole words. One word is the time.
pub(super) trait Entry: Value {
    /// Offset of the time in bytes.
    const TIME_AT: usize;

    /// Builds the entry from its words; `word` returns a word by its index.
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
    pub(super) const fn time(&self) -> Nanos {
        Nanos::from_ns(self.time_ns)
    }

    pub(super) fn is_switch(&self) -> bool {
        u32::from(self.kind) == FLIGHT_SWITCH
    }

    /// Returns why the thread before a switch does not run.
    fn left(&self) -> u32 {
        u32::from(self.before) & BEFORE_MASK
    }

    /// Returns whether this is a switch to a thread that the fair server chose, or an interrupt of
    /// such a thread.
    fn is_served(&self) -> bool {
        const KINDS: [u32; 3] = [FLIGHT_SWITCH, FLIGHT_IRQ, FLIGHT_VECTOR];
        KINDS.contains(&u32::from(self.kind)) && u32::from(self.before) & SERVED != 0
    }

    /// Returns whether this is a switch to a `SCHED_OTHER` thread from a real-time thread that was
    /// able to continue: the fair server or real-time throttling took the CPU from it.
    fn is_takeover(&self) -> bool {
        self.is_switch()
            && self.left() != BEFORE_SLEEPS
            && priority(self.left_prio) < NORMAL_PRIORITY
            && priority(self.prio) >= NORMAL_PRIORITY
    }

    /// Converts the record to an event, or returns `None` if this program does not know its kind.
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

/// Converts `records`, which are in order of time, to events.
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

/// Returns the activity that starts with a record of this kind, or `None` if this program does
/// not know the kind.
pub(in crate::linux) fn activity(kind: u32, id: u32, function: Address) -> Option<Activity> {
    Some(match kind {
        FLIGHT_IRQ => match CpuInterrupts::of_machine().vector(id) {
            Some(vector) => Activity::Vector(vector),
            None => Activity::Irq(id),
        },
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

/// Returns the kernel's priority from the value in a record.
fn priority(stored: u8) -> i16 {
    i16::from(stored) - 1
}

/// Returns an interrupt of the CPU itself by its number in `enum flight_vector`.
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

/// Backward search from the end of a window through a ring's records to the last switch before
/// the window, however old: its thread runs when the window starts.
#[derive(Debug)]
pub(super) struct BackwardSearch {
    from: Nanos,
    has_arrived: bool,
}

impl BackwardSearch {
    /// Creates the search for a window that starts at `from`.
    pub(super) const fn to(from: Nanos) -> Self {
        Self {
            from,
            has_arrived: false,
        }
    }

    /// Returns whether the next older record is needed.
    pub(super) fn wants(&mut self, record: &FlightRecord) -> bool {
        let is_wanted = !self.has_arrived || record.time() >= self.from;
        // If a thread ran instead of real-time threads, the thread before it is also needed: it
        // is the thread that used up the CPU. If a thread left because its group has no CPU quota
        // left, the record before the switch has the group.
        let is_throttled = record.is_switch() && record.left() == BEFORE_THROTTLED;
        let is_above = record.is_served() || record.is_takeover() || is_throttled;
        self.has_arrived |= record.time() < self.from && record.is_switch() && !is_above;
        is_wanted
    }
}

/// Kernel priority of `SCHED_OTHER` threads; less urgent threads have larger values.
const NORMAL_PRIORITY: i16 = 100;

/// Unfinished activities are kept if they started at most this time before a window.
const CONTEXT: Nanos = Nanos::from_secs(1);

/// Removes records from `records` that are too old to affect the window from `from`. Keeps the
/// switch to the thread that runs at its start.
pub(super) fn forget_old(records: &mut Vec<FlightRecord>, from: Nanos) {
    let context = from.saturating_sub(CONTEXT);
    records.retain(|record| record.time() >= context || record.is_switch());
}

/// Gives each thread in `records`, which are in order of time, its name at the switch-out. The name
/// at the switch-in can be the name of its parent or of the previous program.
pub(super) fn give_newest_names(records: &mut [FlightRecord]) {
    for index in 0..records.len() {
        let FlightRecord { kind, id, what, .. } = records[index];
        if u32::from(kind) != FLIGHT_RENAMED {
            continue;
        }
        let its = |record: &&mut FlightRecord| record.is_switch() && record.id == id;
        records[..index]
            .iter_mut()
            .filter(its)
            .for_each(|record| record.what = what);
    }
}

/// Returns the threads that could not run because a group's quota was used up, from records in
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

/// Returns the switches to threads that the fair server chose, and the interrupts of such threads,
/// from records in order of time.
pub(super) fn served(records: &[FlightRecord]) -> Vec<Nanos> {
    let served = records.iter().filter(|record| record.is_served());
    served.map(FlightRecord::time).collect()
}

/// Converts an entry to a sample.
pub(super) fn sample(entry: &Sample) -> StackSample {
    let chain = |frames: &[u64], count: u32| {
        let count = (count as usize).min(frames.len());
        frames[..count]
            .iter()
            .map(|&address| Address(address))
            .collect()
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
    fn switch_is_read_with_name_and_priorities() {
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
    fn throttle_has_the_thread_and_its_group() {
        let quota = |time_ns: u64, tid: u32, group: u64| FlightRecord {
            what: [group, 0],
            ..record(time_ns, FLIGHT_QUOTA, tid)
        };

        let throttles = throttles(&[
            record(1, FLIGHT_SWITCH, 42),
            quota(2, 42, 7),
            record(3, FLIGHT_SWITCH, 1),
            quota(4, 43, 0),
        ]);

        let throttle = |time_ns, tid, group| Throttle {
            at_ns: Nanos::from_ns(time_ns),
            tid: Tid(tid),
            group,
        };
        assert_eq!(throttles, [throttle(2, 42, Some(7)), throttle(4, 43, None)]);
    }

    /// If a window starts while the fair server runs `SCHED_OTHER` threads, the real-time thread
    /// before them is kept, however long ago it was switched in.
    #[test]
    fn window_during_service_starts_with_the_starving_thread() {
        let flag = |before: u32| u8::try_from(before).unwrap();
        let served = |time, tid, left_prio| FlightRecord {
            before: flag(1 | SERVED),
            prio: 121,
            left_prio,
            ..record(Nanos::from_ms(time).ns(), FLIGHT_SWITCH, tid)
        };
        let spinner = FlightRecord {
            prio: 50,
            ..record(Nanos::from_ms(100).ns(), FLIGHT_SWITCH, 5)
        };
        // This kernel does not mark the fair server: only the takeover shows it.
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
            let mut back = BackwardSearch::to(Nanos::from_ms(1_020));
            let newest_first = ring.iter().rev();
            newest_first.take_while(|record| back.wants(record)).count()
        };

        assert_eq!(wanted(&ring), 3);
        assert_eq!(wanted(&[ring[0], spinner, takeover]), 2);
        assert_eq!(wanted(&[ring[0], spinner, record(2, FLIGHT_SWITCH, 9)]), 1);
        assert_eq!(super::served(&ring).len(), 2);
        let tick = FlightRecord {
            before: flag(SERVED),
            ..record(1, FLIGHT_VECTOR, 0)
        };
        let left = FlightRecord {
            kind: u8::try_from(FLIGHT_LEFT).unwrap(),
            ..tick
        };
        assert_eq!(super::served(&[tick, left]), [tick.time()]);
        assert!(!super::served(&[takeover]).contains(&takeover.time()));
    }

    #[test]
    fn window_while_a_group_is_throttled_starts_with_its_quota() {
        let ms = |time: u64| Nanos::from_ms(time).ns();
        let switch = |time, before: u32| FlightRecord {
            before: u8::try_from(before).unwrap(),
            ..record(ms(time), FLIGHT_SWITCH, 0)
        };
        let ring = [
            switch(10, BEFORE_SLEEPS),
            record(ms(20), FLIGHT_QUOTA, 42),
            switch(20, BEFORE_THROTTLED),
        ];
        let mut back = BackwardSearch::to(Nanos::from_ms(40));

        let wanted = ring.iter().rev().take_while(|record| back.wants(record));

        assert_eq!(wanted.count(), 3);
    }

    #[test]
    fn thread_that_runs_at_the_start_of_a_window_is_found_at_any_distance() {
        let ms = |time: u64| Nanos::from_ms(time).ns();
        let switch = |time| record(ms(time), FLIGHT_SWITCH, 42);
        let interrupt = |time| record(ms(time), FLIGHT_IRQ, 9);
        let ring = [
            switch(500),
            switch(1_000),
            interrupt(2_000),
            interrupt(4_800),
            interrupt(5_001),
            switch(5_002),
        ];
        let from = Nanos::from_secs(5);
        let mut back = BackwardSearch::to(from);

        let newest_first = ring.into_iter().rev();
        let mut kept_records: Vec<_> = newest_first
            .take_while(|record| back.wants(record))
            .collect();
        forget_old(&mut kept_records, from);

        let kept = kept_records
            .iter()
            .rev()
            .map(|record| record.time().ns() / ms(1));
        assert_eq!(kept.collect::<Vec<_>>(), [1_000, 4_800, 5_001, 5_002]);
    }

    #[test]
    fn renamed_thread_has_its_new_name_for_the_whole_run() {
        let named = |time, kind, id, name: &[u8; 8]| FlightRecord {
            what: [u64::from_ne_bytes(*name), 0],
            ..record(time, kind, id)
        };
        let mut records = [
            named(1, FLIGHT_SWITCH, 42, b"parent\0\0"),
            named(2, FLIGHT_SWITCH, 7, b"parent\0\0"),
            named(3, FLIGHT_SWITCH, 42, b"parent\0\0"),
            named(4, FLIGHT_RENAMED, 42, b"child\0\0\0"),
            named(5, FLIGHT_SWITCH, 7, b"parent\0\0"),
        ];

        give_newest_names(&mut records);

        let names = records
            .iter()
            .filter_map(|record| match record.event()?.what {
                Happening::Switch { tid, name, .. } => Some((tid.0, name)),
                Happening::Begin(_) | Happening::End(_) => None,
            });
        let expected = [(42, "child"), (7, "parent"), (42, "child"), (7, "parent")];
        let expected = expected.map(|(tid, name)| (tid, name.to_owned()));
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn switch_from_a_thread_without_switch_in_is_marked() {
        let records = [
            record(1, FLIGHT_SWITCH, 42),
            record(2, FLIGHT_LEFT, 7),
            record(3, FLIGHT_SWITCH, 43),
            record(4, FLIGHT_SWITCH, 44),
        ];

        let events = events(&records);

        let before = events.iter().filter_map(|record| match record.what {
            Happening::Switch { tid, before, .. } => Some((tid.0, before)),
            Happening::Begin(_) | Happening::End(_) => None,
        });
        let expected = [(42, None), (43, Some(Tid(7))), (44, None)];
        assert_eq!(before.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn record_of_a_later_version_is_ignored() {
        assert_eq!(record(1, 200, 0).event(), None);
        assert_eq!(record(1, FLIGHT_VECTOR, 99).event(), None);
    }

    #[test]
    fn end_of_a_function_does_not_name_it() {
        let end = FlightRecord {
            what: [0xdead, 0],
            ..record(1, FLIGHT_HRTIMER + 1, 0)
        };

        let event = end.event().unwrap();

        assert_eq!(event.what, Happening::End(Activity::Hrtimer(Address(0))));
    }
}
