//! What a measuring thread was given at its start: where it runs, and how it is
//! scheduled. Whoever may can change both meanwhile (`taskset`, `chrt`, a cpuset, a
//! CPU taken offline), and what it measured is then not what it says.

use laggard_model::{Absence, Cpu, CpuList, Lacks};

use laggard_measure::linux::scheduling::{OWN, Scheduling};
use laggard_measure::linux::{inherited, online_cpus};

/// Of one thread.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Footing {
    cpu: Cpu,
    scheduling: Option<Scheduling>,
}

impl Footing {
    /// The calling thread's, which stays on `cpu` and is scheduled as it is now.
    pub(super) fn on(cpu: Cpu) -> Self {
        Self {
            cpu,
            scheduling: Scheduling::of(OWN),
        }
    }

    /// What has become of it since, if the calling thread has another now. Allocates:
    /// not to be asked while it measures.
    pub(super) fn changed(&self) -> Option<Absence> {
        let cpu = self.cpu;
        let own = CpuList::from_iter([cpu]);
        let cpus = inherited::affinity().unwrap_or_else(|_| own.clone());
        let scheduling = Scheduling::of(OWN);
        let reason = if cpus != own && !online_cpus().contains(cpu) {
            format!("CPU {cpu} was taken offline while it was measured")
        } else if cpus != own {
            format!("a thread was taken from CPU {cpu} while it measured (now it may use {cpus})")
        } else if scheduling != self.scheduling {
            let other = scheduling.map_or_else(String::new, |other| format!(" to {other}"));
            format!("the scheduling of a thread was changed{other} while it measured")
        } else {
            return None;
        };
        Some(Absence {
            reason,
            remedy: "leave CPUs and laggard's threads as they are meanwhile (`taskset`, `chrt`, cpusets)"
                .into(),
            lacks: Lacks::Machine,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_measure::linux::{allowed_cpus, policy};

    /// In a thread of its own, so that nobody's has to be restored.
    fn apart<T: Send>(what: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(what).join().unwrap())
    }

    #[test]
    fn who_is_moved_is_not_what_it_was() {
        let all = allowed_cpus();
        let &[first, .., last] = all.as_slice() else {
            return println!("skipped: there is one CPU");
        };
        let (before, after) = apart(|| {
            policy::pin(first).unwrap();
            let footing = Footing::on(first);
            let before = footing.changed();
            policy::pin(last).unwrap();
            (before, footing.changed())
        });

        assert_eq!(before, None);
        let reason = after.unwrap().reason;
        let expected = format!(
            "a thread was taken from CPU {first} while it measured (now it may use {last})"
        );
        assert_eq!(reason, expected);
    }

    #[test]
    fn who_is_scheduled_otherwise_is_not_what_it_was() {
        let found = apart(|| {
            let &[cpu, ..] = allowed_cpus().as_slice() else {
                return None;
            };
            policy::pin(cpu).unwrap();
            let footing = Footing::on(cpu);
            let param = libc::sched_param { sched_priority: 0 };
            // SAFETY: `param` is valid for reads; 0 is the calling thread.
            let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const param) };
            assert_eq!(set, 0);
            footing.changed()
        });

        let reason = found.unwrap().reason;
        assert!(
            reason.starts_with("the scheduling of a thread was changed to SCHED_BATCH at nice "),
            "{reason}"
        );
    }
}
