//! The board: memory that BPF programs, measuring threads and the collector share. It is
//! independent of the operating system. `bpf/board.h` defines the layout and the writer of each
//! field; the types here are generated from it when this crate is built.
//!
//! Every field is atomic, because the kernel may write it at any time. Only `head`, `tail` and
//! `waiting` need a memory order.

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
    reason = "generated; only the programs use some fields"
)]
mod shared {
    use super::Shared;

    include!(concat!(env!("OUT_DIR"), "/board.rs"));
}

#[cfg(target_os = "linux")]
pub(crate) use shared::BOARD_SHARE_BITS;
use shared::{BOARD_LINES, BOARD_NONE};
pub use shared::{BoardCpu, BoardLine, BoardSlot};

/// Maximum number of lines on one CPU.
pub const LINES_PER_CPU: usize = BOARD_LINES as usize;
/// Value that is not the index of a line.
pub const NO_LINE: u32 = BOARD_NONE;

/// Type that may lie in memory that other threads or the kernel write at any time.
///
/// # Safety
///
/// The type consists of atomics only, without padding, and zeros are a valid value.
pub unsafe trait Shared: Debug + Send + Sync {}

// SAFETY: `AtomicU64` is an atomic.
unsafe impl Shared for AtomicU64 {}

/// Memory that holds several `T` while `self` lives.
pub trait Memory<T>: Debug + Send + Sync {
    fn all(&self) -> &[T];
}

impl<T: Shared> Memory<T> for Box<[T]> {
    fn all(&self) -> &[T] {
        self
    }
}

/// Kernel maps that hold the board of a run, for programs that read the expiries that are due.
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
    /// Creates a board in this process's memory, for CPU numbers below `nr_cpus`. Every page has
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

    /// Creates a board in memory that is shared with others and zeroed.
    pub fn over(cpus: Box<dyn Memory<BoardCpu>>, slots: Box<dyn Memory<BoardSlot>>) -> Self {
        for cpu in cpus.all() {
            cpu.carried.store(NO_LINE, Ordering::Relaxed);
        }
        Self { cpus, slots }
    }

    /// Returns the part of CPU `cpu`.
    pub fn cpu(&self, cpu: u32) -> &BoardCpu {
        &self.cpus.all()[cpu as usize]
    }

    /// Returns the slots of line `line` of a CPU.
    pub fn ring(&self, cpu: &BoardCpu, line: usize) -> &[BoardSlot] {
        let room = 1_usize << cpu.ring_bits.load(Ordering::Relaxed);
        let first = usize::try_from(cpu.lines_first_slot.load(Ordering::Relaxed))
            .expect("this process sets the index, below the number of slots")
            + line * room;
        &self.slots.all()[first..first + room]
    }

    /// Returns the user-space writer of line `line` of CPU `cpu`.
    pub fn writer(&self, cpu: u32, line: usize) -> LineWriter<'_> {
        let cpu = self.cpu(cpu);
        LineWriter::new(cpu, line, self.ring(cpu, line))
    }
}

impl BoardCpu {
    /// Returns the name of the thread that last ran a laggard softirq.
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
    fn softirq_name_ends_at_its_first_zero() {
        let board = Board::owned(1, 2);
        let cpu = board.cpu(0);
        assert_eq!(cpu.softirq_name(), "");

        for (word, bytes) in cpu.softirq_name.iter().zip([*b"ksoftirq", *b"d/17\0old"]) {
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }

        assert_eq!(cpu.softirq_name(), "ksoftirqd/17");
    }
}
