//! How large the board is, and mapping it.

use std::io;
use std::os::fd::AsFd;

use laggard_model::{Cpu, Nanos};

use super::super::lines::{CpuLines, Deferral};
use super::super::mapping::Mapped;
use super::super::programs::{Extent, Programs};
use super::super::reason_of;
use super::system;
use crate::board::{Board, BoardCpu, BoardSlot};
use crate::probe::{ProbeError, Request};

/// How much a ring holds: a collector that does not get to run for so long
/// loses nothing. Normal threads wait for seconds under some loads.
const RING_TIME: Nanos = Nanos::from_secs(8);
/// Memory for all rings, besides [`RING_BYTES_PER_CPU`].
const RING_BYTES: usize = 32 << 20;
/// More of it for each CPU.
const RING_BYTES_PER_CPU: usize = 1 << 20;
/// Bounds on a ring's slots, as powers of two.
const RING_BITS: (u32, u32) = (8, 16);

/// Slots of a ring, as a power of two: for [`RING_TIME`], as far as the memory
/// for all rings allows.
pub(super) fn ring_bits(request: &Request) -> u32 {
    let slots = RING_TIME.ns() / request.period.ns();
    let wanted = (64 - slots.leading_zeros()).clamp(RING_BITS.0, RING_BITS.1);
    let lines = most_lines(request);
    let bytes = RING_BYTES + RING_BYTES_PER_CPU * request.cpus.len();
    let most = (bytes / (lines.max(1) * size_of::<BoardSlot>()))
        .max(1)
        .ilog2();
    wanted.min(most.max(RING_BITS.0))
}

/// How many lines the request can mean at most.
pub(super) fn most_lines(request: &Request) -> usize {
    let of_cpu = |deferral| {
        let lines = CpuLines::new(Cpu(0), &request.services, &request.every, deferral).lines;
        lines.len()
    };
    of_cpu(Deferral::Callback).max(of_cpu(Deferral::Descriptor)) * request.cpus.len()
}

/// A board over the programs' arrays, or in plain memory.
pub(crate) fn board(extent: Extent, programs: Option<&Programs>) -> Result<Board, ProbeError> {
    let failed = |err: io::Error| system("map the board", reason_of(&err));
    let Some(programs) = programs else {
        return Ok(Board::owned(extent.nr_cpus, extent.nr_slots));
    };
    let map = |name| {
        programs
            .chain
            .map(name)
            .map_err(|refused| system("find a BPF map", refused.reason))
    };
    let (cpus, slots) = (map("cpus")?, map("slots")?);
    let cpus = Mapped::<BoardCpu>::new(cpus.as_fd(), extent.nr_cpus).map_err(failed)?;
    let slots = Mapped::<BoardSlot>::new(slots.as_fd(), extent.nr_slots).map_err(failed)?;
    Ok(Board::over(Box::new(cpus), Box::new(slots)))
}
