//! laggard that is stopped while it records: that time is not the machine's.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use laggard_model::{Activation, CaveatKind, Manifest, Nanos};
use laggard_record::{Columns, Recording};
use tempfile::TempDir;

/// A limit against hanging, not an expectation.
const DEADLINE: Duration = Duration::from_secs(60);
const STOPPED: Duration = Duration::from_millis(1_200);

fn signal(to: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &to.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn expiries_during_a_stop_are_reported_as_lost_without_a_latency() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    // Without BPF and real-time threads, so that it does not need privileges.
    let mut child = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["record", "-q", "--backend=user", "--services=other"])
        .args(["--duration=4s", "--output"])
        .arg(&recording)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !recording.join("manifest.json").exists() {
        assert!(begun.elapsed() < DEADLINE, "it does not begin to record");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1_500));

    signal(child.id(), "STOP");
    std::thread::sleep(Duration::from_millis(100));
    let stopped = laggard_measure::linux::now();
    std::thread::sleep(STOPPED);
    let until = laggard_measure::linux::now();
    signal(child.id(), "CONT");
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

/// Starts to record to `recording` with the load `fp`, for `duration`.
fn record_under_load(recording: &Path, duration: &str) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["record", "-q", "--backend=user", "--services=other"])
        .args(["--load=fp", "--duration", duration, "--output"])
        .arg(recording)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !recording.join("manifest.json").exists() {
        assert!(begun.elapsed() < DEADLINE, "it does not begin to record");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1_000));
    child
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
    let mut child = record_under_load(&recording, "5s");
    let load = load_of(&child).expect("the load runs");
    signal(load, "STOP");
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
    let checked = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["check", "--json", "--require"])
        .arg(&required)
        .arg(&recording)
        .output()
        .unwrap();
    let stdout = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(3), "{stdout}");
    assert!(stdout.contains("\"load_ended\""), "{stdout}");
}

/// Nor is one overlooked that goes on before the next look at it, or is stopped after
/// the latest, as here both.
#[test]
fn short_stop_of_a_load_at_the_end_is_reported() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let mut child = record_under_load(&recording, "60s");
    let load = load_of(&child).expect("the load runs");

    signal(load, "STOP");
    let begun = Instant::now();
    let state = || std::fs::read_to_string(format!("/proc/{load}/stat")).unwrap();
    while !state().contains(") T ") {
        assert!(begun.elapsed() < DEADLINE, "it does not stop");
    }
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
