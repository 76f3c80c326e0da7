//! CPU and scheduling of a measuring thread at its start. A user with the rights can change both
//! during the run (`taskset`, `chrt`, a cpuset, a CPU taken offline). The measurement is then not
//! what it claims to be.

use laggard_model::{Absence, Cpu};
#[cfg(target_os = "linux")]
use laggard_model::{CpuList, Lacks};

#[cfg(target_os = "linux")]
use laggard_measure::linux::scheduling::{OWN, Scheduling};
#[cfg(target_os = "linux")]
use laggard_measure::linux::{inherited, online_cpus};

/// CPU and scheduling of one thread.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ThreadPlacement {
    cpu: Cpu,
    scheduling: Option<Scheduling>,
}

/// Windows does not report a change.
#[cfg(windows)]
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ThreadPlacement;

#[cfg(windows)]
impl ThreadPlacement {
    pub(super) const fn on(_: Cpu) -> Self {
        Self
    }

    #[allow(clippy::unused_self, reason = "as on Linux")]
    pub(super) const fn changed(&self) -> Option<Absence> {
        None
    }
}

#[cfg(target_os = "linux")]
impl ThreadPlacement {
    /// Returns the placement of the calling thread, which stays on `cpu` and keeps its current
    /// scheduling.
    pub(super) fn on(cpu: Cpu) -> Self {
        Self {
            cpu,
            scheduling: Scheduling::read(OWN),
        }
    }

    /// Returns the difference to the calling thread's current placement. This allocates, so do
    /// not call it during the measurement.
    pub(super) fn changed(&self) -> Option<Absence> {
        let cpu = self.cpu;
        let own = CpuList::from_iter([cpu]);
        let cpus = inherited::affinity().unwrap_or_else(|_| own.clone());
        let scheduling = Scheduling::read(OWN);
        let reason = if cpus != own && !online_cpus().contains(cpu) {
            format!("CPU {cpu} was taken offline during the measurement")
        } else if cpus != own {
            format!(
                "a measuring thread was moved off CPU {cpu} during the measurement (its affinity is now {cpus})"
            )
        } else if scheduling != self.scheduling {
            let other = scheduling.map_or_else(String::new, |other| format!(" to {other}"));
            format!(
                "the scheduling of a measuring thread was changed{other} during the measurement"
            )
        } else {
            return None;
        };
        Some(Absence::new(
            reason,
            "do not change CPUs or laggard's threads during the measurement (`taskset`, `chrt`, cpusets)",
            Lacks::Machine,
        ))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use laggard_measure::linux::{allowed_cpus, policy};

    /// Runs `what` in a separate thread, so that the affinity of the test's thread does not
    /// change.
    fn apart<T: Send>(what: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(what).join().unwrap())
    }

    #[test]
    fn moved_thread_has_changed() {
        let cpus = allowed_cpus();
        let &[first, .., last] = cpus.as_slice() else {
            return println!("skipped: there is one CPU");
        };
        let (before, after) = apart(|| {
            policy::pin(first).unwrap();
            let footing = ThreadPlacement::on(first);
            let before = footing.changed();
            policy::pin(last).unwrap();
            (before, footing.changed())
        });

        assert_eq!(before, None);
        let reason = after.unwrap().reason;
        let expected = format!(
            "a measuring thread was moved off CPU {first} during the measurement (its affinity is now {last})"
        );
        assert_eq!(reason, expected);
    }

    #[test]
    fn thread_with_another_policy_has_changed() {
        let change = apart(|| {
            let &[cpu, ..] = allowed_cpus().as_slice() else {
                return None;
            };
            policy::pin(cpu).unwrap();
            let footing = ThreadPlacement::on(cpu);
            let param = libc::sched_param { sched_priority: 0 };
            // SAFETY: `param` is valid for reads; 0 is the calling thread.
            let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const param) };
            assert_eq!(set, 0);
            footing.changed()
        });

        let reason = change.unwrap().reason;
        assert!(
            reason.starts_with(
                "the scheduling of a measuring thread was changed to SCHED_BATCH at nice "
            ),
            "{reason}"
        );
    }
}
