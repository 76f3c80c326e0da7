//! Studies that were interrupted, moved or damaged.

use std::fs;
use std::path::Path;
use std::process::Output;

use laggard_answer::study::StudyName;
use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Line, LineId, Manifest, Nanos, ProbePlan, Route,
    STAGES, Service, Stage, State,
};
use laggard_record::Recorder;
use serde_json::{Value, json as value};
use tempfile::TempDir;

use super::{cell, script, study};
use crate::scripted::{
    Printed as _, Texts as _, backend, has_samples, laggard, manifest, must_record, signal,
    wait_for,
};

/// Three interruptions leave pieces of any length.
#[test]
fn interrupted_study_has_the_tables_of_a_whole_one() {
    let dir = TempDir::new().unwrap();
    let whole = study(&dir, "osdi99 --quick --json -o whole");
    assert!(whole.status.success(), "{}", whole.errors());
    fs::create_dir(dir.path().join("cut")).unwrap();
    for (name, secs) in [
        ("office-1", 10),
        ("office-2", 47),
        ("game-1", 1),
        ("web-1", 120),
        ("workstation-1", 2),
        ("workstation-2", 70),
        ("workstation-3", 40),
    ] {
        let path = dir.path().join("cut").join(name).with_extension("laggard");
        let duration = format!("--duration={secs}s");
        must_record(&path, &script(100_000_000), &[&duration]);
    }
    // `record` was killed before it measured.
    fs::create_dir(dir.path().join("cut/office-3.laggard")).unwrap();

    let first = study(&dir, "osdi99 --quick --json -o cut");
    let second = study(&dir, "osdi99 --quick --json -o cut");
    let third = study(&dir, "osdi99 --quick --json -o cut --show");

    let started = first.errors();
    started.assert_has("recording continues: 6 min");
    started.assert_lacks("recording web");
    second.errors().assert_lacks("laggard: recording ");
    for output in [&first, &second, &third] {
        assert!(output.status.success(), "{}", output.errors());
        // The number of waits depends on the cuts: Figure 5 counts them.
        let worst_cases =
            |output: &Output| output.json()["tables"].as_array().unwrap()[..5].to_vec();
        assert_eq!(worst_cases(output), worst_cases(&whole));
    }
}

/// Writes the part of a step from `from` to `to`, s: a wakeup every 10 s, whose latency follows
/// from its time in the step. The step starts at `start`, s.
fn write_part(path: &Path, start: u64, from: u64, to: u64) {
    let start = Nanos::from_secs(start + from);
    let route = |service, route| Line::new(Cpu(0), service, route);
    let lines = vec![
        route(Service::Softirq, Route::Direct),
        route(Service::Fifo(90), Route::Deferred),
    ];
    let clock = Clock {
        end_ns: Some(start + Nanos::from_secs(to - from)),
        ..Clock::monotonic(start, "2026-11-20T11:00:00.000+01:00")
    };
    let manifest = Manifest::new(Backend::Bpf, ProbePlan::default(), clock, lines);
    let mut rows = Batch::default();
    for expiry in (from..to).step_by(10) {
        let random = expiry.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let mut steps = [None; STAGES.len()];
        steps[Stage::Irq.index()] = Some(Nanos::from_ns(1_000 + random));
        steps[Stage::Softirq.index()] = Some(Nanos::from_ns(700 + random % 1_009));
        for line in 0..2 {
            if line == 1 {
                steps[Stage::User.index()] = Some(Nanos::from_ns(500 + random % 100_003));
            }
            rows.push(&Activation::new(
                LineId(line),
                (expiry - from) / 10,
                start + Nanos::from_secs(expiry - from),
                steps,
            ));
        }
    }
    let mut recorder = Recorder::create(path, manifest).unwrap();
    recorder.append(&rows).unwrap();
    recorder.finish(State::Complete).unwrap();
}

/// Each load was resumed three times.
#[test]
fn study_of_41_hours_has_the_tables_of_an_uninterrupted_one() {
    let dir = TempDir::new().unwrap();
    for (name, cuts) in [("whole", &[][..]), ("cut", &[13, 130, 777])] {
        fs::create_dir(dir.path().join(name)).unwrap();
        for (step, start) in StudyName::Osdi99.steps_with(&[]).iter().zip(1..) {
            let tens = step.length(false).ns() / 10_000_000_000;
            let ends = cuts.iter().map(|permille| tens * permille / 1_000 * 10);
            let mut from = 0;
            for (number, to) in (1..).zip(ends.chain([tens * 10])) {
                if from == to {
                    continue;
                }
                let piece = format!("{name}/{}-{number}.laggard", step.name);
                write_part(&dir.path().join(piece), start * 1_000_000, from, to);
                from = to;
            }
        }
    }

    let [whole, cut] =
        ["whole", "cut"].map(|name| study(&dir, &format!("osdi99 --show --json -o {name}")));

    // The pieces of the 6 min of Figure 5 have too few wakeups here to be trusted.
    let codes = [&whole, &cut].map(|output| output.status.code());
    assert_eq!(codes, [Some(0), Some(3)], "{}", cut.errors());
    let (whole, cut) = (whole.json(), cut.json());
    assert_eq!(cut["systems"][0]["steps"][2]["recordings"], 4);
    assert_eq!(cut["tables"], whole["tables"]);
    let [hour, week] = ["game.hour", "game.week"]
        .map(|span| cell(&cut, "table3", "expiry_high", span)["ns"].as_f64());
    assert!(hour < week, "{hour:?}, {week:?}");
}

#[test]
fn study_of_another_machine_is_shown_and_not_continued() {
    let dir = TempDir::new().unwrap();
    let whole = dir.path().join("s/idle-1.laggard");
    fs::create_dir(dir.path().join("s")).unwrap();
    must_record(&whole, &script(1_000_000), &["--duration=10s"]);
    let file = whole.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    manifest["host"]["node"] = "other".into();
    manifest["host"]["kernel"] = "6.12.9-rt".into();
    fs::write(&file, manifest.to_string()).unwrap();

    let continued = study(&dir, "heubaum --quick -o s");
    let shown = study(&dir, "heubaum --quick -o s --show --json");

    continued.assert_fails(2, "was recorded on `other` with Linux 6.12.9-rt,");
    assert_eq!(shown.json()["systems"][0]["steps"][0]["recordings"], 1);
}

/// A file that may not grow stands for a full disk.
#[test]
fn recording_that_cannot_be_written_ends_the_study_and_keeps_the_others() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("s")).unwrap();
    let script = script(1_000_000);
    let whole = dir.path().join("s/idle-1.laggard");
    must_record(&whole, &script, &["--duration=10s"]);
    let backend = backend(dir.path(), &script);
    let command = format!("exec \"$0\" study heubaum --quick -o s {backend}");

    let output = std::process::Command::new("sh")
        .args(["-c", &format!("trap '' XFSZ; ulimit -f 8; {command}")])
        .arg(laggard().get_program())
        .current_dir(dir.path())
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2), "{}", output.errors());
    let text = output.errors();
    assert_eq!(text.matches("laggard: recording ").count(), 1, "{text}");
    text.assert_has("and the study stops; the finished recordings are kept");
    let shown = study(&dir, "heubaum -o s --show --quick --json");
    assert_eq!(shown.json()["systems"][0]["steps"][0]["recordings"], 1);
}

#[test]
fn damaged_recording_and_an_ended_load_are_not_trustworthy() {
    let dir = TempDir::new().unwrap();
    assert!(study(&dir, "osdi99 --quick -o s").status.success());
    let file = dir.path().join("s/web-1.laggard/manifest.json");
    let whole = fs::read_to_string(&file).unwrap();
    let mut with_ended_load: Value = serde_json::from_str(&whole).unwrap();
    let ended = value!({"kind": "load_ended", "what": "load `web` ended", "advice": "see it"});
    let caveats = with_ended_load["caveats"].as_array_mut().unwrap();
    caveats.push(ended);
    for content in ["", &with_ended_load.to_string()] {
        fs::write(&file, content).unwrap();

        let output = study(&dir, "osdi99 -o s --show");

        let text = output.text();
        assert_eq!(output.status.code(), Some(3), "{content}: {text}");
        text.assert_has("`web`: not trustworthy");
    }
}

/// Real time, but nothing depends on what is measured.
#[test]
fn interruption_keeps_the_finished_part_and_prints_the_tables() {
    let dir = TempDir::new().unwrap();
    let study = std::process::Command::new(laggard().get_program())
        .args(["study", "heubaum", "--quick", "-o", "s", "--backend=user"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let recording = dir.path().join("s/idle-1.laggard");
    wait_for("it records", || has_samples(&recording));
    signal(study.id(), "INT");
    let output = study.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output.errors());
    let text = output.text();
    text.assert_has("record 10 s");
    text.assert_has("repeat the command to continue");
    assert_eq!(manifest(&recording)["state"], "interrupted");
}
