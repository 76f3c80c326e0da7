//! Size of the board, and its mapping.

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

/// Time that a ring holds: a collector that does not run for this time loses nothing. `SCHED_OTHER`
/// threads wait for seconds under some loads.
const RING_TIME: Nanos = Nanos::from_secs(8);
/// Memory for all rings in bytes, in addition to [`RING_BYTES_PER_CPU`].
const RING_BYTES: usize = 32 << 20;
/// Additional memory per CPU in bytes.
const RING_BYTES_PER_CPU: usize = 1 << 20;
/// Minimum and maximum number of a ring's slots, as powers of two.
const MIN_MAX_RING_BITS: (u32, u32) = (8, 16);

/// Returns the slots of a ring as a power of two: for [`RING_TIME`], if the memory for all rings
/// allows it.
pub(super) fn ring_bits(request: &Request) -> u32 {
    let slots = RING_TIME.ns() / request.period.ns();
    let wanted = (64 - slots.leading_zeros()).clamp(MIN_MAX_RING_BITS.0, MIN_MAX_RING_BITS.1);
    let lines = max_lines(request);
    let bytes = RING_BYTES + RING_BYTES_PER_CPU * request.cpus.len();
    let most = (bytes / (lines.max(1) * size_of::<BoardSlot>()))
        .max(1)
        .ilog2();
    wanted.min(most.max(MIN_MAX_RING_BITS.0))
}

/// Returns the maximum number of lines of the request.
pub(super) fn max_lines(request: &Request) -> usize {
    let of_cpu = |deferral| {
        let lines = CpuLines::new(Cpu(0), &request.services, &request.every, deferral).lines;
        lines.len()
    };
    of_cpu(Deferral::Callback).max(of_cpu(Deferral::Descriptor)) * request.cpus.len()
}

/// Creates a board over the programs' arrays, or in plain memory.
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
