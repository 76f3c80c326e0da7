//! A recording with data in every field, for the tests of redaction and of foreign names.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::Path;

use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Keep, Line, LineId, Manifest, Nanos, ProbePlan, Route,
    STAGES, Service, Stage, State,
};
use laggard_record::{EpisodeWriter, Recorder};
use serde_json::{Value, json};

/// Writes a recording with these late wakeups and facts about them. With `is_killed`, its end is
/// missing.
pub(crate) fn record(path: &Path, keep: Keep, is_killed: bool, episodes: [Value; 3], notes: Value) {
    let mut recorder = Recorder::create(path, manifest(keep)).unwrap();
    let folder = recorder.folder().clone();
    recorder.append(&rows()).unwrap();
    recorder.flush(Nanos::from_secs(101)).unwrap();
    if is_killed {
        std::mem::forget(recorder);
    } else {
        recorder.update(|manifest| manifest.clock.end_ns = Some(Nanos::from_ms(100_200)));
        recorder.finish(State::Complete).unwrap();
    }
    let mut writer = EpisodeWriter::new(&folder);
    for episode in episodes {
        let episode = serde_json::from_value(episode).unwrap();
        writer.append(&episode).unwrap();
    }
    writer
        .finish(&serde_json::from_value(notes).unwrap())
        .unwrap();
}

/// Writes a recording with three late wakeups.
pub(crate) fn record_late(path: &Path, keep: Keep, is_killed: bool) {
    let episodes = [1, 2, 3].map(episode);
    record(path, keep, is_killed, episodes, notes("on_it"));
}

/// Returns a manifest with data in every field.
pub(crate) fn manifest(keep: Keep) -> Manifest {
    let line = Line::new(Cpu(1), Service::Fifo(90), Route::Direct);
    let plan = ProbePlan {
        keep,
        ..ProbePlan::default()
    };
    let clock = Clock::monotonic(Nanos::from_secs(100), "2026-11-20T11:00:00.000+01:00");
    let made = Manifest::new(Backend::Bpf, plan, clock, vec![line]);
    let mut value = serde_json::to_value(made).unwrap();
    value["command"] = json!([
        "/bin/laggard",
        "record",
        "-o",
        "x",
        "--load=y",
        "--",
        "pay",
        "-p"
    ]);
    value["load"] = json!({
        "name": "pay", "command": ["pay", "-p"], "usage": null, "ended": "exit status: 1",
        "begun_ns": 1, "throughput": { "unit": "x", "count": 1, "elapsed_ns": 1 },
    });
    value["application"] = json!({
        "name": "x", "buffers": 2, "buffer_ns": 1_000_000, "compute_ns": 1, "source": "y",
    });
    value["host"] = json!({
        "node": "x", "distribution": "x", "kernel": "6.1.0-x", "build": "#1 x", "architecture": "x86_64",
        "preemption": "full", "hz": 250, "config": ["CONFIG_HZ=250"], "command_line": "quiet x",
        "processor": { "model": "m", "microcode": "0x1", "sockets": 1, "cores": 2, "threads": 2, "siblings": [] },
        "memory_bytes": 1, "frequency": [{ "cpus": [0], "governor": "g", "driver": "d" }], "turbo": true,
        "idle": [{ "name": "C1", "exit_ns": 1, "disabled": false }], "idle_driver": "i",
        "isolation": { "isolated": [], "nohz_full": [], "offline": [] },
        "throttling": null, "huge_pages": "h", "mitigations": ["m: x"],
        "clocksource": { "current": "tsc", "available": ["tsc"] }, "hypervisor": "kvm", "lockdown": "none",
        "hardware": { "board": "b", "firmware": "f", "file_system": "ext4", "disks": ["d"], "graphics": ["g"],
            "audio": ["a"], "network": ["n"] },
    });
    let caveat = |kind: &str| json!({ "kind": kind, "what": "x", "advice": "y" });
    value["caveats"] = json!([
        caveat("other_tracers"),
        caveat("load_ended"),
        caveat("ability_absent"),
        caveat("swap"),
    ]);
    value["cost"]["programs"] = json!([{ "name": "on_sched_switch", "runs": 1, "run_ns": 1 }]);
    serde_json::from_value(value).unwrap()
}

/// A late wakeup: a thread above it computes for 3 ms. `number` is from 1.
pub(crate) fn episode(number: u64) -> Value {
    let expiry = 100_000_000_000 + number * 20_000_000;
    let switch = |time_us: u64, tid: u32, name: &str, priority: i16| {
        json!({ "at_ns": expiry + time_us, "what": { "switch": {
            "tid": tid, "name": name, "priority": priority, "preempted": true } } })
    };
    json!({
        "number": number, "line": 0, "cpu": 1, "seq": number * 20, "expiry_ns": expiry,
        "stages": { "irq": 10_000, "waking": 12_000, "running": 3_000_000, "user": 3_002_000 },
        "threshold_ns": 50_000,
        "evidence": {
            "from_ns": expiry - 1_000_000, "to_ns": expiry + 4_000_000, "overwritten": false,
            "events": [switch(0, 95, "payroll", 4), switch(3_000_000, 90, "lag/1/fifo:90", 9)],
            "samples": [{ "at_ns": expiry + 500_000, "tid": 95, "process": 95, "priority": 4,
                "kernel": ["0x11"], "user": ["0x21", "0x22"] }],
            "sampler": ["cpu_clock", 1_000_000], "stolen": null, "smis": null, "still": [],
        },
    })
}

/// Returns facts about three of the files. `program` is loaded into the kernel.
pub(crate) fn notes(program: &str) -> Value {
    let symbol = |name: &str| json!({ "name": name, "module": "pay", "unknown": "x" });
    let function = format!("bpf_prog_6deef7357e7b4530_{program}");
    json!({
        "thresholds_ns": [50_000], "kept": 3, "surplus": 0, "overwritten": 0, "lines": [],
        "symbols": {
            "kernel": {
                "0x11": { "name": "do_it", "module": "e1000", "unknown": "x" },
                "0x12": { "name": function, "module": null, "unknown": "x" },
            },
            "user": { "95": { "0x21": symbol("salary"), "0x22": symbol("bonus") } },
            "interrupts": { "36": "eth0" },
        },
    })
}

/// Returns 200 ms of its line. One of 20 wakeups is late.
pub(crate) fn rows() -> Batch {
    let mut rows = Batch::default();
    for seq in 0..200 {
        let mut steps = [None; STAGES.len()];
        steps[Stage::Irq.index()] = Some(Nanos::from_us(10));
        let user = if seq % 20 == 0 { 2_992 } else { 5 + seq % 7 };
        steps[Stage::User.index()] = Some(Nanos::from_us(user));
        rows.push(&Activation::new(
            LineId(0),
            seq,
            Nanos::from_ms(100_000 + seq),
            steps,
        ));
    }
    rows
}
