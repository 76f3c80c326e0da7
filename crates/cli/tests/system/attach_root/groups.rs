//! Control groups and units: all their threads, including new ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{Begun, SLEEPER, laggard, number, report, wait_until_planned};
use crate::scripted::{Texts as _, signal};

/// A group of this test's own, gone with it.
pub(crate) struct OwnGroup(pub(crate) PathBuf);

impl OwnGroup {
    /// Returns `None`, with a message, if it is unavailable on this machine.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let mut mounts = mounts.lines().map(|line| line.split(' '));
        let Some(root) = mounts.find_map(|mut line| {
            let root = line.nth(1)?;
            (line.next()? == "cgroup2").then_some(root)
        }) else {
            println!("skipped: there are no cgroups of version 2");
            return None;
        };
        let name = format!("laggard-attach-{name}-{}", std::process::id());
        let group = Self(Path::new(root).join(name));
        if let Err(err) = fs::create_dir(&group.0) {
            println!("skipped: no cgroup can be made: {err}");
            return None;
        }
        Some(group)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_control_group_is_watched_with_processes_that_join_it() {
    let Some(group) = OwnGroup::new("come") else {
        return;
    };
    let path = group.0.display().to_string();
    let mut watching = laggard()
        .args(["--cgroup", &path, "--json", "-d2min", "--episodes=off"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Begun::of(&mut watching);
    let mut sleepers: Vec<_> = (0..2)
        .map(|_| {
            let mut sleeper = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "attach_root::planned", "--quiet"])
                .env(SLEEPER, "1")
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            fs::write(group.0.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
            wait_until_planned(sleeper.id());
            thread::sleep(Duration::from_millis(500));
            // The second comes after the first has gone.
            sleeper.kill().unwrap();
            sleeper
        })
        .collect();

    signal(watching.id(), "INT");
    let output = begun.end(watching);

    for sleeper in &mut sleepers {
        sleeper.wait().unwrap();
    }
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    for sleeper in &sleepers {
        assert!(
            rows.iter().any(|row| row["process"] == sleeper.id()
                && row["name"] == "planned"
                && number(row, "activations") > 0),
            "{}: {report:#}",
            sleeper.id()
        );
    }
}

/// A service that is a shell script: processes that end between listing and marking are skipped,
/// without an effect on others.
#[test]
fn a_group_whose_processes_end_all_the_time_is_watched_all_the_time() {
    let Some(group) = OwnGroup::new("churn") else {
        return;
    };
    let path = group.0.display().to_string();
    let script = "echo $$ > \"$0\"; while :; do sleep 0.02; done";
    let members = group.0.join("cgroup.procs").display().to_string();
    let mut shell = Command::new("sh")
        .args(["-c", script, &members])
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(200));

    let output = laggard()
        .args(["--cgroup", &path, "--json", "-d3s", "--episodes=off"])
        .output()
        .unwrap();

    shell.kill().unwrap();
    shell.wait().unwrap();
    // The last process of the group ends by itself, so that the group can be removed.
    thread::sleep(Duration::from_millis(200));
    let stderr = output.errors();
    assert!(!stderr.contains("No such file"), "{stderr}");
    assert!(!stderr.contains("are not measured"), "{stderr}");
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    let of_shell = rows.iter().filter(|row| row["process"] == shell.id());
    let activations: u64 = of_shell.map(|row| number(row, "activations")).sum();
    assert!(
        activations > 0 && number(&report, "ended") > 0,
        "{report:#}"
    );
}

#[test]
fn a_group_of_threads_alone_is_refused_and_not_watched_without_a_thread() {
    let Some(group) = OwnGroup::new("threaded") else {
        return;
    };
    if let Err(err) = fs::write(group.0.join("cgroup.type"), "threaded") {
        return println!("skipped: no group can be made one of threads: {err}");
    }
    let path = group.0.display().to_string();

    let output = laggard()
        .args(["--cgroup", &path, "-d1s"])
        .output()
        .unwrap();

    let stderr = output.errors();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("is threaded and has no processes"),
        "{stderr}"
    );
}

#[test]
fn a_unit_is_a_service_also_where_its_name_has_a_dot() {
    let Some(group) = OwnGroup::new("units") else {
        return;
    };
    let name = format!("php8.2-fpm-{}", std::process::id());
    let folder = group.0.join(format!("{name}.service"));
    fs::create_dir(&folder).unwrap();

    let output = laggard()
        .args(["--unit", &name, "--json", "-d100ms", "--episodes=off"])
        .output()
        .unwrap();

    fs::remove_dir(&folder).unwrap();
    let stderr = output.errors();
    assert!(!stderr.contains("there is no control group"), "{stderr}");
    let Some(report) = report(&output) else {
        return;
    };
    assert_eq!(report["threads"], 0, "{report:#}");
    assert!(stderr.contains(&folder.display().to_string()), "{stderr}");
}
