//! Processes that compute endlessly, like Heubaum's `DOSFP`: scheduled by the kernel,
//! or in turns that they give each other.
//!
//! They are threads: Linux schedules a thread of another process in the same way.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use laggard_model::{
    BusyTurns, Competitors, Nanos, ParseBusyTurnsError, ParseCompetitorsError, Throughput,
};
use nix::sched::sched_getaffinity;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::Pid;

use super::{Gate, RunError, fp, in_threads};
use crate::clock;
use crate::scheduling::{self, Policy};
use crate::watchdog::Watchdog;

/// Load `busy:N` or `busy:N:TURN`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Busy {
    /// Number of processes.
    pub processes: Competitors,
    /// Length of the turns of real-time processes on one CPU; `None` for normal
    /// processes, which the kernel schedules.
    pub turns: Option<BusyTurns>,
}

/// Reason why a name is not a load of busy processes.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BusyError {
    /// The name belongs to another load.
    #[error("it does not start with `busy:`")]
    Other,
    /// Invalid number.
    #[error(transparent)]
    Number(#[from] ParseCompetitorsError),
    /// Invalid turn.
    #[error(transparent)]
    Turns(#[from] ParseBusyTurnsError),
}

/// Name of the threads.
const SHORT: &str = "busy";
/// Start of the load's name, before the number.
const NAME: &str = "busy:";

impl FromStr for Busy {
    type Err = BusyError;

    fn from_str(name: &str) -> Result<Self, BusyError> {
        let rest = name.strip_prefix(NAME).ok_or(BusyError::Other)?;
        let (processes, turns) = match rest.split_once(':') {
            Some((processes, turns)) => (processes, Some(turns.parse()?)),
            None => (rest, None),
        };
        Ok(Self {
            processes: processes.parse()?,
            turns,
        })
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}{}", self.processes)?;
        self.turns.map_or(Ok(()), |turns| write!(f, ":{turns}"))
    }
}

impl Busy {
    /// Names in the help: scheduled by the kernel, and in turns.
    pub const NAMES: [&str; 2] = ["busy:N", "busy:N:TIME"];
    /// Descriptions of both, in one line each.
    pub const ABOUT: [&str; 2] = [
        "N threads, 1 to 64, compute endlessly",
        "the same in turns of 1ms to 100ms, on the one CPU of --load-cpus",
    ];

    /// Returns the description in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        Self::ABOUT[self.turns.is_some() as usize]
    }

    /// Computes after `gate` returns, until `stop` is set.
    ///
    /// # Errors
    /// If a thread or, for turns, real-time scheduling is not available, and for turns
    /// on several CPUs.
    pub(super) fn run(self, stop: &AtomicBool, gate: &Gate<'_>) -> Result<Throughput, RunError> {
        if self.turns.is_some() {
            self.check()?;
        }
        gate();
        let start = Instant::now();
        let number = self.processes.number();
        let count = match self.turns {
            None => in_threads(&SHORT, number, stop, |_, ends| Ok(fp::run(ends)))?,
            Some(turns) => {
                // The kernel ends this process if one of the threads stops sleeping.
                let _watchdog = Watchdog::new(SECOND).map_err(|err| self.refused(err.into()))?;
                // Signals go to the running threads, not to this thread behind them.
                let before = SigSet::all()
                    .thread_swap_mask(SigmaskHow::SIG_BLOCK)
                    .map_err(|err| self.refused(err.into()))?;
                let done = in_threads(&SHORT, number, stop, |_, ends| self.take(turns, ends));
                // Signals that were blocked before stay blocked.
                let _ = before.thread_set_mask();
                done?
            }
        };
        Ok(Throughput {
            unit: "steps".into(),
            count,
            elapsed_ns: start.elapsed().into(),
        })
    }

    /// Checks whether turns are possible here.
    fn check(self) -> Result<(), RunError> {
        let tried = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .spawn_scoped(scope, || scheduling::set(RANK))?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        tried.map_err(|err| self.refused(err))?;
        let own = sched_getaffinity(Pid::from_raw(0)).map_err(|err| self.refused(err.into()))?;
        let cpus = (0..nix::sched::CpuSet::count()).filter(|&cpu| own.is_set(cpu) == Ok(true));
        if cpus.count() == 1 {
            Ok(())
        } else {
            Err(RunError::NotOneCpu {
                load: self.to_string(),
            })
        }
    }

    fn refused(self, source: io::Error) -> RunError {
        RunError::RealTime {
            load: self.to_string(),
            source,
        }
    }

    /// Computes in its turns until it `ends`, and sleeps in the pauses. Returns the
    /// number of steps.
    fn take(self, turns: BusyTurns, ends: &dyn Fn() -> bool) -> Result<u64, RunError> {
        let heard = SigSet::all().thread_unblock().map_err(io::Error::from);
        heard
            .and_then(|()| scheduling::set(RANK))
            .map_err(|err| self.refused(err))?;
        let mut steps = 0;
        while !ends() {
            let now = clock::now();
            if let Some(end) = BusyTurns::pause(now) {
                clock::sleep_until(end);
                continue;
            }
            let end = turns.end(now);
            while clock::now() < end && !ends() {
                steps += 1;
            }
            std::thread::yield_now();
        }
        Ok(steps)
    }
}

/// Scheduling of processes that take turns.
const RANK: Policy = Policy::Fifo(BusyTurns::PRIORITY);
/// Minimum time. They sleep at least once in it.
const SECOND: Nanos = Nanos::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;

    #[test]
    fn busy_processes_are_read_back_from_their_name() {
        for name in ["busy:1", "busy:4", "busy:64:10ms"] {
            assert_eq!(name.parse::<Busy>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn invalid_number_or_turn_is_an_error() {
        let error = |name: &str| name.parse::<Busy>().unwrap_err().to_string();

        assert!(
            error("busy:0").contains("from 1 to 64"),
            "{}",
            error("busy:0")
        );
        assert!(error("busy:10000").contains("from 1 to 64"));
        assert!(error("busy:4:9s").contains("use 1ms to 100ms"));
        assert_eq!("fp".parse::<Busy>(), Err(BusyError::Other));
    }

    #[test]
    fn busy_processes_count_their_work_until_stopped() {
        let busy: Busy = "busy:2".parse().unwrap();
        // On a busy machine they may not run for a while.
        let mut times = [100, 1_000, 10_000].into_iter().map(Duration::from_millis);
        let did_any = times.any(|time| {
            let stop = AtomicBool::new(false);
            let done = std::thread::scope(|scope| {
                let worker = scope.spawn(|| busy.run(&stop, &|| ()));
                std::thread::sleep(time);
                stop.store(true, Ordering::Relaxed);
                worker.join().unwrap().unwrap()
            });
            done.count > 0
        });

        assert!(did_any);
    }

    #[test]
    fn turns_on_more_than_one_cpu_are_refused() {
        let busy: Busy = "busy:2:10ms".parse().unwrap();
        let stop = AtomicBool::new(true);

        let refused = busy.run(&stop, &|| ()).map(|_| ());

        let own = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let cpus = (0..nix::sched::CpuSet::count()).filter(|&cpu| own.is_set(cpu) == Ok(true));
        if cpus.count() == 1 {
            println!("skipped: this process has one CPU");
            return;
        }
        assert!(
            matches!(
                refused,
                Err(RunError::NotOneCpu { .. } | RunError::RealTime { .. })
            ),
            "{refused:?}"
        );
    }
}
