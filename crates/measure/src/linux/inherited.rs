//! How this process was started: with `chrt`, `nice` or `taskset`, say.
//!
//! A thread inherits its starter's scheduling. Started by `chrt -f 99`, the
//! threads that collect and write would run above the services that are
//! measured, and be what made them late. So the first thread becomes a normal
//! one before there is another; measuring threads get their own policy later.

use std::io;
use std::sync::OnceLock;

use laggard_model::{Caveat, CaveatKind, Cpu, CpuList};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::scheduling::{OWN, SchedulingPolicy, nice_of};
use super::{allowed_cpus, policy};

/// Set by [`become_normal`].
static AT_START: OnceLock<Inherited> = OnceLock::new();

/// The scheduling that this process was started with.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Inherited {
    policy: SchedulingPolicy,
    /// Why the policy could not be made normal.
    refused: Option<String>,
    /// Kept: who starts a load with `nice` means it.
    pub(super) nice: i32,
    /// Where it may run; empty where that is not known.
    cpus: CpuList,
}

/// Gives the calling thread normal scheduling (`SCHED_OTHER`), and remembers
/// what it had. To be called first in `main`, before another thread exists.
pub fn become_normal() {
    AT_START.get_or_init(Inherited::taken_off);
}

/// What this process was started with, unless normal, as reasons to doubt.
pub fn inherited() -> Vec<Caveat> {
    AT_START.get().map_or_else(Vec::new, |at_start| {
        at_start.caveats(&allowed_cpus()).collect()
    })
}

/// Those of `allowed` on which this process was started; all where none is left, or
/// that is not known.
pub(super) fn of_start(allowed: &CpuList) -> CpuList {
    AT_START
        .get()
        .map_or_else(|| allowed.clone(), |at_start| at_start.of(allowed))
}

/// The nice value of this process's threads, unless they change it.
pub(super) fn usual_nice() -> i32 {
    AT_START.get().map_or(0, |at_start| at_start.nice)
}

impl Inherited {
    /// Reads the calling thread's scheduling and makes its policy normal.
    fn taken_off() -> Self {
        let policy = SchedulingPolicy::of(OWN);
        let result = match policy {
            SchedulingPolicy::Other => Ok(()),
            SchedulingPolicy::Batch
            | SchedulingPolicy::Idle
            | SchedulingPolicy::Fifo(_)
            | SchedulingPolicy::RoundRobin(_)
            | SchedulingPolicy::Deadline
            | SchedulingPolicy::Unknown(_) => policy::schedule_normally(),
        };
        Self {
            policy,
            refused: result.err().map(|err| err.to_string()),
            nice: nice_of(OWN),
            cpus: affinity_mask()
                .or_else(|| affinity().ok())
                .unwrap_or_default(),
        }
    }

    fn of(&self, allowed: &CpuList) -> CpuList {
        let all = allowed.as_slice().iter().copied();
        let left: CpuList = all.filter(|cpu| self.cpus.contains(*cpu)).collect();
        match left.as_slice() {
            [] => allowed.clone(),
            _ => left,
        }
    }

    fn caveats(&self, allowed: &CpuList) -> impl Iterator<Item = Caveat> {
        let caveat = |what, advice: &str| Caveat::new(CaveatKind::Inherited, what, advice);
        let policy = self.policy.name().map(|name| match &self.refused {
            None => caveat(
                format!(
                    "this program was started under {name}, and went back to normal scheduling: of its threads only those that measure have a policy of their own, and a load has none"
                ),
                "start it without `chrt`; a load that is to run so takes `-- chrt ...`",
            ),
            Some(err) => caveat(
                format!(
                    "this program was started under {name} and cannot leave it ({err}): its `other` threads, its load and its own work run so"
                ),
                "start it without `chrt`, or as root",
            ),
        });
        let nice = (self.nice != 0).then(|| {
            let share = match self.nice {
                ..0 => "larger",
                _ => "smaller",
            };
            caveat(
                format!(
                    "this program was started at nice {}: its `other` threads and its load have a {share} share of a CPU than ordinary threads",
                    self.nice
                ),
                "start it without `nice`; a load that is to run so takes `-- nice -n N ...`",
            )
        });
        let missing = allowed
            .as_slice()
            .iter()
            .any(|cpu| !self.cpus.contains(*cpu));
        let cpus = (missing && !self.cpus.is_empty()).then(|| {
            caveat(
                format!(
                    "this program was started on CPU {} alone (of {allowed}): where no other is named, that is what is measured, and a load and its own work are there",
                    self.cpus
                ),
                "start it without `taskset`; `--cpus` says what is measured, `--load-cpus` where a load runs",
            )
        });
        [policy, nice, cpus].into_iter().flatten()
    }
}

/// Returns the CPUs on which the calling thread may run, those that are offline too:
/// `sched_getaffinity` leaves these out, and they may come online later.
fn affinity_mask() -> Option<CpuList> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok()
}

/// Where the calling thread may run.
pub fn affinity() -> io::Result<CpuList> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    let numbers = 0..CpuSet::count();
    Ok(numbers
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .filter_map(|cpu| u32::try_from(cpu).ok().map(Cpu))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> CpuList {
        "0-3".parse().unwrap()
    }

    fn said(inherited: &Inherited) -> Vec<String> {
        inherited.caveats(&all()).map(|one| one.what).collect()
    }

    #[test]
    fn a_process_started_normally_has_nothing_to_say() {
        let normal = Inherited {
            cpus: all(),
            ..Inherited::default()
        };

        assert_eq!(said(&normal), [""; 0]);
    }

    #[test]
    fn every_policy_but_the_normal_one_is_named() {
        for (number, priority, name) in [
            (libc::SCHED_FIFO, 99, "SCHED_FIFO with priority 99"),
            (libc::SCHED_RR, 1, "SCHED_RR with priority 1"),
            (libc::SCHED_BATCH, 0, "SCHED_BATCH"),
            (libc::SCHED_IDLE, 0, "SCHED_IDLE"),
            (libc::SCHED_DEADLINE, 0, "SCHED_DEADLINE"),
            (7, 0, "scheduling policy 7"),
        ] {
            let inherited = Inherited {
                policy: SchedulingPolicy::new(number, priority),
                ..Inherited::default()
            };

            let said = said(&inherited);

            let start = format!("this program was started under {name}, and went back to normal");
            assert!(said[0].starts_with(&start), "{said:?}");
        }
    }

    #[test]
    fn nice_and_a_smaller_set_of_cpus_are_kept_and_named() {
        let inherited = Inherited {
            nice: 10,
            cpus: "1".parse().unwrap(),
            ..Inherited::default()
        };

        let said = said(&inherited);

        assert!(said[0].contains("at nice 10"), "{said:?}");
        assert!(said[0].contains("smaller share"), "{said:?}");
        assert!(said[1].contains("on CPU 1 alone (of 0-3)"), "{said:?}");
        assert_eq!(inherited.of(&all()), inherited.cpus);
    }

    #[test]
    fn where_no_cpu_of_the_start_is_left_or_known_all_are_measured() {
        for cpus in ["", "7"] {
            let inherited = Inherited {
                cpus: cpus.parse().unwrap_or_default(),
                ..Inherited::default()
            };

            assert_eq!(inherited.of(&all()), all(), "{cpus}");
        }
    }

    #[test]
    fn a_thread_of_any_policy_becomes_a_normal_one() {
        for (policy, priority) in [
            (libc::SCHED_FIFO, 1),
            (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1),
            (libc::SCHED_BATCH, 0),
            (libc::SCHED_IDLE, 0),
        ] {
            let param = libc::sched_param {
                sched_priority: priority,
            };
            let trial = std::thread::spawn(move || {
                // SAFETY: `param` outlives the call; 0 is this thread.
                let refused = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
                let inherited = Inherited::taken_off();
                (refused != 0)
                    .then_some(())
                    .map_or_else(|| Some((inherited, SchedulingPolicy::of(OWN))), |()| None)
            });
            let Some((inherited, now)) = trial.join().unwrap() else {
                println!("skipped: this user may not have policy {policy}");
                continue;
            };

            let number = policy & !libc::SCHED_RESET_ON_FORK;
            assert_eq!(inherited.policy, SchedulingPolicy::new(number, priority));
            assert_eq!(now, SchedulingPolicy::Other, "from policy {policy}");
        }
    }
}
