//! Shared state and records of the threads of a ring. Processes can share this memory too, so all
//! of it is atomic.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use laggard_model::{
    Absence, Interruption, Lacks, Nanos, SwitchStretch, SwitchSums, SwitchWatched,
};

use super::token::{wait_for, wake};
use crate::system::mapping::Mapped;
use laggard_measure::board::{Memory as _, Shared};

/// State of the ring: last switch, and counts.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct RingState {
    /// Whether the start time is set; a futex.
    is_begin_set: AtomicU32,
    pub(super) is_over: AtomicU32,
    /// Start time in ns; 0: no start.
    begin: AtomicU64,
    /// Time before the last context switch in ns; 0: not measured.
    pub(super) stamp: AtomicU64,
    /// Time of interruptions up to then in ns.
    pub(super) taken: AtomicU64,
    /// Steal time up to then in ns.
    pub(super) stolen: AtomicU64,
    /// Thread that switched last, from 1; 0: none yet.
    pub(super) last: AtomicU64,
    /// Number of returns from pauses, over all threads and pauses.
    pub(super) came: AtomicU64,
    /// Start in ns of the latest run that a thread has left for its pause.
    pub(super) left: AtomicU64,
    /// Whether a switch was not stored since the last stored one.
    pub(super) is_apart: AtomicU64,
    /// Number of stored switches, and of switches that did not fit.
    count: AtomicU64,
}

// SAFETY: only atomics, in sequence without padding; zeros are valid.
unsafe impl Shared for RingState {}

/// Progress of one thread.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Member {
    step: AtomicU64,
    /// Kernel's count of the times that it left its CPU.
    pub(super) left_cpu: AtomicU64,
    /// Number of times that this was not a measured switch.
    pub(super) unkept: AtomicU64,
    /// Duration of an undisturbed access to its working set in ns.
    pub(super) alone_ns: AtomicU64,
    /// Obstacle: length of its reason, length of its remedy, and its kind.
    lacks: [AtomicU64; 3],
    /// Both texts.
    texts: [AtomicU64; TEXT_WORDS],
}

/// Size of the buffer for a reason and a remedy.
const TEXT_WORDS: usize = 121;
const TEXT_BYTES: usize = TEXT_WORDS * size_of::<u64>();

// SAFETY: as above.
unsafe impl Shared for Member {}

/// Step of a thread.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum MemberStep {
    /// It is not ready yet.
    Begun,
    /// It is ready.
    Ready,
    /// It cannot get ready.
    Refused(Absence),
    /// It could not continue, or its placement was changed.
    Broken(Absence),
    /// It has ended.
    Done,
}

const LACKS: [Lacks; 3] = [Lacks::Rights, Lacks::Kernel, Lacks::Machine];

impl Member {
    /// Reports the step of the calling thread.
    pub(super) fn tell(&self, step: &MemberStep) {
        let (number, absence) = match step {
            MemberStep::Begun => (0, None),
            MemberStep::Ready => (1, None),
            MemberStep::Refused(absence) => (2, Some(absence)),
            MemberStep::Broken(absence) => (3, Some(absence)),
            MemberStep::Done => (4, None),
        };
        if let Some(absence) = absence {
            self.write(absence);
        }
        self.step.store(number, Ordering::Release);
    }

    /// Returns the thread's step.
    pub(super) fn step(&self) -> MemberStep {
        match self.step.load(Ordering::Acquire) {
            0 => MemberStep::Begun,
            1 => MemberStep::Ready,
            2 => MemberStep::Refused(self.read()),
            3 => MemberStep::Broken(self.read()),
            _ => MemberStep::Done,
        }
    }

    fn write(&self, absence: &Absence) {
        let reason = cut(&absence.reason, TEXT_BYTES / 2);
        let remedy = cut(&absence.remedy, TEXT_BYTES - reason.len());
        let mut bytes = [reason, remedy].concat().into_bytes();
        bytes.resize(TEXT_BYTES, 0);
        for (word, bytes) in self.texts.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let whose = LACKS.iter().position(|&lack| lack == absence.lacks);
        let numbers = [reason.len(), remedy.len(), whose.unwrap_or(0)];
        for (word, number) in self.lacks.iter().zip(numbers) {
            word.store(number as u64, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Absence {
        let words = self.texts.iter();
        let bytes: Vec<u8> = words
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .collect();
        let number = |place: usize| {
            let number = self.lacks[place].load(Ordering::Relaxed);
            usize::try_from(number).unwrap_or(0)
        };
        let (reason, rest) = bytes.split_at(number(0).min(bytes.len()));
        let remedy = &rest[..number(1).min(rest.len())];
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Absence::new(
            text(reason),
            text(remedy),
            LACKS[number(2).min(LACKS.len() - 1)],
        )
    }
}

/// Cuts a text at `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// One stored context switch.
#[derive(Debug, Default)]
#[repr(C)]
struct StoredSwitch {
    took_ns: AtomicU32,
    taken_ns: AtomicU32,
    stolen_ns: AtomicU32,
    /// Time before it in ns since the start, with [`FOLLOWS`].
    at_ns: AtomicU32,
}

/// Flag: it directly follows the previous one.
const FOLLOWS: u32 = 1 << 31;

// SAFETY: as above.
unsafe impl Shared for StoredSwitch {}

/// Memory of one stretch.
#[derive(Debug)]
pub(super) struct SharedRing {
    state: Mapped<RingState>,
    members: Mapped<Member>,
    kept: Mapped<StoredSwitch>,
}

impl SharedRing {
    /// Size of one stored switch in bytes.
    pub(super) const STORED_BYTES: u64 = size_of::<StoredSwitch>() as u64;

    /// Creates the memory for `threads` threads and `room` switches.
    pub(super) fn new(threads: usize, room: u64) -> io::Result<Self> {
        Ok(Self {
            state: Mapped::anonymous(1)?,
            members: Mapped::anonymous(threads)?,
            kept: Mapped::anonymous(usize::try_from(room).unwrap_or(usize::MAX))?,
        })
    }

    pub(super) fn state(&self) -> &RingState {
        &self.state.all()[0]
    }

    pub(super) fn member(&self, own: usize) -> &Member {
        &self.members.all()[own]
    }

    /// Returns the step of each thread.
    pub(super) fn steps(&self) -> impl Iterator<Item = MemberStep> + '_ {
        self.members.all().iter().map(Member::step)
    }

    /// Starts all ready threads at a given time; `None` ends them.
    pub(super) fn begin(&self, start: Option<Nanos>) {
        let state = self.state();
        state
            .begin
            .store(start.map_or(0, Nanos::ns), Ordering::Relaxed);
        state.is_begin_set.store(1, Ordering::Release);
        // A thread that does not wait yet will find it set.
        let _ = wake(&state.is_begin_set, i32::MAX);
    }

    /// Waits until the start time is set.
    pub(super) fn await_begin(&self) -> Option<Nanos> {
        let state = self.state();
        while state.is_begin_set.load(Ordering::Acquire) == 0 {
            wait_for(&state.is_begin_set, 0).ok()?;
        }
        match state.begin.load(Ordering::Relaxed) {
            0 => None,
            start => Some(Nanos::from_ns(start)),
        }
    }

    /// Touches all of it, in a process that did not map it itself.
    #[cfg(target_os = "linux")]
    pub(super) fn touch(&self) {
        for page in self.kept.all().chunks(4096 / size_of::<StoredSwitch>()) {
            page[0].took_ns.load(Ordering::Relaxed);
        }
        for member in self.members.all() {
            member.unkept.load(Ordering::Relaxed);
        }
        self.state().count.load(Ordering::Relaxed);
    }

    /// Stores a switch: the time before it, its duration, and interruptions and steal time during
    /// it, in ns.
    pub(super) fn push(&self, stamp: u64, took: u64, taken: u64, stolen: u64) {
        let state = self.state();
        let follows = state.is_apart.swap(0, Ordering::Relaxed) == 0;
        let place = state.count.fetch_add(1, Ordering::Relaxed);
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let Some(kept) = self.kept.all().get(place) else {
            return;
        };
        let least = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        kept.took_ns.store(least(took), Ordering::Relaxed);
        kept.taken_ns.store(least(taken), Ordering::Relaxed);
        kept.stolen_ns.store(least(stolen), Ordering::Relaxed);
        let since = stamp.saturating_sub(state.begin.load(Ordering::Relaxed));
        let since_ns = least(since).min(FOLLOWS - 1);
        let follows = if follows { FOLLOWS } else { 0 };
        kept.at_ns.store(since_ns | follows, Ordering::Relaxed);
    }

    /// Returns the stored switches. `sums` are the sums of the BPF programs.
    pub(super) fn seen(&self, sums: Option<SwitchSums>) -> SwitchStretch {
        let count = self.state().count.load(Ordering::Acquire);
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let kept = &self.kept.all()[..most.min(self.kept.all().len())];
        let read = |field: &AtomicU32| field.load(Ordering::Relaxed);
        let between = |stored: &StoredSwitch| Interruption {
            taken_ns: read(&stored.taken_ns),
            stolen_ns: read(&stored.stolen_ns),
            follows: read(&stored.at_ns) & FOLLOWS != 0,
        };
        let sum_of = |field: fn(&Member) -> &AtomicU64| -> u64 {
            let members = self.members.all().iter();
            members
                .map(|stored| field(stored).load(Ordering::Relaxed))
                .sum()
        };
        SwitchStretch {
            begin: Nanos::from_ns(self.state().begin.load(Ordering::Relaxed)),
            at_ns: kept
                .iter()
                .map(|stored| read(&stored.at_ns) & !FOLLOWS)
                .collect(),
            took_ns: kept.iter().map(|stored| read(&stored.took_ns)).collect(),
            watched: sums.map(|sums| SwitchWatched {
                between: kept.iter().map(between).collect(),
                sums,
            }),
            counted_by_kernel: sum_of(|stored| &stored.left_cpu),
            left_out: count - kept.len() as u64,
            unkept: sum_of(|stored| &stored.unkept),
            alone_ns: {
                let members = self.members.all().iter();
                let mut alone: Vec<u64> = members
                    .map(|stored| stored.alone_ns.load(Ordering::Relaxed))
                    .collect();
                alone.sort_unstable();
                alone[alone.len() / 2]
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_without_room_are_counted_and_stored_ones_are_in_order() {
        let ring = SharedRing::new(1, 2).unwrap();

        ring.begin(Some(Nanos::from_ns(1_000)));
        ring.push(1_050, 600, 0, 0);
        ring.state().is_apart.store(1, Ordering::Relaxed);
        ring.push(u64::MAX, u64::MAX, 20, 30);
        ring.push(1_900, 700, 0, 0);

        let stretch = ring.seen(Some(SwitchSums::default()));
        // A page has room for more than two, and all of it is used.
        assert_eq!(stretch.took_ns[..2], [600, u32::MAX]);
        assert_eq!(stretch.took_ns.len() as u64 + stretch.left_out, 3);
        let between = stretch.watched.unwrap().between;
        assert_eq!((between[1].taken_ns, between[1].stolen_ns), (20, 30));
        assert!(between[0].follows && !between[1].follows);
        assert_eq!(stretch.begin, Nanos::from_ns(1_000));
        assert_eq!(stretch.at_ns[..2], [50, FOLLOWS - 1]);
    }

    #[test]
    fn step_of_a_thread_reads_as_it_was_reported() {
        let ring = SharedRing::new(1, 1).unwrap();
        let member = ring.member(0);
        assert_eq!(member.step(), MemberStep::Begun);

        let absence = Absence::new("CPU 1: refused, not yet", "wait", Lacks::Machine);
        for step in [
            MemberStep::Ready,
            MemberStep::Refused(absence.clone()),
            MemberStep::Broken(absence),
            MemberStep::Done,
        ] {
            member.tell(&step);

            assert_eq!(member.step(), step);
        }
    }

    #[test]
    fn long_reason_is_cut_at_a_character_boundary() {
        let ring = SharedRing::new(1, 1).unwrap();
        let absence = Absence::new(
            "\u{e4}".repeat(TEXT_BYTES),
            "\u{e4}".repeat(TEXT_BYTES),
            Lacks::Rights,
        );

        ring.member(0).tell(&MemberStep::Refused(absence));

        let MemberStep::Refused(read) = ring.member(0).step() else {
            panic!("it was refused");
        };
        for text in [&read.reason, &read.remedy] {
            assert!(text.len() > TEXT_BYTES / 3, "{text}");
            assert!(text.chars().all(|letter| letter == '\u{e4}'), "{text}");
        }
    }
}
