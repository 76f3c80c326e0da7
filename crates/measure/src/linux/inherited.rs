//! Initial scheduling of this process, for example from `chrt`, `nice` or `taskset`.
//!
//! A thread inherits the scheduling of its creator. After `chrt -f 99`, the threads that collect
//! and write would run above the measured services and would make them late. The first thread
//! therefore becomes a `SCHED_OTHER` thread before it starts others. Measuring threads get their
//! policy later.

use std::io;
use std::sync::OnceLock;

use laggard_model::{Caveat, CaveatKind, Cpu, CpuList};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::scheduling::{OWN, SchedulingPolicy, nice_of};
use super::{allowed_cpus, policy};

/// Set by [`become_normal`].
static AT_START: OnceLock<InitialScheduling> = OnceLock::new();

/// Initial scheduling of this process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct InitialScheduling {
    policy: SchedulingPolicy,
    /// Reason why the policy could not be set to `SCHED_OTHER`.
    refused: Option<String>,
    /// Kept, because a user who starts a load with `nice` wants this.
    pub(super) nice: i32,
    /// CPUs of the affinity mask; empty if unknown.
    cpus: CpuList,
}

/// Sets `SCHED_OTHER` for the calling thread and remembers its previous scheduling. Call it first
/// in `main`, before another thread exists.
pub fn become_normal() {
    AT_START.get_or_init(InitialScheduling::read_and_reset);
}

/// Returns warnings about the initial scheduling of this process.
pub fn inherited() -> Vec<Caveat> {
    AT_START.get().map_or_else(Vec::new, |at_start| {
        at_start.caveats(&allowed_cpus()).collect()
    })
}

/// Returns the CPUs of `allowed` that were in this process's initial affinity. Returns `allowed` if
/// none of them was, or if the affinity is unknown.
pub(super) fn at_start(allowed: &CpuList) -> CpuList {
    AT_START
        .get()
        .map_or_else(|| allowed.clone(), |at_start| at_start.of(allowed))
}

/// Returns the nice value of this process's threads, unless they change it.
pub(super) fn usual_nice() -> i32 {
    AT_START.get().map_or(0, |at_start| at_start.nice)
}

impl InitialScheduling {
    /// Reads the scheduling of the calling thread and sets its policy to `SCHED_OTHER`.
    fn read_and_reset() -> Self {
        let policy = SchedulingPolicy::read(OWN);
        let result = match policy {
            SchedulingPolicy::Other => Ok(()),
            _ => policy::schedule_normally(),
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
        let cpus = allowed.as_slice().iter().copied();
        let left: CpuList = cpus.filter(|cpu| self.cpus.contains(*cpu)).collect();
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
                    "this program was started under {name} and switched to SCHED_OTHER; only its measuring threads have another policy, and a load runs as SCHED_OTHER"
                ),
                "start it without `chrt`; to run only the load under this policy, use `-- chrt ...`",
            ),
            Some(err) => caveat(
                format!(
                    "this program was started under {name} and cannot leave it ({err}); its `other` threads, its load and its remaining threads run under this policy"
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
                    "this program was started at nice {}; its `other` threads and its load have a {share} share of a CPU than ordinary threads",
                    self.nice
                ),
                "start it without `nice`; to change only the load, use `-- nice -n N ...`",
            )
        });
        let missing = allowed
            .as_slice()
            .iter()
            .any(|cpu| !self.cpus.contains(*cpu));
        let cpus = (missing && !self.cpus.is_empty()).then(|| {
            caveat(
                format!(
                    "this program was started on CPU {} only (of {allowed}); without --cpus it measures that CPU, and a load and its remaining threads run there",
                    self.cpus
                ),
                "start it without `taskset`; select measured CPUs with `--cpus` and CPUs of the load with `--load-cpus`",
            )
        });
        [policy, nice, cpus].into_iter().flatten()
    }
}

/// Returns the CPUs of the calling thread's affinity, including offline CPUs. `sched_getaffinity`
/// omits these, and they may come online later.
fn affinity_mask() -> Option<CpuList> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok()
}

/// Returns the affinity of the calling thread.
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

    fn four_cpus() -> CpuList {
        "0-3".parse().unwrap()
    }

    fn texts(inherited: &InitialScheduling) -> Vec<String> {
        inherited
            .caveats(&four_cpus())
            .map(|caveat| caveat.what)
            .collect()
    }

    #[test]
    fn process_started_normally_has_no_warning() {
        let normal = InitialScheduling {
            cpus: four_cpus(),
            ..InitialScheduling::default()
        };

        assert_eq!(texts(&normal), [""; 0]);
    }

    #[test]
    fn every_policy_except_sched_other_is_named() {
        for (number, priority, name) in [
            (libc::SCHED_FIFO, 99, "SCHED_FIFO with priority 99"),
            (libc::SCHED_RR, 1, "SCHED_RR with priority 1"),
            (libc::SCHED_BATCH, 0, "SCHED_BATCH"),
            (libc::SCHED_IDLE, 0, "SCHED_IDLE"),
            (libc::SCHED_DEADLINE, 0, "SCHED_DEADLINE"),
            (7, 0, "scheduling policy 7"),
        ] {
            let inherited = InitialScheduling {
                policy: SchedulingPolicy::new(number, priority),
                ..InitialScheduling::default()
            };

            let texts = texts(&inherited);

            let start =
                format!("this program was started under {name} and switched to SCHED_OTHER");
            assert!(texts[0].starts_with(&start), "{texts:?}");
        }
    }

    #[test]
    fn nice_and_affinity_are_kept_and_named() {
        let inherited = InitialScheduling {
            nice: 10,
            cpus: "1".parse().unwrap(),
            ..InitialScheduling::default()
        };

        let texts = texts(&inherited);

        assert!(texts[0].contains("at nice 10"), "{texts:?}");
        assert!(texts[0].contains("smaller share"), "{texts:?}");
        assert!(texts[1].contains("on CPU 1 only (of 0-3)"), "{texts:?}");
        assert_eq!(inherited.of(&four_cpus()), inherited.cpus);
    }

    #[test]
    fn all_cpus_are_measured_if_the_start_affinity_is_unknown_or_unusable() {
        for cpus in ["", "7"] {
            let inherited = InitialScheduling {
                cpus: cpus.parse().unwrap_or_default(),
                ..InitialScheduling::default()
            };

            assert_eq!(inherited.of(&four_cpus()), four_cpus(), "{cpus}");
        }
    }

    #[test]
    fn thread_of_any_policy_becomes_sched_other() {
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
                let inherited = InitialScheduling::read_and_reset();
                (refused != 0)
                    .then_some(())
                    .map_or_else(|| Some((inherited, SchedulingPolicy::read(OWN))), |()| None)
            });
            let Some((inherited, now)) = trial.join().unwrap() else {
                println!("skipped: this user may not set policy {policy}");
                continue;
            };

            let number = policy & !libc::SCHED_RESET_ON_FORK;
            assert_eq!(inherited.policy, SchedulingPolicy::new(number, priority));
            assert_eq!(now, SchedulingPolicy::Other, "from policy {policy}");
        }
    }
}
