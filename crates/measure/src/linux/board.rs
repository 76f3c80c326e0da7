//! The board: memory that BPF programs, measuring threads and the collector
//! share. Laid out as in `bpf/board.h`, which also says who writes what.
//!
//! Every field is atomic, because the kernel may write it at any time. No
//! field needs an order of its own but `head`, `tail` and `waiting`.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use laggard_model::Nanos;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Most lines on one CPU: `BOARD_LINES`.
pub(crate) const LINES_PER_CPU: usize = 16;
/// No such line: `BOARD_NONE`.
pub(crate) const NO_LINE: u32 = 255;

/// One activation: `struct board_slot`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    /// Its number, and marks; see [`Slot::seq()`].
    seq: AtomicU64,
    pub(crate) expiry_ns: AtomicU64,
    pub(crate) irq_ns: AtomicU64,
    pub(crate) irq_thread_ns: AtomicU64,
    pub(crate) expire_ns: AtomicU64,
    pub(crate) raise_ns: AtomicU64,
    pub(crate) softirq_ns: AtomicU64,
    pub(crate) signal_ns: AtomicU64,
    pub(crate) waking_ns: AtomicU64,
    pub(crate) running_ns: AtomicU64,
    pub(crate) end_ns: AtomicU64,
    pub(crate) lost_before: AtomicU64,
    pub(crate) elsewhere: AtomicU64,
}

/// One line's ring: `struct board_line`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LineRing {
    pub(crate) head: AtomicU64,
    pub(crate) tail: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) slot: AtomicU64,
    pub(crate) waiting: AtomicU32,
    padding: AtomicU32,
}

/// Everything of one CPU: `struct board_cpu`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CpuBoard {
    irq_ns: AtomicU64,
    raise_ns: AtomicU64,
    raise_irq_ns: AtomicU64,
    served_raise_ns: AtomicU64,
    served_irq_ns: AtomicU64,
    armed_expiry_ns: AtomicU64,
    pub(crate) lines_first_slot: AtomicU64,
    tid_bits: AtomicU64,
    pub(crate) carried_seq: AtomicU64,
    deferred_due_ns: AtomicU64,
    arming: AtomicU32,
    worker_due: AtomicU32,
    pub(crate) nr_lines: AtomicU32,
    pub(crate) ring_bits: AtomicU32,
    expired: AtomicU32,
    pub(crate) softirq_tid: AtomicU32,
    pub(crate) carried: AtomicU32,
    pub(crate) unstarted: AtomicU32,
    softirq_name: [AtomicU64; 2],
    timer: AtomicU64,
    pub(crate) learnt_ns: AtomicU64,
    pub(crate) learner: AtomicU32,
    pub(crate) has_strays: AtomicU32,
    timers: [AtomicU64; LINES_PER_CPU],
    tids: [AtomicU32; LINES_PER_CPU],
    pub(crate) expiries: [AtomicU64; LINES_PER_CPU],
    pub(crate) lines: [LineRing; LINES_PER_CPU],
}

const _: () = assert!(size_of::<Slot>() == 104, "matches board.h");
const _: () = assert!(size_of::<LineRing>() == 40, "matches board.h");
const _: () = assert!(size_of::<CpuBoard>() == 1112, "matches board.h");

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
    ///
    /// # Safety
    /// `T` must consist of atomics only, with no padding.
    pub(super) unsafe fn slice<T>(&self, count: usize) -> &[T] {
        assert!(count * size_of::<T>() <= self.bytes.get());
        // SAFETY: long enough (checked), page-aligned, zeroed or written by
        //         the kernel in the same layout; any bits are valid atomics.
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
                nr_cpus * size_of::<CpuBoard>(),
                arrays.map(|(cpus, _)| cpus),
            )?,
            nr_cpus,
            slots: Mapping::new(nr_slots * size_of::<Slot>(), arrays.map(|(_, slots)| slots))?,
            nr_slots,
        };
        for cpu in 0..u32::try_from(nr_cpus).unwrap_or(0) {
            board.cpu(cpu).carried.store(NO_LINE, Ordering::Relaxed);
        }
        Ok(board)
    }

    /// CPU `cpu`'s part.
    pub(crate) fn cpu(&self, cpu: u32) -> &CpuBoard {
        // SAFETY: `CpuBoard` is atomics without padding (size checked).
        let cpus = unsafe { self.cpus.slice::<CpuBoard>(self.nr_cpus) };
        &cpus[cpu as usize]
    }

    /// The slots of line `line` of a CPU.
    pub(crate) fn ring(&self, cpu: &CpuBoard, line: usize) -> &[Slot] {
        let room = 1_usize << cpu.ring_bits.load(Ordering::Relaxed);
        let first = usize::try_from(cpu.lines_first_slot.load(Ordering::Relaxed))
            .expect("set by us, below nr_slots")
            + line * room;
        // SAFETY: `Slot` is atomics without padding (size checked).
        let slots = unsafe { self.slots.slice::<Slot>(self.nr_slots) };
        &slots[first..first + room]
    }
}

impl CpuBoard {
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

/// In [`Slot::seq`]: the service ran on another CPU than its line's.
const FOREIGN: u64 = 1 << 63;
/// The same: the thread came to wait only after the expiry.
const ARMED_LATE: u64 = 1 << 62;
/// The same: the thread has armed its timer descriptor.
const ARMED: u64 = 1 << 61;
/// The rest of it: the number.
const NUMBER: u64 = ARMED - 1;

impl Slot {
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

    /// Whether its service ran on another CPU than its line's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.seq.load(Ordering::Relaxed) & FOREIGN != 0
    }

    /// Whether its thread came to wait for it only after it was due.
    pub(crate) fn is_armed_late(&self) -> bool {
        self.seq.load(Ordering::Relaxed) & ARMED_LATE != 0
    }

    /// Whether its thread has armed a timer descriptor for it.
    pub(crate) fn is_armed(&self) -> bool {
        self.seq.load(Ordering::Relaxed) & ARMED != 0
    }

    /// Notes that the service ran on another CPU than its line's. By whoever
    /// fills the slot.
    pub(crate) fn set_foreign(&self) {
        self.set(FOREIGN);
    }

    /// Notes that the thread came to wait only after the expiry.
    pub(crate) fn set_armed_late(&self) {
        self.set(ARMED_LATE);
    }

    /// Notes that a timer descriptor has been armed.
    pub(crate) fn set_armed(&self) {
        self.set(ARMED);
    }

    /// One writer at a time: no exchange is needed.
    fn set(&self, mark: u64) {
        let seq = self.seq.load(Ordering::Relaxed);
        self.seq.store(seq | mark, Ordering::Relaxed);
    }

    /// Forgets the activation before and names the new one.
    pub(crate) fn begin(&self, seq: u64, expiry: Nanos, lost_before: u64) {
        self.seq.store(seq, Ordering::Relaxed);
        self.expiry_ns.store(expiry.ns(), Ordering::Relaxed);
        for stage in [
            &self.irq_ns,
            &self.irq_thread_ns,
            &self.expire_ns,
            &self.raise_ns,
            &self.softirq_ns,
            &self.signal_ns,
            &self.waking_ns,
            &self.running_ns,
            &self.end_ns,
            &self.elsewhere,
        ] {
            stage.store(0, Ordering::Relaxed);
        }
        self.lost_before.store(lost_before, Ordering::Relaxed);
    }
}
