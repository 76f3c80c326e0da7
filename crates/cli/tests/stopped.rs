//! laggard that is stopped while it records: that time is not the machine's.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use laggard_model::{Activation, CaveatKind, Manifest, Nanos};
use laggard_record::{Columns, Recording};
use tempfile::TempDir;

/// A limit against hanging, not an expectation.
const DEADLINE: Duration = Duration::from_secs(60);
const STOPPED: Duration = Duration::from_millis(1_200);

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn what_was_due_while_it_was_stopped_is_lost_and_said_and_no_latency() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    // Without BPF and real-time threads, so that it needs no rights.
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

    signal(&child, "STOP");
    std::thread::sleep(Duration::from_millis(100));
    let stopped = laggard_measure::linux::now();
    std::thread::sleep(STOPPED);
    let until = laggard_measure::linux::now();
    signal(&child, "CONT");
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
