//! The board: memory that BPF programs, measuring threads and the collector
//! share; knows no operating system. `bpf/board.h` lays it out and says who
//! writes what; the types here are written from it when this crate is built.
//!
//! Every field is atomic, because the kernel may write it at any time. No
//! field needs an order of its own but `head`, `tail` and `waiting`.

mod collector;
mod slot;
mod stamps;
mod timeline;
mod writer;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

pub use collector::{Asker, BoardView, ExpectedStages, LineReader, Skips, Standing, Stops};
pub use stamps::Stamps;
pub use timeline::Timeline;
pub use writer::{LineWriter, unserved};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; the programs use some fields alone"
)]
mod shared {
    use super::Shared;

    include!(concat!(env!("OUT_DIR"), "/board.rs"));
}

#[cfg(target_os = "linux")]
pub(crate) use shared::BOARD_SHARE_BITS;
use shared::{BOARD_LINES, BOARD_NONE};
pub use shared::{BoardCpu, BoardLine, BoardSlot};

/// Most lines on one CPU.
pub const LINES_PER_CPU: usize = BOARD_LINES as usize;
/// No such line.
pub const NO_LINE: u32 = BOARD_NONE;

/// What may lie in memory that others write at any time.
///
/// # Safety
/// The type consists of atomics only, with no padding; zeros are a value of it.
pub unsafe trait Shared: Debug + Send + Sync {}

// SAFETY: an atomic.
unsafe impl Shared for AtomicU64 {}

/// Memory of many `T`, that lives as long as this does.
pub trait Memory<T>: Debug + Send + Sync {
    /// All of it.
    fn all(&self) -> &[T];
}

impl<T: Shared> Memory<T> for Box<[T]> {
    fn all(&self) -> &[T] {
        self
    }
}

/// What a run's board lies in, for programs that look at what is due: maps of
/// the kernel's.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct BoardMaps {
    pub cpus: std::os::fd::OwnedFd,
    pub slots: std::os::fd::OwnedFd,
}

/// The board of one run.
#[derive(Debug)]
pub struct Board {
    cpus: Box<dyn Memory<BoardCpu>>,
    slots: Box<dyn Memory<BoardSlot>>,
}

impl Board {
    /// A board of our own, for CPU numbers below `nr_cpus`. All of its memory has
    /// been written to.
    pub fn owned(nr_cpus: usize, nr_slots: usize) -> Self {
        fn zeroed<T: Default>(count: usize) -> Box<[T]> {
            std::iter::repeat_with(T::default).take(count).collect()
        }
        Self::over(
            Box::new(zeroed::<BoardCpu>(nr_cpus)),
            Box::new(zeroed::<BoardSlot>(nr_slots)),
        )
    }

    /// A board in memory that others know too, all zero.
    pub fn over(cpus: Box<dyn Memory<BoardCpu>>, slots: Box<dyn Memory<BoardSlot>>) -> Self {
        for cpu in cpus.all() {
            cpu.carried.store(NO_LINE, Ordering::Relaxed);
        }
        Self { cpus, slots }
    }

    /// CPU `cpu`'s part.
    pub fn cpu(&self, cpu: u32) -> &BoardCpu {
        &self.cpus.all()[cpu as usize]
    }

    /// The slots of line `line` of a CPU.
    pub fn ring(&self, cpu: &BoardCpu, line: usize) -> &[BoardSlot] {
        let room = 1_usize << cpu.ring_bits.load(Ordering::Relaxed);
        let first = usize::try_from(cpu.lines_first_slot.load(Ordering::Relaxed))
            .expect("set by us, below the number of slots")
            + line * room;
        &self.slots.all()[first..first + room]
    }

    /// Who fills the slots of line `line` of CPU `cpu`, in user space.
    pub fn writer(&self, cpu: u32, line: usize) -> LineWriter<'_> {
        let cpu = self.cpu(cpu);
        LineWriter::new(cpu, line, self.ring(cpu, line))
    }
}

impl BoardCpu {
    /// The name of the thread that last ran a softirq of ours.
    pub fn softirq_name(&self) -> String {
        let words = self.softirq_name.each_ref();
        let bytes: Vec<u8> = words
            .into_iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .take_while(|&byte| byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_wrote_ends_at_its_first_zero() {
        let board = Board::owned(1, 2);
        let cpu = board.cpu(0);
        assert_eq!(cpu.softirq_name(), "");

        for (word, bytes) in cpu.softirq_name.iter().zip([*b"ksoftirq", *b"d/17\0old"]) {
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }

        assert_eq!(cpu.softirq_name(), "ksoftirqd/17");
    }
}
