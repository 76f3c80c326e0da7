//! Real-time threads of other programs that the woken thread has to wait for. Their run time
//! is not a fault of the system.
//!
//! The run times that the kernel counts are read before and after a test. A thread that
//! started and ended in between is missed. Kernel threads belong to the system and do not
//! count.

use std::collections::BTreeMap;
use std::fs;

use laggard_model::{CompetingThread, Cpu, Nanos};
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;

use super::WOKEN_PRIORITY;

/// Flag of a kernel thread (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Threads that can keep a CPU from the woken thread, and the run time of each by TID.
#[derive(Debug)]
pub(super) struct Competitors {
    cpu: Cpu,
    before: BTreeMap<i32, CompetingThread>,
}

impl Competitors {
    pub(super) fn new(cpu: Cpu) -> Self {
        Self {
            cpu,
            before: read_threads(cpu),
        }
    }

    /// Returns the threads that have run since `new`, the longest run time first.
    pub(super) fn that_ran(&self) -> Vec<CompetingThread> {
        let ran_before = |tid: &i32| {
            self.before
                .get(tid)
                .map_or(Nanos::ZERO, |before| before.ran_ns)
        };
        let since = read_threads(self.cpu)
            .into_iter()
            .map(|(tid, now)| CompetingThread {
                ran_ns: now.ran_ns.saturating_sub(ran_before(&tid)),
                ..now
            });
        let mut ran: Vec<CompetingThread> =
            since.filter(|thread| thread.ran_ns > Nanos::ZERO).collect();
        ran.sort_by_key(|thread| std::cmp::Reverse(thread.ran_ns));
        ran
    }
}

fn read_threads(cpu: Cpu) -> BTreeMap<i32, CompetingThread> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let entries = |path: &str| fs::read_dir(path).into_iter().flatten().flatten();
    let own = Pid::this().as_raw();
    let processes = entries("/proc")
        .filter_map(number)
        .filter(|pid| *pid != own);
    let threads = processes.flat_map(|pid| {
        let tasks = entries(&format!("/proc/{pid}/task")).filter_map(number);
        tasks.map(move |tid| (pid, tid)).collect::<Vec<_>>()
    });
    let competitor = |(pid, tid): (i32, i32)| {
        // A thread name may not be UTF-8.
        let read = |file| {
            let text = fs::read(format!("/proc/{pid}/task/{tid}/{file}")).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        };
        let (name, priority) = name_and_priority(&read("stat")?)?;
        let ran = read("schedstat")?;
        let ran_ns = ran.split_ascii_whitespace().next()?.parse().ok()?;
        let cpus = sched_getaffinity(Pid::from_raw(tid)).ok()?;
        let may_be_here = cpus.is_set(usize::try_from(cpu.0).ok()?).ok()?;
        let thread = CompetingThread {
            name,
            priority,
            ran_ns: Nanos::from_ns(ran_ns),
        };
        may_be_here.then_some((tid, thread))
    };
    threads.filter_map(competitor).collect()
}

/// Parses `stat` and returns the name and the priority of a thread that the woken thread has
/// to wait for. A thread without priority is `SCHED_DEADLINE`.
fn name_and_priority(stat: &str) -> Option<(String, Option<u8>)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    // The first of these is field 3 of proc_pid_stat(5).
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (flags, priority, policy) = (field(9)?, field(40)?, field(41)?);
    let priority = u8::try_from(priority).ok()?;
    let policy = i32::try_from(policy).ok()?;
    let priority = match policy {
        libc::SCHED_FIFO | libc::SCHED_RR if priority >= WOKEN_PRIORITY => Some(priority),
        libc::SCHED_DEADLINE => None,
        _ => return None,
    };
    (flags & KERNEL_THREAD == 0).then(|| (name.to_owned(), priority))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, flags: u64, priority: u8, policy: i32) -> String {
        let zeros = |count| vec!["0"; count].join(" ");
        format!(
            "77 ({name}) R {} {flags} {} {priority} {policy} {}\n",
            zeros(5),
            zeros(30),
            zeros(11)
        )
    }

    #[test]
    fn competitor_is_a_user_thread_of_the_same_or_a_higher_priority() {
        let fifo = libc::SCHED_FIFO;

        assert_eq!(
            name_and_priority(&stat("a ) (b", 0x0040_0000, 97, fifo)),
            Some(("a ) (b".into(), Some(97)))
        );
        assert_eq!(
            name_and_priority(&stat("d", 0, 0, libc::SCHED_DEADLINE)),
            Some(("d".into(), None))
        );
        for other in [
            stat("below", 0, 89, fifo),
            stat("migration/0", KERNEL_THREAD, 99, fifo),
            stat("normal", 0, 0, libc::SCHED_OTHER),
            String::new(),
        ] {
            assert_eq!(name_and_priority(&other), None, "{other}");
        }
    }

    #[test]
    fn stat_of_this_kernel_parses() {
        let own = fs::read_to_string("/proc/thread-self/stat").unwrap();

        let rest = own.rsplit_once(')').unwrap().1;
        // Flags, priority and policy are at their expected positions.
        assert!(rest.split_ascii_whitespace().count() >= 41 - 2, "{own}");
        assert_eq!(name_and_priority(&own), None);
    }
}
