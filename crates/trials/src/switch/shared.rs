//! What the threads of a ring share, and what they keep. It is memory that
//! processes can share too, so all of it is atomic.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use laggard_model::{
    Absence, Interruption, Lacks, Nanos, SwitchStretch, SwitchSums, SwitchWatched,
};

use super::token::{wait_for, wake};
use laggard_measure::board::{Memory as _, Shared};
use laggard_measure::linux::mapping::Mapped;

/// Who hands over, and when.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct RingState {
    /// Whether it is said when it begins: a futex.
    is_said: AtomicU32,
    pub(super) is_over: AtomicU32,
    /// When it begins, ns; 0: not at all.
    begin: AtomicU64,
    /// The instant before the last hand-over, ns; 0: one that is not kept.
    pub(super) stamp: AtomicU64,
    /// What had been taken by then, ns,
    pub(super) taken: AtomicU64,
    /// and stolen.
    pub(super) stolen: AtomicU64,
    /// Who handed over, from 1; 0: nobody yet.
    pub(super) last: AtomicU64,
    /// How many came back from pauses so far, all threads and pauses together.
    pub(super) came: AtomicU64,
    /// The latest run that somebody left for its pause: when it began, ns.
    pub(super) left: AtomicU64,
    /// Whether something was not kept since the last hand-over that was.
    pub(super) is_apart: AtomicU64,
    /// Hand-overs kept, and those that there was no room for.
    count: AtomicU64,
}

// SAFETY: atomics, one after the other without padding; zeros are a value.
unsafe impl Shared for RingState {}

/// How far one thread is.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Member {
    step: AtomicU64,
    /// How often the kernel counted that it left its CPU.
    pub(super) left_cpu: AtomicU64,
    /// How often that was no hand-over to be measured.
    pub(super) unkept: AtomicU64,
    /// What going through its memory takes it alone, ns.
    pub(super) alone_ns: AtomicU64,
    /// What it lacks: how long its reason is, its remedy, and whose it is,
    lacks: [AtomicU64; 3],
    /// and both texts.
    texts: [AtomicU64; TEXT_WORDS],
}

/// Room for a reason and a remedy.
const TEXT_WORDS: usize = 121;
const TEXT_BYTES: usize = TEXT_WORDS * size_of::<u64>();

// SAFETY: as above.
unsafe impl Shared for Member {}

/// How far a thread is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum MemberStep {
    /// It is not what it is to be yet.
    Begun,
    /// It is.
    Ready,
    /// It cannot be.
    Refused(Absence),
    /// It could not go on, or is not what it was.
    Broken(Absence),
    /// It has come to its end.
    Done,
}

const LACKS: [Lacks; 3] = [Lacks::Rights, Lacks::Kernel, Lacks::Machine];

impl Member {
    /// Says how far the calling thread is.
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

    /// How far it is.
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
        let whose = LACKS.iter().position(|&one| one == absence.lacks);
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
        Absence {
            reason: text(reason),
            remedy: text(remedy),
            lacks: LACKS[number(2).min(LACKS.len() - 1)],
        }
    }
}

/// As much of a text as there is room for.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// One hand-over that was kept.
#[derive(Debug, Default)]
#[repr(C)]
struct Kept {
    took_ns: AtomicU32,
    taken_ns: AtomicU32,
    stolen_ns: AtomicU32,
    /// The instant before it, ns since the begin, with [`FOLLOWS`].
    at_ns: AtomicU32,
}

/// It came right after the one before it.
const FOLLOWS: u32 = 1 << 31;

// SAFETY: as above.
unsafe impl Shared for Kept {}

/// The memory of one stretch.
#[derive(Debug)]
pub(super) struct SharedRing {
    state: Mapped<RingState>,
    members: Mapped<Member>,
    kept: Mapped<Kept>,
}

impl SharedRing {
    /// Of one hand-over.
    pub(super) const KEPT_BYTES: u64 = size_of::<Kept>() as u64;

    /// For so many threads and hand-overs.
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

    /// How far each of them is.
    pub(super) fn steps(&self) -> impl Iterator<Item = MemberStep> + '_ {
        self.members.all().iter().map(Member::step)
    }

    /// Lets all that are ready begin at an instant; `None` sends them home.
    pub(super) fn begin(&self, at: Option<Nanos>) {
        let state = self.state();
        state
            .begin
            .store(at.map_or(0, Nanos::ns), Ordering::Relaxed);
        state.is_said.store(1, Ordering::Release);
        // Who does not wait yet will find it said.
        let _ = wake(&state.is_said, i32::MAX);
    }

    /// Waits until it is said when it begins.
    pub(super) fn await_begin(&self) -> Option<Nanos> {
        let state = self.state();
        while state.is_said.load(Ordering::Acquire) == 0 {
            wait_for(&state.is_said, 0).ok()?;
        }
        match state.begin.load(Ordering::Relaxed) {
            0 => None,
            at => Some(Nanos::from_ns(at)),
        }
    }

    /// Touches all of it, in a process that did not map it itself.
    pub(super) fn touch(&self) {
        for page in self.kept.all().chunks(4096 / size_of::<Kept>()) {
            page[0].took_ns.load(Ordering::Relaxed);
        }
        for member in self.members.all() {
            member.unkept.load(Ordering::Relaxed);
        }
        self.state().count.load(Ordering::Relaxed);
    }

    /// Keeps a hand-over: the instant before it, how long it took, and what was taken
    /// and stolen meanwhile, ns each.
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
        let at = least(since).min(FOLLOWS - 1);
        let follows = if follows { FOLLOWS } else { 0 };
        kept.at_ns.store(at | follows, Ordering::Relaxed);
    }

    /// What was kept; `sums`: of what watched.
    pub(super) fn seen(&self, sums: Option<SwitchSums>) -> SwitchStretch {
        let count = self.state().count.load(Ordering::Acquire);
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let kept = &self.kept.all()[..most.min(self.kept.all().len())];
        let read = |of: &AtomicU32| of.load(Ordering::Relaxed);
        let between = |one: &Kept| Interruption {
            taken_ns: read(&one.taken_ns),
            stolen_ns: read(&one.stolen_ns),
            follows: read(&one.at_ns) & FOLLOWS != 0,
        };
        let all = |of: fn(&Member) -> &AtomicU64| -> u64 {
            let members = self.members.all().iter();
            members.map(|one| of(one).load(Ordering::Relaxed)).sum()
        };
        SwitchStretch {
            begin: Nanos::from_ns(self.state().begin.load(Ordering::Relaxed)),
            at_ns: kept.iter().map(|one| read(&one.at_ns) & !FOLLOWS).collect(),
            took_ns: kept.iter().map(|one| read(&one.took_ns)).collect(),
            watched: sums.map(|sums| SwitchWatched {
                between: kept.iter().map(between).collect(),
                sums,
            }),
            counted_by_kernel: all(|one| &one.left_cpu),
            left_out: count - kept.len() as u64,
            unkept: all(|one| &one.unkept),
            alone_ns: {
                let members = self.members.all().iter();
                let mut alone: Vec<u64> = members
                    .map(|one| one.alone_ns.load(Ordering::Relaxed))
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
    fn what_has_no_room_is_counted_and_what_is_kept_is_in_order() {
        let ring = SharedRing::new(1, 2).unwrap();

        ring.begin(Some(Nanos::from_ns(1_000)));
        ring.push(1_050, 600, 0, 0);
        ring.state().is_apart.store(1, Ordering::Relaxed);
        ring.push(u64::MAX, u64::MAX, 20, 30);
        ring.push(1_900, 700, 0, 0);

        let seen = ring.seen(Some(SwitchSums::default()));
        // A page has room for more than two; what it has is used.
        assert_eq!(seen.took_ns[..2], [600, u32::MAX]);
        assert_eq!(seen.took_ns.len() as u64 + seen.left_out, 3);
        let between = seen.watched.unwrap().between;
        assert_eq!((between[1].taken_ns, between[1].stolen_ns), (20, 30));
        assert!(between[0].follows && !between[1].follows);
        assert_eq!(seen.begin, Nanos::from_ns(1_000));
        assert_eq!(seen.at_ns[..2], [50, FOLLOWS - 1]);
    }

    #[test]
    fn how_far_a_thread_is_reads_as_it_was_told() {
        let ring = SharedRing::new(1, 1).unwrap();
        let member = ring.member(0);
        assert_eq!(member.step(), MemberStep::Begun);

        let absence = Absence {
            reason: "CPU 1: refused, not yet".into(),
            remedy: "wait".into(),
            lacks: Lacks::Machine,
        };
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
    fn a_reason_without_room_is_cut_and_whole_letters_are_left() {
        let ring = SharedRing::new(1, 1).unwrap();
        let absence = Absence {
            reason: "\u{e4}".repeat(TEXT_BYTES),
            remedy: "\u{e4}".repeat(TEXT_BYTES),
            lacks: Lacks::Rights,
        };

        ring.member(0).tell(&MemberStep::Refused(absence));

        let MemberStep::Refused(read) = ring.member(0).step() else {
            panic!("it was refused");
        };
        for text in [&read.reason, &read.remedy] {
            assert!(text.len() > TEXT_BYTES / 3, "{text}");
            assert!(text.chars().all(|one| one == '\u{e4}'), "{text}");
        }
    }
}
