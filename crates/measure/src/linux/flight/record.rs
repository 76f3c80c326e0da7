//! From the rings' words to events and samples; `bpf/flight.h`, `bpf/stacks.h`.

use laggard_model::{
    Activity, Address, FlightEvent, Happening, Nanos, StackSample, Throttle, Tid, Vector,
};

/// 8-byte words of a `struct flight_record`.
pub(super) const RECORD_WORDS: usize = 4;
/// 8-byte words of a `struct stack_sample`.
pub(super) const SAMPLE_WORDS: usize = 64;
/// Most frames of one chain: `STACK_FRAMES`.
const FRAMES: usize = 30;
/// `enum flight_kind`.
const SWITCH: u8 = 14;
/// `BEFORE_THROTTLED` of `enum flight_before`.
const THROTTLED: u8 = 2;
/// Of the words of a sample, those before the frames.
const SAMPLE_HEAD: usize = 3;

/// Interrupts of the CPU itself, in the order of `enum flight_vector`.
const VECTORS: [Vector; 6] = [
    Vector::LocalTimer,
    Vector::Reschedule,
    Vector::CallFunction,
    Vector::CallFunctionSingle,
    Vector::IrqWork,
    Vector::Thermal,
];

/// When a record or a sample was taken.
pub(super) fn time(words: &[u64]) -> Nanos {
    Nanos::from_ns(words[0])
}

/// Whether a record is a switch.
pub(super) fn is_switch(words: &[u64; RECORD_WORDS]) -> bool {
    kind_of(words) == SWITCH
}

fn kind_of(words: &[u64; RECORD_WORDS]) -> u8 {
    words[1].to_le_bytes()[4]
}

/// The threads that were switched out because their group was throttled, from
/// records in order of time.
pub(super) fn throttles(records: &[[u64; RECORD_WORDS]]) -> Vec<Throttle> {
    let switches: Vec<_> = records.iter().filter(|words| is_switch(words)).collect();
    switches
        .windows(2)
        .filter(|two| two[1][1].to_le_bytes()[5] == THROTTLED)
        .map(|two| Throttle {
            at_ns: time(two[1]),
            tid: Tid(id_of(two[0])),
        })
        .collect()
}

fn id_of(words: &[u64; RECORD_WORDS]) -> u32 {
    let bytes = words[1].to_le_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The event that a record tells, or `None` for one that this program does
/// not know.
pub(super) fn event(words: &[u64; RECORD_WORDS]) -> Option<FlightEvent> {
    let bytes = words[1].to_le_bytes();
    let (id, kind) = (id_of(words), kind_of(words));
    let what = if kind == SWITCH {
        Happening::Switch {
            tid: Tid(id),
            name: name(&words[2..]),
            priority: i16::from_le_bytes([bytes[6], bytes[7]]),
            preempted: bytes[5] != 0,
        }
    } else {
        let ends = kind % 2 == 1;
        let function = Address(if ends { 0 } else { words[2] });
        let activity = match kind & !1 {
            0 => Activity::Irq(id),
            2 => Activity::Vector(*VECTORS.get(id as usize)?),
            4 => Activity::Softirq(id),
            6 => Activity::Hrtimer(function),
            8 => Activity::Timer(function),
            10 => Activity::Work(function),
            12 => Activity::Idle(id),
            _ => return None,
        };
        match ends {
            true => Happening::End(activity),
            false => Happening::Begin(activity),
        }
    };
    Some(FlightEvent {
        at_ns: time(words),
        what,
    })
}

/// The sample that its words tell.
pub(super) fn sample(words: &[u64; SAMPLE_WORDS]) -> StackSample {
    let halves = |word: u64| {
        let bytes = word.to_le_bytes();
        let half = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        (half(0), half(4))
    };
    let (tid, process) = halves(words[1]);
    let (nr_kernel, nr_user) = halves(words[2]);
    let chain = |first: usize, count: u32| {
        let count = (count as usize).min(FRAMES);
        words[first..first + count]
            .iter()
            .map(|&at| Address(at))
            .collect()
    };
    StackSample {
        at_ns: time(words),
        tid: Tid(tid),
        process,
        priority: i16::try_from(words[SAMPLE_WORDS - 1].cast_signed()).ok(),
        kernel: chain(SAMPLE_HEAD, nr_kernel),
        user: chain(SAMPLE_HEAD + FRAMES, nr_user),
    }
}

fn name(words: &[u64]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_read_with_name_and_priority() {
        let bytes = [0x2a, 0, 0, 0, SWITCH, 1, 0xff, 0xff];
        let words = [
            7,
            u64::from_le_bytes(bytes),
            u64::from_le_bytes(*b"kworker/"),
            u64::from_le_bytes(*b"1:2\0junk"),
        ];

        let event = event(&words).unwrap();

        assert!(is_switch(&words));
        assert_eq!(event.at_ns, Nanos::from_ns(7));
        assert_eq!(
            event.what,
            Happening::Switch {
                tid: Tid(42),
                name: "kworker/1:2".into(),
                priority: -1,
                preempted: true,
            }
        );
    }

    #[test]
    fn a_thread_that_is_switched_out_with_its_group_is_told() {
        let switch = |at: u64, tid: u8, before: u8| {
            [
                at,
                u64::from_le_bytes([tid, 0, 0, 0, SWITCH, before, 120, 0]),
                0,
                0,
            ]
        };

        let told = throttles(&[switch(1, 42, 0), [2, 0, 0, 0], switch(3, 7, THROTTLED)]);

        let throttle = Throttle {
            at_ns: Nanos::from_ns(3),
            tid: Tid(42),
        };
        assert_eq!(told, [throttle]);
        assert_eq!(throttles(&[switch(1, 42, 0), switch(3, 7, 1)]), []);
    }

    #[test]
    fn a_record_of_a_later_version_is_left_out() {
        assert_eq!(event(&[1, 200 << 32, 0, 0]), None);
        assert_eq!(event(&[1, 2 << 32 | 99, 0, 0]), None);
    }

    #[test]
    fn the_end_of_a_function_does_not_say_which() {
        let event = event(&[1, 7 << 32, 0xdead, 0]).unwrap();

        assert_eq!(event.what, Happening::End(Activity::Hrtimer(Address(0))));
    }
}
