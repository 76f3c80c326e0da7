//! The board: memory that BPF programs, measuring threads and the collector
//! share. `bpf/board.h` lays it out and says who writes what; the types here are
//! written from it when this crate is built.
//!
//! Every field is atomic, because the kernel may write it at any time. No
//! field needs an order of its own but `head`, `tail` and `waiting`.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Nanos, Stage};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

#[allow(dead_code, reason = "some fields are the programs' own")]
mod shared {
    use super::Shared;

    include!(concat!(env!("OUT_DIR"), "/board.rs"));
}

use shared::{BOARD_ARMED, BOARD_ARMED_LATE, BOARD_FOREIGN, BOARD_LINES, BOARD_NONE};
pub(crate) use shared::{BoardCpu, BoardLine, BoardSlot};

/// Most lines on one CPU.
pub(crate) const LINES_PER_CPU: usize = BOARD_LINES as usize;
/// No such line.
pub(crate) const NO_LINE: u32 = BOARD_NONE;

/// What may lie in memory that BPF programs write at any time.
///
/// # Safety
/// The type consists of atomics only, with no padding.
pub(super) unsafe trait Shared {}

// SAFETY: an atomic.
unsafe impl Shared for AtomicU64 {}

/// Memory that outlives every thread that holds the board.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the memory holds atomics only and stays mapped until the drop.
unsafe impl Send for Mapping {}
// SAFETY: as above; every access goes through atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a BPF array, or fresh zeroed memory where there is none.
    pub(super) fn new(bytes: usize, array: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let bytes = NonZeroUsize::new(bytes.next_multiple_of(4096))
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        let start = match array {
            // SAFETY: a new mapping at an address of the kernel's choice
            //         overlaps nothing.
            Some(array) => unsafe { mmap(None, bytes, access, flags, array, 0) },
            // SAFETY: as above.
            None => unsafe { mmap_anonymous(None, bytes, access, flags) },
        }?;
        Ok(Self { start, bytes })
    }

    /// The mapping as `count` values of `T`.
    pub(super) fn slice<T: Shared>(&self, count: usize) -> &[T] {
        assert!(count * size_of::<T>() <= self.bytes.get());
        // SAFETY: long enough (checked), page-aligned, zeroed or written by
        //         the kernel in the same layout; any bits are valid atomics
        //         (`Shared`).
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; nobody borrows it any
        //         more. Failure would leave it mapped, which harms nothing.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}

/// The maps that a run's board lies in, for programs that look at what is due.
#[derive(Debug)]
pub struct BoardMaps {
    pub(crate) cpus: OwnedFd,
    pub(crate) slots: OwnedFd,
}

/// The board of one run.
#[derive(Debug)]
pub(crate) struct Board {
    cpus: Mapping,
    nr_cpus: usize,
    slots: Mapping,
    nr_slots: usize,
}

impl Board {
    /// A board for CPU numbers below `nr_cpus`, over two BPF arrays, or in
    /// plain memory where there are none.
    pub(crate) fn new(
        nr_cpus: usize,
        nr_slots: usize,
        arrays: Option<(BorrowedFd<'_>, BorrowedFd<'_>)>,
    ) -> io::Result<Self> {
        let board = Self {
            cpus: Mapping::new(
                nr_cpus * size_of::<BoardCpu>(),
                arrays.map(|(cpus, _)| cpus),
            )?,
            nr_cpus,
            slots: Mapping::new(
                nr_slots * size_of::<BoardSlot>(),
                arrays.map(|(_, slots)| slots),
            )?,
            nr_slots,
        };
        for cpu in 0..u32::try_from(nr_cpus).unwrap_or(0) {
            board.cpu(cpu).carried.store(NO_LINE, Ordering::Relaxed);
        }
        Ok(board)
    }

    /// CPU `cpu`'s part.
    pub(crate) fn cpu(&self, cpu: u32) -> &BoardCpu {
        &self.cpus.slice(self.nr_cpus)[cpu as usize]
    }

    /// The slots of line `line` of a CPU.
    pub(crate) fn ring(&self, cpu: &BoardCpu, line: usize) -> &[BoardSlot] {
        let room = 1_usize << cpu.ring_bits.load(Ordering::Relaxed);
        let first = usize::try_from(cpu.lines_first_slot.load(Ordering::Relaxed))
            .expect("set by us, below nr_slots")
            + line * room;
        &self.slots.slice(self.nr_slots)[first..first + room]
    }
}

impl BoardCpu {
    /// The name of the thread that last ran a softirq of ours.
    pub(crate) fn softirq_name(&self) -> String {
        let words = self.softirq_name.each_ref();
        let bytes: Vec<u8> = words
            .into_iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .take_while(|&byte| byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Of a slot's `seq`, what is not a mark: the number.
const NUMBER: u64 = !(1 << BOARD_ARMED | 1 << BOARD_ARMED_LATE | 1 << BOARD_FOREIGN);

impl BoardSlot {
    /// The activation's number among its line's.
    pub(crate) fn seq(&self) -> u64 {
        self.seq.load(Ordering::Relaxed) & NUMBER
    }

    /// When it was due.
    pub(crate) fn expiry(&self) -> Nanos {
        Nanos::from_ns(self.expiry_ns.load(Ordering::Relaxed))
    }

    /// When its service ran.
    pub(crate) fn end(&self) -> Nanos {
        Nanos::from_ns(self.end_ns.load(Ordering::Relaxed))
    }

    /// Where a stage on the way is stamped; `None`: the service's own first
    /// instruction, which is the end.
    pub(crate) const fn stamp(&self, stage: Stage) -> Option<&AtomicU64> {
        match stage {
            Stage::Irq | Stage::IrqElsewhere => Some(&self.irq_ns),
            Stage::IrqThread => Some(&self.irq_thread_ns),
            Stage::Expire => Some(&self.expire_ns),
            Stage::Raise => Some(&self.raise_ns),
            Stage::Softirq => Some(&self.softirq_ns),
            Stage::Signal => Some(&self.signal_ns),
            Stage::Waking => Some(&self.waking_ns),
            Stage::Running => Some(&self.running_ns),
            Stage::User | Stage::Worker | Stage::Kthread => None,
        }
    }

    /// Whether its service ran on another CPU than its line's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.has(BOARD_FOREIGN)
    }

    /// Whether its thread came to wait for it only after it was due.
    pub(crate) fn is_armed_late(&self) -> bool {
        self.has(BOARD_ARMED_LATE)
    }

    /// Whether its thread has armed a timer descriptor for it.
    pub(crate) fn is_armed(&self) -> bool {
        self.has(BOARD_ARMED)
    }

    /// Notes that the service ran on another CPU than its line's. By whoever
    /// fills the slot.
    pub(crate) fn set_foreign(&self) {
        self.set(BOARD_FOREIGN);
    }

    /// Notes that the thread came to wait only after the expiry.
    pub(crate) fn set_armed_late(&self) {
        self.set(BOARD_ARMED_LATE);
    }

    /// Notes that a timer descriptor has been armed.
    pub(crate) fn set_armed(&self) {
        self.set(BOARD_ARMED);
    }

    fn has(&self, mark: u32) -> bool {
        self.seq.load(Ordering::Relaxed) >> mark & 1 != 0
    }

    /// One writer at a time: no exchange is needed.
    fn set(&self, mark: u32) {
        let seq = self.seq.load(Ordering::Relaxed);
        self.seq.store(seq | 1 << mark, Ordering::Relaxed);
    }

    /// Forgets the activation before and names the new one.
    pub(crate) fn begin(&self, seq: u64, expiry: Nanos, lost_before: u64) {
        // All of them: one that is forgotten here keeps its last activation's.
        let Self {
            seq: marked_seq,
            expiry_ns,
            irq_ns,
            irq_thread_ns,
            expire_ns,
            raise_ns,
            softirq_ns,
            signal_ns,
            waking_ns,
            running_ns,
            end_ns,
            lost_before: lost,
            elsewhere,
        } = self;
        marked_seq.store(seq, Ordering::Relaxed);
        expiry_ns.store(expiry.ns(), Ordering::Relaxed);
        for stage in [
            irq_ns,
            irq_thread_ns,
            expire_ns,
            raise_ns,
            softirq_ns,
            signal_ns,
            waking_ns,
            running_ns,
            end_ns,
            elsewhere,
        ] {
            stage.store(0, Ordering::Relaxed);
        }
        lost.store(lost_before, Ordering::Relaxed);
    }
}
