//! Starts laggard with a real-time policy, as is common in this field. The threads that collect and
//! write do not keep it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, manifest, program, wait_for};

/// Policies as `/proc/PID/stat` numbers them.
const NORMAL: u32 = 0;

/// Ends a recording also where a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A recording into `dir`, started by `starter` if that is possible here.
fn record(starter: &[&str], dir: &Path, more: &[&str]) -> Option<Running> {
    let (first, arguments) = starter.split_first().unwrap();
    let trial = Command::new(first).args(arguments).arg("true").status();
    if !trial.is_ok_and(|status| status.success()) {
        println!("skipped: `{}` is not possible here", starter.join(" "));
        return None;
    }
    let child = Command::new(first)
        .args(arguments)
        .arg(program())
        .args([
            "record",
            "--quiet",
            "--duration=3s",
            "--services=fifo:9,other",
        ])
        .args(["--threshold=50us", "--output"])
        .arg(dir.join("r.laggard"))
        .args(more)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Some(Running(child))
}

/// Name, policy and nice value of each thread of a process.
fn threads(pid: u32) -> Vec<(String, u32, i32)> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .filter_map(|task| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
            let fields: Vec<&str> = rest.split_whitespace().collect();
            // The third field of proc_pid_stat(5) is the first here.
            Some((
                name.to_owned(),
                fields[41 - 3].parse().ok()?,
                fields[19 - 3].parse().ok()?,
            ))
        })
        .collect()
}

/// The threads once it measures: the most that were seen together.
fn threads_while_measuring(running: &mut Running) -> Vec<(String, u32, i32)> {
    let mut most = Vec::new();
    wait_for("the recording ends", || {
        let now = threads(running.0.id());
        if now.len() >= most.len() {
            most = now;
        }
        running.0.try_wait().unwrap().is_some()
    });
    most
}

fn said_of_the_start(dir: &Path) -> Vec<String> {
    let manifest = manifest(&dir.join("r.laggard"));
    let caveats = manifest["caveats"].as_array().unwrap().iter();
    caveats
        .filter(|caveat| caveat["kind"] == "inherited")
        .map(|caveat| caveat["what"].as_str().unwrap().to_owned())
        .collect()
}

fn is_measuring(name: &str) -> bool {
    name.starts_with("lag/")
}

#[test]
fn only_measuring_threads_keep_a_real_time_policy() {
    for (starter, name) in [
        (["chrt", "-f", "30"], "SCHED_FIFO with priority 30"),
        (["chrt", "-r", "30"], "SCHED_RR with priority 30"),
        (["chrt", "-i", "0"], "SCHED_IDLE"),
        (["chrt", "-b", "0"], "SCHED_BATCH"),
    ] {
        let dir = TempDir::new().unwrap();
        let Some(mut running) = record(&starter, dir.path(), &[]) else {
            return;
        };

        let threads = threads_while_measuring(&mut running);

        let (measuring, others): (Vec<_>, Vec<_>) =
            threads.iter().partition(|(name, ..)| is_measuring(name));
        assert!(measuring.len() > 1 && others.len() > 1, "{threads:?}");
        assert!(
            others.iter().all(|(_, policy, _)| *policy == NORMAL),
            "{starter:?}: {threads:?}"
        );
        let message = said_of_the_start(dir.path());
        assert!(
            message.iter().any(|what| what.contains(name)),
            "{message:?}"
        );
    }
}

#[test]
fn a_load_inherits_no_real_time_policy() {
    let dir = TempDir::new().unwrap();
    let policies = dir.path().join("policies");
    let script = format!(
        "cut -d' ' -f41 /proc/$$/stat > {}; sleep 100",
        policies.display()
    );
    let command = ["--", "sh", "-c", &script];
    let Some(mut running) = record(&["chrt", "-f", "30"], dir.path(), &command) else {
        return;
    };

    threads_while_measuring(&mut running);

    assert_eq!(std::fs::read_to_string(policies).unwrap(), "0\n");
}

/// CPUs that were measured, as the recording names them.
fn measured(dir: &Path) -> std::collections::BTreeSet<u64> {
    let manifest = manifest(&dir.join("r.laggard"));
    let lines = manifest["lines"].as_array().unwrap().iter();
    lines.map(|line| line["cpu"].as_u64().unwrap()).collect()
}

#[test]
fn affinity_at_the_start_selects_the_measured_cpu() {
    for (more, cpu) in [(&[][..], 0), (&["--cpus=1"][..], 1)] {
        let dir = TempDir::new().unwrap();
        if !std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            return println!("skipped: there is one CPU");
        }
        let Some(mut running) = record(&["taskset", "-c", "0"], dir.path(), more) else {
            return;
        };

        threads_while_measuring(&mut running);

        assert_eq!(measured(dir.path()), [cpu].into(), "{more:?}");
        let message = said_of_the_start(dir.path());
        let expected = "started on CPU 0 only";
        assert!(
            message.iter().any(|what| what.contains(expected)),
            "{message:?}"
        );
    }
}

#[test]
fn warning_if_not_all_cpus_are_measured() {
    let dir = TempDir::new().unwrap();
    let output = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program())
        .args(["record", "--duration=1s", "--services=other", "--output"])
        .arg(dir.path().join("r.laggard"))
        .output();
    let (Ok(output), Ok(cpus)) = (output, std::thread::available_parallelism()) else {
        return println!("skipped: taskset is not here");
    };
    if cpus.get() < 2 {
        return println!("skipped: there is one CPU");
    }

    let stderr = output.errors();
    stderr.assert_has("measuring only CPU 0 of 0-");
}

#[test]
fn nice_at_the_start_is_reported() {
    let dir = TempDir::new().unwrap();
    // The tests may be run with another nice value.
    let expected = format!("nice {}", threads(std::process::id())[0].2 + 7);
    let Some(mut running) = record(&["nice", "-n", "7"], dir.path(), &[]) else {
        return;
    };

    threads_while_measuring(&mut running);

    let message = said_of_the_start(dir.path());
    assert!(
        message.iter().any(|what| what.contains(&expected)),
        "{message:?}"
    );
}
