//! laggard that is stopped while it records: that time is not the machine's.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use laggard_model::{Activation, CaveatKind, Manifest, Nanos};
use laggard_record::{Columns, Recording};
use tempfile::TempDir;

use crate::scripted::{
    Printed as _, Texts as _, command as laggard, has_samples, signal, wait_for,
};

const STOPPED: Duration = Duration::from_millis(1_200);

#[test]
fn expiries_during_a_stop_are_reported_as_lost_without_a_latency() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    // Without BPF and real-time threads, so that it does not need privileges.
    let mut child = laggard()
        .args(["record", "-q", "--backend=user", "--services=other"])
        .args(["--duration=1h", "--output"])
        .arg(&recording)
        .spawn()
        .unwrap();
    wait_for("it measures", || has_samples(&recording));
    signal(child.id(), "STOP");
    std::thread::sleep(Duration::from_millis(100));
    let stopped = laggard_measure::linux::now();
    std::thread::sleep(STOPPED);
    let until = laggard_measure::linux::now();
    signal(child.id(), "CONT");
    std::thread::sleep(Duration::from_secs(1));
    signal(child.id(), "INT");
    child.wait().unwrap();
    let recording = Recording::open(&recording).unwrap();
    let manifest: &Manifest = recording.manifest();
    let mut rows: Vec<Activation> = Vec::new();
    recording.scan(Columns::all(), |batch| rows.extend(batch.iter()));
    assert!(rows.len() > 100, "{}", rows.len());
    for row in &rows {
        let waited = (row.expiry, row.expiry + row.latency());
        assert!(waited.1 <= stopped || waited.0 >= until, "{row:?}");
    }
    let lines = manifest.lines.len() as u64;
    let due = Nanos::from(STOPPED).ns() / manifest.plan.period_ns.ns();
    assert!(
        manifest.losses.stopped >= lines * due * 9 / 10,
        "{:?}",
        manifest.losses
    );
    let about = manifest
        .caveats
        .iter()
        .filter(|caveat| caveat.kind == CaveatKind::Stopped);
    let about: Vec<&str> = about.map(|caveat| caveat.what.as_str()).collect();
    assert_eq!(about.len(), 1, "{about:?}");
    for count in &manifest.counts {
        let planned = count.served + count.missed + count.lost;
        assert_eq!(count.planned, Some(planned));
    }
}

/// The process that runs the load of `laggard`: its child, by the command line.
fn load_of(laggard: &Child) -> Option<u32> {
    let mine = format!("{}", laggard.id());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|id| {
        let proc_file =
            |name: &str| std::fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
        let (stat, words) = (proc_file("stat"), proc_file("cmdline"));
        let stat = String::from_utf8_lossy(&stat).into_owned();
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, after)| after.split(' ').nth(1));
        parent == Some(&mine) && words.windows(10).any(|part| part == b"load\0run\0f")
    })
}

/// Starts to record to `recording` with the load `fp`. Returns the process and its load.
fn record_under_load(recording: &Path) -> (Child, u32) {
    let child = laggard()
        .args(["record", "-q", "--backend=user", "--services=other"])
        .args(["--load=fp", "--duration=1h", "--output"])
        .arg(recording)
        .spawn()
        .unwrap();
    let mut load = None;
    wait_for("it measures under the load", || {
        load = load_of(&child);
        load.is_some() && has_samples(recording)
    });
    (child, load.unwrap())
}
/// Stops a process, and returns when it has stopped.
fn stop(process: u32) {
    signal(process, "STOP");
    let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    wait_for("it stops", || state().contains(") T "));
}

/// Returns the recording's warnings about the end of its load.
fn told_of_load(recording: &Path) -> Vec<String> {
    let manifest = Recording::open(recording).unwrap().manifest().clone();
    let of_load = |caveat: &laggard_model::Caveat| caveat.kind == CaveatKind::LoadEnded;
    let caveats = manifest.caveats.into_iter();
    caveats.filter(of_load).map(|caveat| caveat.what).collect()
}

#[test]
fn stop_of_a_load_is_reported_and_leaves_no_verdict() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let (mut child, load) = record_under_load(&recording);
    stop(load);
    signal(child.id(), "TERM");
    child.wait().unwrap();

    let about = told_of_load(&recording);
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(
        about[0].starts_with("the load `fp` was stopped"),
        "{about:?}"
    );
    let required = dir.path().join("r.toml");
    std::fs::write(
        &required,
        "[[require]]\nload = \"fp\"\nat_most = \"1h\"\nshare = 0.5\n",
    )
    .unwrap();
    let checked = laggard()
        .args(["check", "--json", "--require"])
        .arg(&required)
        .arg(&recording)
        .output()
        .unwrap();
    let stdout = checked.text();
    assert_eq!(checked.status.code(), Some(3), "{stdout}");
    stdout.assert_has("\"load_ended\"");
}

/// Nor is one overlooked that goes on before the next look at it, or is stopped after
/// the latest, as here both.
#[test]
fn short_stop_of_a_load_at_the_end_is_reported() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let (mut child, load) = record_under_load(&recording);
    stop(load);
    signal(load, "CONT");
    signal(child.id(), "TERM");
    child.wait().unwrap();

    let about = told_of_load(&recording);
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(
        about[0].starts_with("the load `fp` was stopped during the measurement"),
        "{about:?}"
    );
}
