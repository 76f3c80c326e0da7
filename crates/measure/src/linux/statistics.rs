//! What programs cost, as the kernel times them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use laggard_bpf::object::Loaded;
use laggard_model::{Nanos, ProgramCost};
use libbpf_rs::libbpf_sys;

/// Timing of programs by the kernel.
///
/// It costs each run as much as a short program does, and turning it on and
/// off rewrites kernel code, which took up to 1.2 ms where a ms has 125,000
/// instructions. So it is over before anything is recorded.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    on: Option<(OwnedFd, Nanos)>,
    timed: Nanos,
}

impl Statistics {
    /// Lets the kernel time programs until [`Statistics::end`].
    pub(super) fn begin(&mut self, now: Nanos) {
        self.on = keep().map(|fd| (fd, now));
    }

    /// Ends the timing, and returns when that is done.
    pub(super) fn end(&mut self, now: Nanos) {
        if let Some((fd, since)) = self.on.take() {
            drop(fd);
            self.timed += now.saturating_sub(since);
        }
    }

    /// For how long programs were timed.
    pub(super) fn timed(&self) -> Nanos {
        self.timed
    }
}

/// From what was seen while `timed` to all of `wall`.
pub(super) fn scale(cost: &mut ProgramCost, wall: Nanos, timed: Nanos) {
    let scaled = |value: u64| {
        let all = u128::from(value) * u128::from(wall.ns()) / u128::from(timed.ns().max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    cost.runs = scaled(cost.runs);
    cost.run_ns = Nanos::from_ns(scaled(cost.run_ns.ns()));
}

/// What each program of an object cost since it was loaded.
pub(super) fn cost_of(loaded: &Loaded) -> Vec<ProgramCost> {
    loaded
        .object
        .progs()
        .filter(|program| program.section() != "syscall")
        .filter_map(|program| {
            let (runs, run_ns) = of_program(program.as_fd())?;
            Some(ProgramCost {
                name: program.name().to_string_lossy().into_owned(),
                runs,
                run_ns: Nanos::from_ns(run_ns),
            })
        })
        .collect()
}

/// A program's runs and run time, where the kernel keeps statistics.
fn of_program(program: BorrowedFd<'_>) -> Option<(u64, u64)> {
    // SAFETY: zeroes are a valid value of this plain structure.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut bytes = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: `info` is valid for writes of `bytes` bytes; no arrays are asked for.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    (result == 0).then_some((info.run_cnt, info.run_time_ns))
}

/// Lets the kernel time BPF programs, as long as the result lives. Without
/// the right, or before Linux 5.8, there is none.
fn keep() -> Option<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: a descriptor just given to us, owned by nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}
