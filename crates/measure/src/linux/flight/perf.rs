//! Performance events that take a stack sample on each overflow.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use laggard_model::{Cpu, Sampler};

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Flag of `perf_event_attr`: `sample_period` is a frequency.
const FREQUENCY: u64 = 1 << 10;

/// First version of `struct perf_event_attr`, which every kernel accepts.
#[derive(Debug, Default)]
#[repr(C)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    frequency_hz: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64, "PERF_ATTR_SIZE_VER0");

/// Returns type and config of the event of a sampler: CPU cycles, or the software event
/// `cpu-clock`.
const fn event_of(sampler: Sampler) -> (u32, u64) {
    match sampler {
        Sampler::Nmi => (0, 0),
        // The sampler of Windows is never used here.
        Sampler::CpuClock | Sampler::Profile => (1, 0),
    }
}

/// Opens an event on `cpu` for all threads.
pub(super) fn open(sampler: Sampler, cpu: Cpu, frequency_hz: u32) -> io::Result<OwnedFd> {
    let (kind, config) = event_of(sampler);
    let attributes = Attributes {
        kind,
        bytes: 64,
        config,
        frequency_hz: frequency_hz.into(),
        flags: FREQUENCY,
        ..Attributes::default()
    };
    let everyone: libc::pid_t = -1;
    let no_group: libc::c_int = -1;
    // SAFETY: `attributes` is valid for reads of the size that it states.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everyone,
            cpu.0.cast_signed(),
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just returned this descriptor, and it has no other owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
