//! Tests of the duration and the end of `laggard record --until-decided` with recordings of known
//! latencies.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{
    Printed as _, Texts as _, any_share, ask, backend, every, has_samples, laggard, script, share,
    signal, wait_for,
};

/// Records `script` into `made` until `requirements` are decided.
fn record(dir: &Path, script: &str, requirements: &str, options: &[&str]) -> Output {
    fs::write(dir.join("r.toml"), requirements).unwrap();
    let backend = backend(dir, script);
    let made = ["record", "--output=made", "--require=r.toml", &backend];
    let until = ["--until-decided", "--no-dither"];
    ask(dir, &[&made[..], &until, options].concat())
}

/// Returns the exit code, the number of pieces and the reason for the end.
fn result(dir: &Path, output: &Output) -> (i32, usize, String) {
    let made = dir.join("made");
    let names = fs::read_dir(&made).unwrap_or_else(|err| panic!("{err}: {output:?}"));
    let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
    let pieces = names.filter(|name| name.ends_with(".laggard")).count();
    let answer: Value =
        serde_json::from_slice(&fs::read(made.join("check.json")).unwrap()).unwrap();
    let until = &answer["until_decided"];
    assert_eq!(until["look"], pieces, "{until}");
    let ended = until["ended"].as_str().unwrap_or_default().to_owned();
    fs::remove_dir_all(made).unwrap();
    (output.status.code().unwrap(), pieces, ended)
}

#[test]
fn recording_ends_when_all_pass_or_one_fails_or_at_the_maximum() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    for (limit, at_most, expected) in [
        ("1e-2", "4min", (0, 1, "pass")),
        ("1e-4", "4min", (1, 1, "fail")),
        ("9.5e-4", "1min", (3, 2, "at_most")),
    ] {
        let at_most = format!("--at-most={at_most}");

        let output = record(dir, &every(1_000), &share("3500us", limit), &[&at_most]);

        let (code, pieces, ended) = result(dir, &output);
        assert_eq!((code, pieces, &*ended), expected, "{limit}: {output:?}");
    }
}

/// 30,000 samples without a late one show at 95 % that at most one in 10,000 is late, if they
/// are evaluated once. Up to five evaluations that stop at the first verdict need more.
#[test]
fn repeated_evaluation_needs_more_samples() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let none = script(1_000_000, "");

    let output = record(dir, &none, &share("1ms", "1e-4"), &["--at-most=10min"]);

    let stdout = output.words();
    assert!(
        stdout.starts_with("PASS `r.toml`: 1 check: 1 PASS"),
        "{stdout}"
    );
    stdout.assert_has("Recorded 1.0 min of at most 10 min: all requirements pass.");
    stdout.assert_has(
        "Evaluation 2 of at most 5, each with 98.64 % (PASS) and 98.6 % confidence (FAIL)",
    );
    let before = output.error_words();
    before.assert_has("until `r.toml` is decided, for at most 10 min with at most 5 evaluations");
    before.assert_has("evaluation 1 of 5: 1 check: 1 UNKNOWN");
    assert_eq!(result(dir, &output), (0, 2, "pass".into()));
}

/// Half a second of stall in ten minutes is more than one in 2,000, and most recordings
/// of four minutes do not have one.
#[test]
fn recording_goes_on_while_stalls_of_a_second_are_not_excluded() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let none = script(1_000_000, "");

    let output = record(dir, &none, &any_share("1ms", "5e-4"), &["--at-most=4min"]);

    assert_eq!(result(dir, &output), (3, 4, "at_most".into()));
}

/// The load is not restarted for each piece.
#[test]
fn one_load_runs_during_all_pieces() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let none = script(1_000_000, "");
    let options = ["--load=idle", "--at-most=10min"];

    let output = record(dir, &none, &share("1ms", "1e-4"), &options);

    let before = output.error_words();
    before.assert_has(
        "with at most 5 evaluations; the load runs through all of them; Ctrl-C ends it",
    );
    let of_load = |piece: &str| {
        let file = dir.join("made").join(piece).join("manifest.json");
        let manifest: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        manifest["load"].clone()
    };
    let (first, second) = (of_load("01.laggard"), of_load("02.laggard"));
    assert_eq!(
        (&first["name"], &second["name"]),
        (&"idle".into(), &"idle".into())
    );
    assert!(first["begun_ns"].is_number(), "{first}");
    // The load was already running when the piece started, and was still running when it ended.
    assert_eq!(second["begun_ns"], Value::Null, "{second}");
    assert_eq!(second["throughput"], Value::Null, "{second}");
    assert_eq!(result(dir, &output), (0, 2, "pass".into()));
}

#[test]
fn undecidable_requirement_ends_the_recording() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let handlers = "when_unclear = \"warn\"\n[[require]]\nlongest_softirq = \"100us\"\n";

    let output = record(dir, &every(1_000), handlers, &["--at-most=10min"]);

    assert_eq!(result(dir, &output), (3, 1, "no_time_would".into()));
}

#[test]
fn unsupported_requirement_is_refused_before_recording() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    for (requirements, options, message) in [
        (
            "[[require]]\nnot_worse_than = 1.25\n".to_owned(),
            &[][..],
            "r.toml:2:18: `not_worse_than` compares recordings that were made in turn",
        ),
        (
            share("1ms", "0.1"),
            &["--at-most=10ms"],
            "--at-most 10ms is too short; use at least 1s",
        ),
        (
            share("1ms", "0.1").replace("90", "80"),
            &[],
            "r.toml:3:11: no recording measured `fifo:80`; measured: fifo:90",
        ),
        (
            format!("{}load = \"fileio\"\n", share("1ms", "0.1")),
            &[],
            "no recording has the load `fileio`; recorded: no load",
        ),
        (
            share("1ms", "0.1"),
            &["--duration=1min"],
            "'--until-decided' cannot be used with '--duration",
        ),
        (
            share("1ms", "0.1"),
            &["--", "true"],
            "'--until-decided' cannot be used with",
        ),
        ("[[require]]\n".to_owned(), &[], "[[require]] has no limit"),
    ] {
        let output = record(dir, &every(100), &requirements, options);

        let stderr = output.error_words();
        stderr.assert_has(message);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(!dir.join("made").exists(), "{stderr}");
    }
    for lone in ["--require=r.toml", "--until-decided"] {
        let output = laggard().args(["record", lone]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{lone}");
    }
}

/// On this machine, whatever its latencies are.
#[test]
fn interrupted_run_is_answered_from_its_data() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    // Never decided: a wait of an hour does not occur, and the run is too short to prove the share.
    fs::write(
        dir.join("r.toml"),
        "[[require]]\nat_most = \"1h\"\nshare = 1e-9\n",
    )
    .unwrap();
    let child = std::process::Command::new("env")
        .arg("--default-signal=INT")
        .arg(env!("CARGO_BIN_EXE_laggard"))
        .args(["record", "--output=made", "--require=r.toml"])
        .args(["--until-decided", "--backend=user", "--services=other"])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("it records", || has_samples(&dir.join("made/01.laggard")));
    // The shortest time that is evaluated.
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let (code, pieces, ended) = result(dir, &output);
    assert!(code == 3 && pieces >= 1, "{output:?}");
    // A recording that is not trustworthy does not decide either.
    assert!(["user", "no_time_would"].contains(&&*ended), "{ended}");
}
