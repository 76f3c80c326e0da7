//! What programs cost, as the kernel times them.
//!
//! Timing costs each run as much as a short program does, and turning it on
//! and off rewrites kernel code, which took up to 1.2 ms where a ms has
//! 125,000 instructions. So it is over before anything is recorded. What a run
//! cost then is taken for what a run costs; how often each program has run
//! since, the kernel's own counts tell, because a program runs whenever what
//! it watches happens.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use laggard_bpf::object::LoadedObject;
use laggard_model::{Nanos, ProgramCost};
use libbpf_rs::libbpf_sys;

/// The timing of a run's programs.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    on: Option<Beginning>,
    timed: Timed,
}

#[derive(Debug)]
struct Beginning {
    _statistics: OwnedFd,
    at: Nanos,
    happened: Happened,
    /// Not zero where somebody else had programs timed before.
    costs: Vec<ProgramCost>,
}

/// What was seen while programs were timed.
#[derive(Debug, Default)]
struct Timed {
    time: Nanos,
    happened: Happened,
    costs: Vec<ProgramCost>,
    /// What had happened by its end.
    since: Happened,
}

impl Statistics {
    /// Lets the kernel time programs until [`Statistics::end`]. `costs`: what
    /// they cost so far.
    pub(super) fn begin(&mut self, now: Nanos, costs: Vec<ProgramCost>) {
        self.on = keep().map(|statistics| Beginning {
            _statistics: statistics,
            at: now,
            happened: Happened::so_far(),
            costs,
        });
    }

    /// Ends the timing, and returns when that is done.
    pub(super) fn end(&mut self, now: Nanos, costs: Vec<ProgramCost>) {
        let Some(begun) = self.on.take() else {
            return;
        };
        let since = Happened::so_far();
        let less = |(one, before): (ProgramCost, &ProgramCost)| ProgramCost {
            runs: one.runs.saturating_sub(before.runs),
            run_ns: one.run_ns.saturating_sub(before.run_ns),
            name: one.name,
        };
        self.timed = Timed {
            time: now.saturating_sub(begun.at),
            happened: since.less(begun.happened),
            costs: costs.into_iter().zip(&begun.costs).map(less).collect(),
            since,
        };
    }

    /// What the programs cost while they were timed.
    pub(super) fn timed_cost(&self) -> Nanos {
        Nanos::from_ns(self.timed.costs.iter().map(|one| one.run_ns.ns()).sum())
    }

    /// What the programs cost in the `wall` since their timing ended.
    pub(super) fn costs_since(&self, wall: Nanos) -> Vec<ProgramCost> {
        let since = Happened::so_far().less(self.timed.since);
        let costs = self.timed.costs.iter();
        costs
            .map(|one| self.timed.grown(one, since, wall))
            .collect()
    }
}

impl Timed {
    /// What a program cost while this happened, in `wall`.
    fn grown(&self, cost: &ProgramCost, happened: Happened, wall: Nanos) -> ProgramCost {
        let now = happened.watched_by(&cost.name);
        match (now, self.happened.watched_by(&cost.name)) {
            (Some(now), Some(then)) if then > 0 => scaled(cost, now, then),
            _ => scaled(cost, wall.ns(), self.time.ns()),
        }
    }
}

/// What the kernel counts of that which programs watch, on all CPUs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Happened {
    switches: u64,
    interrupts: u64,
    softirqs: u64,
}

impl Happened {
    fn so_far() -> Self {
        // Without the file everything is zero, and the time counts instead.
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// From the text of `/proc/stat`.
    fn parse(stat: &str) -> Self {
        let total = |name: &str| {
            stat.lines()
                .filter_map(|line| line.split_once(' '))
                .find(|(first, _)| *first == name)
                .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
                .unwrap_or(0)
        };
        Self {
            switches: total("ctxt"),
            interrupts: total("intr"),
            softirqs: total("softirq"),
        }
    }

    fn less(self, before: Self) -> Self {
        Self {
            switches: self.switches.saturating_sub(before.switches),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            softirqs: self.softirqs.saturating_sub(before.softirqs),
        }
    }

    /// How much happened of what the program of this name watches; `None`: the
    /// kernel does not count that.
    fn watched_by(self, program: &str) -> Option<u64> {
        match program {
            "on_sched_switch" | "on_sched_waking" => Some(self.switches),
            "on_local_timer_entry" | "on_hrtimer_expire_entry" => Some(self.interrupts),
            "on_softirq_raise" | "on_softirq_entry" | "on_softirq_exit" => Some(self.softirqs),
            _ => None,
        }
    }
}

/// What `to` of something cost, where `from` of it cost this.
pub(super) fn scaled(cost: &ProgramCost, to: u64, from: u64) -> ProgramCost {
    let scale = |value: u64| {
        let all = u128::from(value) * u128::from(to) / u128::from(from.max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    ProgramCost {
        runs: scale(cost.runs),
        run_ns: Nanos::from_ns(scale(cost.run_ns.ns())),
        name: cost.name.clone(),
    }
}

/// What each program of an object cost whenever programs were timed.
pub(super) fn cost_of(loaded: &LoadedObject) -> Vec<ProgramCost> {
    loaded
        .object
        .progs()
        .filter(|program| program.section() != "syscall")
        .filter_map(|program| {
            let info = of_program(program.as_fd())?;
            Some(ProgramCost {
                name: program.name().to_string_lossy().into_owned(),
                runs: info.run_cnt,
                run_ns: Nanos::from_ns(info.run_time_ns),
            })
        })
        .collect()
}

/// How often the kernel has not called one of the object's programs, because it
/// was running on that CPU already (since Linux 5.12; 0 before).
pub(super) fn skipped(loaded: &LoadedObject) -> u64 {
    let programs = loaded.object.progs();
    programs
        .filter_map(|program| of_program(program.as_fd()))
        .map(|info| info.recursion_misses)
        .sum()
}

/// What the kernel tells of a program: its runs and run time, where the kernel
/// keeps statistics, and how often it was skipped.
fn of_program(program: BorrowedFd<'_>) -> Option<libbpf_sys::bpf_prog_info> {
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
    (result == 0).then_some(info)
}

/// Lets the kernel time BPF programs, as long as the result lives. Without
/// the right, or before Linux 5.8, there is none.
fn keep() -> Option<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: a descriptor just given to us, owned by nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  1 2 3\nintr 900 8 7\nctxt 500\nsoftirq 70 1 2\n";

    fn timed(name: &str) -> (Timed, ProgramCost) {
        let timed = Timed {
            time: Nanos::from_secs(1),
            happened: Happened::parse(STAT),
            ..Timed::default()
        };
        let cost = ProgramCost {
            name: name.into(),
            runs: 10,
            run_ns: Nanos::from_ns(1_000),
        };
        (timed, cost)
    }

    #[test]
    fn a_program_costs_more_when_what_it_watches_happens_more_often() {
        let (timed, cost) = timed("on_sched_switch");
        let thrice = Happened::parse("intr 900 8 7\nctxt 1500\nsoftirq 70 1 2\n");

        let cost = timed.grown(&cost, thrice, Nanos::from_secs(1));

        assert_eq!((cost.runs, cost.run_ns), (30, Nanos::from_ns(3_000)));
    }

    #[test]
    fn a_program_whose_runs_nobody_counts_costs_by_the_time() {
        for (name, stat) in [("on_work", STAT), ("on_sched_switch", "")] {
            let (mut timed, cost) = timed(name);
            timed.happened = Happened::parse(stat);

            let cost = timed.grown(&cost, Happened::parse(STAT), Nanos::from_secs(7));

            assert_eq!(
                (cost.runs, cost.run_ns),
                (70, Nanos::from_ns(7_000)),
                "{name}"
            );
        }
    }

    #[test]
    fn the_kernel_tells_what_has_happened() {
        let (first, second) = (Happened::so_far(), Happened::so_far());

        assert!(first.switches > 0 && first.interrupts > 0 && first.softirqs > 0);
        assert_eq!(first.less(second), Happened::default());
    }
}
