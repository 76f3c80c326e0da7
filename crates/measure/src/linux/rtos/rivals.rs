//! Real-time threads of other programs that the woken thread has to wait for: what
//! they take is no failing of the system.
//!
//! By what the kernel counts of each thread, before and after. One that began and
//! ended in between is not seen. Threads of the kernel are the system's own.

use std::collections::BTreeMap;
use std::fs;

use laggard_model::{CompetingThread, Cpu, Nanos};
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;

use super::DUELISTS;

/// What a thread of the kernel has in its flags (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Those that could keep a CPU, by TID, and how long each has run.
#[derive(Debug)]
pub(super) struct Rivals {
    cpu: Cpu,
    before: BTreeMap<i32, CompetingThread>,
}

impl Rivals {
    pub(super) fn of(cpu: Cpu) -> Self {
        Self {
            cpu,
            before: standing(cpu),
        }
    }

    /// Those that have run since then, the longest first.
    pub(super) fn that_ran(&self) -> Vec<CompetingThread> {
        let ran_before = |tid: &i32| {
            self.before
                .get(tid)
                .map_or(Nanos::ZERO, |before| before.ran_ns)
        };
        let since = standing(self.cpu)
            .into_iter()
            .map(|(tid, now)| CompetingThread {
                ran_ns: now.ran_ns.saturating_sub(ran_before(&tid)),
                ..now
            });
        let mut ran: Vec<CompetingThread> = since.filter(|one| one.ran_ns > Nanos::ZERO).collect();
        ran.sort_by_key(|one| std::cmp::Reverse(one.ran_ns));
        ran
    }
}

fn standing(cpu: Cpu) -> BTreeMap<i32, CompetingThread> {
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
    let rival = |(pid, tid): (i32, i32)| {
        // The name of a thread need not be UTF-8.
        let read = |file| {
            let text = fs::read(format!("/proc/{pid}/task/{tid}/{file}")).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        };
        let (name, priority) = rival(&read("stat")?)?;
        let ran = read("schedstat")?;
        let ran_ns = ran.split_ascii_whitespace().next()?.parse().ok()?;
        let cpus = sched_getaffinity(Pid::from_raw(tid)).ok()?;
        let may_be_here = cpus.is_set(usize::try_from(cpu.0).ok()?).ok()?;
        let one = CompetingThread {
            name,
            priority,
            ran_ns: Nanos::from_ns(ran_ns),
        };
        may_be_here.then_some((tid, one))
    };
    threads.filter_map(rival).collect()
}

/// The name and the real-time priority of a thread with this `stat`, which a woken
/// thread of a trial has to wait for; no priority: its policy is above all of them.
fn rival(stat: &str) -> Option<(String, Option<u8>)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    // Field 3 is the first of these; see proc_pid_stat(5).
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (flags, priority, policy) = (field(9)?, field(40)?, field(41)?);
    let priority = u8::try_from(priority).ok()?;
    let policy = i32::try_from(policy).ok()?;
    let (_, woken) = DUELISTS;
    let priority = match policy {
        libc::SCHED_FIFO | libc::SCHED_RR if priority >= woken => Some(priority),
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
    fn a_rival_is_a_thread_of_a_program_that_the_woken_one_waits_for() {
        let fifo = libc::SCHED_FIFO;

        assert_eq!(
            rival(&stat("a ) (b", 0x0040_0000, 97, fifo)),
            Some(("a ) (b".into(), Some(97)))
        );
        assert_eq!(
            rival(&stat("d", 0, 0, libc::SCHED_DEADLINE)),
            Some(("d".into(), None))
        );
        for other in [
            stat("below", 0, 89, fifo),
            stat("migration/0", KERNEL_THREAD, 99, fifo),
            stat("normal", 0, 0, libc::SCHED_OTHER),
            String::new(),
        ] {
            assert_eq!(rival(&other), None, "{other}");
        }
    }

    #[test]
    fn the_kernel_s_own_stat_is_read() {
        let own = fs::read_to_string("/proc/thread-self/stat").unwrap();

        let rest = own.rsplit_once(')').unwrap().1;
        // Flags, the priority and the policy are where they are looked for.
        assert!(rest.split_ascii_whitespace().count() >= 41 - 2, "{own}");
        assert_eq!(rival(&own), None);
    }
}
