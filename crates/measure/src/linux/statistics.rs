//! Cost of programs, as the kernel times them.
//!
//! Timing one run takes about the time of a short program. Turning it on and off rewrites kernel
//! code, which took up to 1.2 ms on a CPU with 125,000 instructions per ms. Timing therefore ends
//! before the recording starts. The cost per run is assumed to stay the same. The number of runs
//! since then comes from the kernel's event counts, because a program runs at each event that it
//! watches.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use laggard_bpf::object::LoadedObject;
use laggard_model::{Nanos, ProgramCost};
use libbpf_rs::libbpf_sys;

/// Timing of a run's programs.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    on: Option<TimingStart>,
    timed: TimedCosts,
}

#[derive(Debug)]
struct TimingStart {
    _statistics: OwnedFd,
    at: Nanos,
    happened: EventCounts,
    /// Not zero if another program has had the kernel time programs before.
    costs: Vec<ProgramCost>,
}

/// Costs while programs were timed.
#[derive(Debug, Default)]
struct TimedCosts {
    time: Nanos,
    happened: EventCounts,
    costs: Vec<ProgramCost>,
    /// Event counts at the end of the timing.
    since: EventCounts,
}

impl Statistics {
    /// Makes the kernel time programs until [`Statistics::end`]. `costs` are the costs so far.
    pub(super) fn begin(&mut self, now: Nanos, costs: Vec<ProgramCost>) {
        self.on = keep().map(|statistics| TimingStart {
            _statistics: statistics,
            at: now,
            happened: EventCounts::so_far(),
            costs,
        });
    }

    /// Ends the timing, and returns when that is done.
    pub(super) fn end(&mut self, now: Nanos, costs: Vec<ProgramCost>) {
        let Some(begun) = self.on.take() else {
            return;
        };
        let since = EventCounts::so_far();
        let less = |(after, before): (ProgramCost, &ProgramCost)| ProgramCost {
            runs: after.runs.saturating_sub(before.runs),
            run_ns: after.run_ns.saturating_sub(before.run_ns),
            name: after.name,
        };
        self.timed = TimedCosts {
            time: now.saturating_sub(begun.at),
            happened: since.less(begun.happened),
            costs: costs.into_iter().zip(&begun.costs).map(less).collect(),
            since,
        };
    }

    /// Cost of the programs while they were timed.
    pub(super) fn timed_cost(&self) -> Nanos {
        Nanos::from_ns(self.timed.costs.iter().map(|cost| cost.run_ns.ns()).sum())
    }

    /// Returns the cost of the programs in `wall` since their timing ended.
    pub(super) fn costs_since(&self, wall: Nanos) -> Vec<ProgramCost> {
        let since = EventCounts::so_far().less(self.timed.since);
        let costs = self.timed.costs.iter();
        costs
            .map(|cost| self.timed.scaled_to(cost, since, wall))
            .collect()
    }
}

impl TimedCosts {
    /// Scales the cost of a program to these event counts and `wall`.
    fn scaled_to(&self, cost: &ProgramCost, happened: EventCounts, wall: Nanos) -> ProgramCost {
        let now = happened.watched_by(&cost.name);
        match (now, self.happened.watched_by(&cost.name)) {
            (Some(now), Some(then)) if then > 0 => scaled(cost, now, then),
            _ => scaled(cost, wall.ns(), self.time.ns()),
        }
    }
}

/// Event counts of the kernel over all CPUs, for events that programs watch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct EventCounts {
    switches: u64,
    interrupts: u64,
    softirqs: u64,
}

impl EventCounts {
    fn so_far() -> Self {
        // Without the file everything is zero, and the elapsed time is used instead.
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Parses the text of `/proc/stat`.
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

    /// Returns the number of events that the program with this name watches, or `None` if the
    /// kernel does not count them.
    fn watched_by(self, program: &str) -> Option<u64> {
        match program {
            "on_sched_switch" | "on_sched_waking" => Some(self.switches),
            "on_local_timer_entry" | "on_irq_entry" | "on_hrtimer_expire_entry" => {
                Some(self.interrupts)
            }
            "on_softirq_raise" | "on_softirq_entry" | "on_softirq_exit" => Some(self.softirqs),
            _ => None,
        }
    }
}

/// Scales the cost from `from` events to `to` events.
pub(super) fn scaled(cost: &ProgramCost, to: u64, from: u64) -> ProgramCost {
    let scale = |value: u64| {
        let scaled_value = u128::from(value) * u128::from(to) / u128::from(from.max(1));
        u64::try_from(scaled_value).unwrap_or(u64::MAX)
    };
    ProgramCost {
        runs: scale(cost.runs),
        run_ns: Nanos::from_ns(scale(cost.run_ns.ns())),
        name: cost.name.clone(),
    }
}

/// Returns the cost of each program of an object while programs were timed.
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

/// Returns the number of calls that the kernel skipped because the program was running on that
/// CPU already (since Linux 5.12; 0 before).
pub(super) fn skipped(loaded: &LoadedObject) -> u64 {
    let programs = loaded.object.progs();
    programs
        .filter_map(|program| of_program(program.as_fd()))
        .map(|info| info.recursion_misses)
        .sum()
}

/// Returns the kernel's information on a program: runs and run time if the kernel keeps
/// statistics, and skipped calls.
fn of_program(program: BorrowedFd<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    // SAFETY: zeroes are a valid value of this plain structure.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut bytes = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: `info` is valid for writes of `bytes` bytes; no arrays are requested.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    (result == 0).then_some(info)
}

/// Makes the kernel time BPF programs while the result lives. `None` without the right, or before
/// Linux 5.8.
fn keep() -> Option<OwnedFd> {
    // SAFETY: the arguments are integers.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  1 2 3\nintr 900 8 7\nctxt 500\nsoftirq 70 1 2\n";

    fn timed(name: &str) -> (TimedCosts, ProgramCost) {
        let timed = TimedCosts {
            time: Nanos::from_secs(1),
            happened: EventCounts::parse(STAT),
            ..TimedCosts::default()
        };
        let cost = ProgramCost {
            name: name.into(),
            runs: 10,
            run_ns: Nanos::from_ns(1_000),
        };
        (timed, cost)
    }

    #[test]
    fn program_cost_scales_with_the_number_of_its_events() {
        let (timed, cost) = timed("on_sched_switch");
        let thrice = EventCounts::parse("intr 900 8 7\nctxt 1500\nsoftirq 70 1 2\n");

        let cost = timed.scaled_to(&cost, thrice, Nanos::from_secs(1));

        assert_eq!((cost.runs, cost.run_ns), (30, Nanos::from_ns(3_000)));
    }

    #[test]
    fn program_without_event_counts_costs_in_proportion_to_time() {
        for (name, stat) in [("on_work", STAT), ("on_sched_switch", "")] {
            let (mut timed, cost) = timed(name);
            timed.happened = EventCounts::parse(stat);

            let cost = timed.scaled_to(&cost, EventCounts::parse(STAT), Nanos::from_secs(7));

            assert_eq!(
                (cost.runs, cost.run_ns),
                (70, Nanos::from_ns(7_000)),
                "{name}"
            );
        }
    }

    #[test]
    fn event_counts_come_from_the_kernel() {
        let (first, second) = (EventCounts::so_far(), EventCounts::so_far());

        assert!(first.switches > 0 && first.interrupts > 0 && first.softirqs > 0);
        assert_eq!(first.less(second), EventCounts::default());
    }
}
