//! Performance events of the kernel: samples of stacks, and tracepoints.

use std::os::fd::{FromRawFd, OwnedFd};
use std::{fs, io};

use laggard_model::{Cpu, Sampler, Tid};

use crate::host::{self, Files};

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Flags of `perf_event_attr` in `linux/perf_event.h`.
const DISABLED: u64 = 1;
/// The period is a frequency.
const FREQUENCY: u64 = 1 << 10;
/// `wakeup` is a number of bytes.
const WATERMARK: u64 = 1 << 14;
/// The kernel is not observed, which needs fewer rights.
const EXCLUDE_KERNEL: u64 = 1 << 5;
/// Every record has a time.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// Times are by `clock`.
const USE_CLOCK: u64 = 1 << 25;
/// Each switch to and from the thread is recorded.
const CONTEXT_SWITCH: u64 = 1 << 26;
/// `PERF_SAMPLE_TIME`.
const TIME: u64 = 1 << 2;
/// `PERF_SAMPLE_TIME | PERF_SAMPLE_RAW`.
const TIME_AND_DATA: u64 = TIME | 1 << 10;
/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_DUMMY`, which counts nothing.
const DUMMY: (u32, u64) = (1, 9);
/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// Third extension of `struct perf_event_attr` (Linux 4.1), the first with a clock.
#[derive(Debug, Default)]
#[repr(C)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    /// Period or frequency of samples.
    every: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_user_registers: u64,
    sample_user_stack: u32,
    clock: libc::clockid_t,
}

const ATTRIBUTES_BYTES: u32 = 96;
const _: () = assert!(
    size_of::<Attributes>() == ATTRIBUTES_BYTES as usize,
    "PERF_ATTR_SIZE_VER3"
);

/// Returns type and config of the event of a sampler: CPU cycles, or the software event
/// `cpu-clock`.
const fn event_of(sampler: Sampler) -> (u32, u64) {
    match sampler {
        Sampler::Nmi => (0, 0),
        // The sampler of Windows is never used here.
        Sampler::CpuClock | Sampler::Profile => (1, 0),
    }
}

/// Returns the samplers of this architecture and boot, the best first. Counters that cannot
/// interrupt code with interrupts disabled have the same limit as a clock.
pub(super) fn samplers() -> &'static [Sampler] {
    if counters_are_nmi() {
        &[Sampler::Nmi, Sampler::CpuClock]
    } else {
        &[Sampler::CpuClock]
    }
}

/// Returns whether performance counters interrupt code that has interrupts disabled.
pub(super) fn counters_are_nmi() -> bool {
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    host::counters_are_nmi(std::env::consts::ARCH, &command_line, || {
        host::options(&Files::default())
    })
}

/// Opens an event of a sampler on `cpu` for all threads.
pub(super) fn open_sampler(
    sampler: Sampler,
    cpu: Cpu,
    frequency_hz: Option<u32>,
) -> io::Result<OwnedFd> {
    let (kind, config) = event_of(sampler);
    let attributes = Attributes {
        kind,
        config,
        every: frequency_hz.unwrap_or(0).into(),
        flags: if frequency_hz.is_some() { FREQUENCY } else { 0 },
        ..Attributes::default()
    };
    open(attributes, EVERYONE, cpu.0.cast_signed())
}

/// Opens tracepoint `id` on `cpu`, which does not record yet. Its records have the time by
/// `CLOCK_MONOTONIC` and the data of the event. The ring wakes a waiting reader after
/// `wakeup_bytes`.
pub(super) fn open_tracepoint(id: u16, cpu: Cpu, wakeup_bytes: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: TRACEPOINT,
        config: id.into(),
        every: 1,
        sample_type: TIME_AND_DATA,
        flags: DISABLED | WATERMARK | SAMPLE_ID_ALL | USE_CLOCK,
        wakeup: wakeup_bytes,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    open(attributes, EVERYONE, cpu.0.cast_signed())
}

/// Opens an event that records the switches to and from this thread of this process with their
/// times by `CLOCK_MONOTONIC`. This works without rights up to `kernel.perf_event_paranoid` 2.
pub(super) fn open_switches(tid: Tid, wakeup_bytes: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: DUMMY.0,
        config: DUMMY.1,
        sample_type: TIME,
        flags: DISABLED | EXCLUDE_KERNEL | WATERMARK | SAMPLE_ID_ALL | USE_CLOCK | CONTEXT_SWITCH,
        wakeup: wakeup_bytes,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    open(attributes, tid.0.cast_signed(), EVERYWHERE)
}

/// All threads, and all CPUs.
const EVERYONE: libc::pid_t = -1;
const EVERYWHERE: libc::c_int = -1;

/// Opens an event of this thread on this CPU.
fn open(attributes: Attributes, thread: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        bytes: ATTRIBUTES_BYTES,
        ..attributes
    };
    let no_group: libc::c_int = -1;
    // SAFETY: `attributes` is valid for reads of the size that it states.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
