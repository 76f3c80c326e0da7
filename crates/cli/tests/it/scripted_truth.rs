//! First screen of recordings with a known truth: all figures, also in its JSON, match the truth.

use std::path::{Path, PathBuf};

use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Line, LineId, Manifest, Nanos, ProbePlan, Route,
    STAGES, Service, State,
};
use laggard_record::Recorder;
use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, laggard};

const START: Nanos = Nanos::from_secs(1_000);

/// Latency of a wakeup by CPU, service and number. `None` if it is missing.
type ScriptedLateness = fn(u32, Service, u64) -> Option<Nanos>;

/// Content of a recording.
struct Truth {
    cpus: u32,
    services: &'static [Service],
    period: Nanos,
    length: Nanos,
    late: ScriptedLateness,
    /// Number of the first wakeup that is not served.
    unserved: fn(u32, Service) -> u64,
}

impl Default for Truth {
    fn default() -> Self {
        Self {
            cpus: 1,
            services: &[Service::Fifo(90)],
            period: Nanos::from_ms(1),
            length: Nanos::from_secs(10),
            late: |_, _, _| Some(Nanos::from_us(16)),
            unserved: |_, _| u64::MAX,
        }
    }
}

fn recorded(dir: &Path, truth: &Truth) -> PathBuf {
    let path = dir.join("r.laggard");
    let end = START + truth.length;
    let lines = (0..truth.cpus).flat_map(|cpu| {
        truth
            .services
            .iter()
            .map(move |&service| Line::new(Cpu(cpu), service, Route::Direct))
    });
    let lines: Vec<Line> = lines.collect();
    let clock = Clock {
        end_ns: Some(end),
        ..Clock::monotonic(START, "2026-11-20T11:00:00+01:00[Europe/Berlin]")
    };
    let plan = ProbePlan {
        dither: false,
        period_ns: truth.period,
        ..ProbePlan::default()
    };
    let manifest = Manifest::new(Backend::Bpf, plan, clock, lines.clone());
    let mut recorder = Recorder::create(&path, manifest).unwrap();
    let planned = truth.length.ns() / truth.period.ns();
    for (id, line) in lines.iter().enumerate() {
        let mut rows = Batch::default();
        let mut free = START;
        for seq in 0..planned {
            let expiry = START + truth.period * seq;
            let Some(late) = (truth.late)(line.cpu.0, line.service, seq) else {
                continue;
            };
            let is_waiting = seq >= (truth.unserved)(line.cpu.0, line.service);
            let missed = is_waiting || expiry < free;
            let served = if missed && !is_waiting {
                free
            } else {
                expiry + late
            };
            free = free.max(served);
            let mut steps = [None; STAGES.len()];
            let taken = if is_waiting { end } else { served };
            steps[line.service.last_stage().index()] = Some(taken.saturating_sub(expiry));
            rows.push(&Activation {
                line: LineId::at(id).unwrap(),
                seq,
                expiry,
                missed,
                censored: is_waiting,
                steps,
            });
        }
        recorder.append(&rows).unwrap();
    }
    recorder.update(|manifest| {
        manifest.cost.wall_ns = truth.length;
    });
    recorder.finish(State::Complete).unwrap();
    path
}

/// Returns the output of a command for the recording, on one line.
fn words_of(recording: &Path, words: &[&str]) -> String {
    let (command, rest) = words.split_first().unwrap();
    let output = laggard()
        .arg(command)
        .arg(recording)
        .args(rest)
        .output()
        .unwrap();
    let text = output.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn overview(recording: &Path) -> Value {
    let output = laggard()
        .args(["show", "--json"])
        .arg(recording)
        .output()
        .unwrap();
    let mut report: Value = output.json();
    report["overviews"][0].take()
}

/// One of 64 CPUs is late by 5 ms, once a second.
#[test]
fn the_figures_of_64_cpus_are_those_of_all_of_them_together() {
    let dir = TempDir::new().unwrap();
    let truth = Truth {
        cpus: 64,
        services: &[Service::Fifo(90), Service::Other],
        period: Nanos::from_ms(4),
        length: Nanos::from_secs(4),
        late: |cpu, _, seq| {
            let is_late = cpu == 37 && seq % 250 == 100;
            Some(if is_late {
                Nanos::from_ms(5)
            } else {
                Nanos::from_us(16)
            })
        },
        ..Truth::default()
    };
    let recording = recorded(dir.path(), &truth);

    let screen = words_of(&recording, &["show"]);
    let report = overview(&recording);

    screen.assert_has(": 4 s, no load, 64 CPUs");
    for (line, service) in [("SCHED_FIFO 90", "fifo:90"), ("SCHED_OTHER", "other")] {
        let row = format!("{line} 16.0 us 16.0 us 16.0 us 5.00 ms");
        screen.assert_has(&row);
        let services = report["services"].as_array().unwrap();
        let service_row = services
            .iter()
            .find(|service_row| service_row["service"] == service);
        let service_row = service_row.unwrap();
        assert_eq!(service_row["samples"], 64_000);
        assert_eq!(service_row["max_ns"], 5_000_000);
    }
    screen.assert_has("128,000 samples, 0 lost");
    assert_eq!(report["measurement"]["samples"], 128_000);
    // The observed time is not the sum of all CPUs: it is not multiplied by 64.
    let fits = report["fits"].as_array().unwrap();
    let never = fits.iter().filter(|fit| fit["figures"]["failures"] == 0.0);
    for low in never.map(|fit| fit["figures"]["mttf_low_ns"].as_f64().unwrap()) {
        assert!(low <= 4e9 / 2.99, "{low}");
    }
}

#[test]
fn pending_wakeup_is_reported_with_the_limit_that_it_exceeds() {
    let dir = TempDir::new().unwrap();
    let truth = Truth {
        unserved: |_, _| 7_000,
        ..Truth::default()
    };
    let recording = recorded(dir.path(), &truth);

    // The slack is so short that only an interval is known.
    let verdict = words_of(&recording, &["qos", "--app", "jack-128"]);
    let table = words_of(&recording, &["qos"]);
    let curve = words_of(&recording, &["qos", "--app", "jack-128", "--curve"]);
    let report = overview(&recording);

    let fits = report["fits"].as_array().unwrap();
    let fit = fits
        .iter()
        .find(|fit| fit["application"]["name"] == "jack-128");
    let fit = fit.unwrap();
    assert_eq!(fit["verdict"], "not_fit");
    let most = fit["figures"]["mttf_high_ns"].as_f64().unwrap();
    let most = laggard_model::text::rough_time(most, 2);
    let sentence =
        format!("NOT FIT `jack-128` as SCHED_FIFO 90: 1 xrun per {most} or more often (it was");
    assert!(verdict.starts_with(&sentence), "{verdict}");
    let row = format!("jack-128 1.87 ms SCHED_FIFO 90 NOT FIT <= {most}");
    table.assert_has(&row);
    curve.assert_has(&format!("<= {most}"));
}

#[test]
fn forecast_states_the_spans_that_stay_within_the_max() {
    let dir = TempDir::new().unwrap();
    let truth = Truth {
        period: Nanos::from_secs(1),
        length: Nanos::from_secs(12 * 3_600),
        ..Truth::default()
    };
    let recording = recorded(dir.path(), &truth);

    let forecast = words_of(&recording, &["forecast"]);
    forecast.assert_has("9 of 10 spans of 1.3 h stay within the max");
    forecast.assert_lacks("below");
    forecast.assert_has("SCHED_FIFO 90 <= 16.0 us - - 95 % interval");
}

#[test]
fn advised_period_after_one_activation_can_be_recorded() {
    let dir = TempDir::new().unwrap();
    let truth = Truth {
        late: |_, _, seq| (seq == 5).then(|| Nanos::from_us(16)),
        ..Truth::default()
    };
    let recording = recorded(dir.path(), &truth);
    let tasks = dir.path().join("tasks.toml");
    let task = "[[task]]\nname = \"loop\"\nperiod = \"30ms\"\ncompute = \"5ms\"\n";
    std::fs::write(&tasks, task).unwrap();

    let screen = words_of(&recording, &["show"]);

    let doubt = "NOT TRUSTWORTHY only 1 wakeup was measured; record for longer";
    screen.assert_has(doubt);
    let tasks = tasks.to_str().unwrap();
    for words in [
        &["show", "--all"][..],
        &["show", "--for", "jack-128"],
        &["qos", "--app", "jack-128", "--curve"],
        &["sched", "--tasks", tasks],
    ] {
        let text = words_of(&recording, words);
        // The plan had one expiry per millisecond. A distance of 10 s between samples is not the
        // period.
        assert!(!text.contains("`--period"), "{words:?}: {text}");
        let why = "no period that can be recorded is short enough";
        assert!(words[0] == "show" || text.contains(why), "{text}");
    }
}

#[test]
fn missing_and_zero_are_distinguished() {
    for (late, row, largest) in [
        (
            (|_, _, _| Some(Nanos::ZERO)) as ScriptedLateness,
            "0 ns 0 ns 0 ns 0 ns",
            0,
        ),
        (|_, _, _| None, "", 1),
    ] {
        let dir = TempDir::new().unwrap();
        let recording = recorded(
            dir.path(),
            &Truth {
                late,
                ..Truth::default()
            },
        );

        let screen = words_of(&recording, &["show"]);
        let report = overview(&recording);

        if largest == 0 {
            screen.assert_has(&format!("SCHED_FIFO 90 {row}"));
            assert_eq!(report["services"][0]["max_ns"], 0);
        } else {
            screen.assert_has("No sample was recorded");
            screen.assert_lacks(" ns");
            assert_eq!(report["measurement"]["samples"], 0);
        }
    }
}
