//! A recording that is given away has no name that somebody chose, and gives
//! the same answers.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Episode, EpisodeNotes, Keep, Line, LineId, Manifest,
    Nanos, ProbePlan, Route, STAGES, Service, Stage, State,
};
use laggard_record::{EpisodeWriter, Recorder};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

mod scripted;

use scripted::laggard;

/// What every secret begins with.
const SECRET: &str = "sEcReT";

/// Texts that say what the hardware and the kernel are like, or are laggard's
/// own advice: nobody chose them. `*` is any place of a list.
const STAYS: [&str; 22] = [
    "host.architecture",
    "host.preemption",
    "host.config.*",
    "host.processor.model",
    "host.processor.microcode",
    "host.frequency.*.governor",
    "host.frequency.*.driver",
    "host.idle.*.name",
    "host.idle_driver",
    "host.huge_pages",
    "host.mitigations.*",
    "host.clocksource.current",
    "host.clocksource.available.*",
    "host.hypervisor",
    "host.lockdown",
    "caveats.*.advice",
    "caveats.3.what",
    "clock.name",
    "symbols.kernel.0x11.module",
    "symbols.kernel.0x11.name",
    // A secret is in it already.
    "symbols.kernel.0x12.name",
    // The name of a file, by which it is found.
    "segments.*.file",
];

fn stays(path: &str) -> bool {
    let parts = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    STAYS.iter().any(|known| {
        let (known, path) = (parts(known), parts(path));
        let same = |(one, other): (&String, &String)| one == "*" || one == other;
        known.len() == path.len() && known.iter().zip(&path).all(same)
    })
}

/// Puts a secret into every text that a reader takes whatever it is.
fn plant<T: DeserializeOwned>(whole: &Value) -> (Value, Vec<String>) {
    fn paths(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
        let below = |path: &str, key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match value {
            Value::String(_) => found.push((pointer.into(), path.into())),
            Value::Array(all) => {
                for (number, one) in all.iter().enumerate() {
                    let key = number.to_string();
                    paths(one, &format!("{pointer}/{key}"), &below(path, &key), found);
                }
            }
            Value::Object(all) => {
                for (key, one) in all {
                    paths(one, &format!("{pointer}/{key}"), &below(path, key), found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    paths(whole, "", "", &mut found);
    let mut planted = whole.clone();
    let mut where_it_is = Vec::new();
    for (number, (pointer, path)) in found.into_iter().enumerate() {
        if stays(&path) {
            continue;
        }
        let mut tried = planted.clone();
        let place = tried.pointer_mut(&pointer).unwrap();
        *place = format!("{SECRET}{number}/with a space").into();
        if serde_json::from_value::<T>(tried.clone()).is_ok() {
            planted = tried;
            where_it_is.push(path);
        }
    }
    (planted, where_it_is)
}

/// A manifest with something in every field.
fn manifest(keep: Keep) -> Manifest {
    let line = Line {
        cpu: Cpu(1),
        service: Service::Fifo(90),
        route: Route::Direct,
    };
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

fn episode(number: u64) -> Value {
    let expiry = 100_000_000_000 + number * 20_000_000;
    let switch = |at: u64, tid: u32, name: &str, priority: i16| {
        json!({ "at_ns": expiry + at, "what": { "switch": {
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

fn notes() -> Value {
    let symbol = |name: &str| json!({ "name": name, "module": "pay", "unknown": "x" });
    let program = format!("bpf_prog_6deef7357e7b4530_{SECRET}");
    json!({
        "thresholds_ns": [50_000], "kept": 3, "surplus": 0, "overwritten": 0, "lines": [],
        "symbols": {
            "kernel": {
                "0x11": { "name": "do_it", "module": "e1000", "unknown": "x" },
                "0x12": { "name": program, "module": null, "unknown": "x" },
            },
            "user": { "95": { "0x21": symbol("salary"), "0x22": symbol("bonus") } },
            "interrupts": { "36": "eth0" },
        },
    })
}

fn rows() -> Batch {
    let mut rows = Batch::default();
    for seq in 0..200 {
        let mut steps = [None; STAGES.len()];
        steps[Stage::Irq.index()] = Some(Nanos::from_us(10));
        let user = if seq % 20 == 0 { 2_992 } else { 5 + seq % 7 };
        steps[Stage::User.index()] = Some(Nanos::from_us(user));
        rows.push(&Activation {
            line: LineId(0),
            seq,
            expiry: Nanos::from_ms(100_000 + seq),
            missed: false,
            censored: false,
            steps,
        });
    }
    rows
}

struct Planted {
    dir: TempDir,
    from: PathBuf,
}

/// A recording with a secret wherever one can be. `is_killed`: before its end.
fn planted(keep: Keep, is_killed: bool) -> Planted {
    let dir = TempDir::new().unwrap();
    let from = dir.path().join(format!("{SECRET}-folder.laggard"));
    let mut recorder = Recorder::create(&from, manifest(keep)).unwrap();
    recorder.append(&rows()).unwrap();
    recorder.flush(Nanos::from_secs(101)).unwrap();
    if is_killed {
        std::mem::forget(recorder);
    } else {
        recorder.update(|manifest| manifest.clock.end_ns = Some(Nanos::from_ms(100_200)));
        recorder.finish(State::Complete).unwrap();
    }
    let mut writer = EpisodeWriter::new(&from);
    for number in 1..=3 {
        let (episode, planted) = plant::<Episode>(&episode(number));
        assert!(planted.len() >= 2, "{planted:?}");
        writer
            .append(&serde_json::from_value(episode).unwrap())
            .unwrap();
    }
    let (notes, in_notes) = plant::<EpisodeNotes>(&notes());
    assert_eq!(in_notes.len(), 9, "{in_notes:?}");
    writer
        .finish(&serde_json::from_value(notes).unwrap())
        .unwrap();
    for name in ["manifest.json", "manifest-start.json"] {
        let text = fs::read_to_string(from.join(name)).unwrap();
        let (value, in_it) = plant::<Manifest>(&serde_json::from_str(&text).unwrap());
        assert!(in_it.len() >= 22, "{in_it:?}");
        fs::write(from.join(name), value.to_string()).unwrap();
    }
    for stranger in ["rehearsal.json", "notes", ".hidden", "samples/notes"] {
        fs::write(from.join(stranger), SECRET).unwrap();
    }
    // Where a reader does not look: a frame that is passed over, a torn one.
    let mut skipped = vec![0x50, 0x2a, 0x4d, 0x18];
    skipped.extend(u32::try_from(SECRET.len()).unwrap().to_le_bytes());
    skipped.extend(SECRET.as_bytes());
    append(&from.join("episodes-000001.jsonl.zst"), &skipped);
    if is_killed {
        append(&from.join("open-000001.journal"), SECRET.as_bytes());
    }
    Planted { dir, from }
}

fn append(file: &Path, bytes: &[u8]) {
    let mut file = fs::File::options().append(true).open(file).unwrap();
    file.write_all(bytes).unwrap();
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|some| some == text.as_bytes())
}

/// What a file holds, unpacked too.
fn content(file: &Path) -> Vec<u8> {
    let mut bytes = fs::read(file).unwrap();
    if file.extension().is_some_and(|kind| kind == "zst") {
        bytes.extend(zstd::decode_all(bytes.as_slice()).unwrap());
    }
    bytes
}

fn redact(from: &Path, to: &Path) -> std::process::Output {
    let output = laggard()
        .arg("export")
        .arg(from)
        .arg("--redact")
        .arg("--output")
        .arg(to)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn no_secret_is_in_what_is_given_away_however_a_recording_ended() {
    for (keep, is_killed) in [
        (Keep::All, false),
        (Keep::All, true),
        (Keep::Tail, false),
        (Keep::Tail, true),
    ] {
        let planted = planted(keep, is_killed);
        let to = planted.dir.path().join("public.laggard");

        let output = redact(&planted.from, &to);

        let files = files(&to);
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            let is_in_it = holds(&content(&file), SECRET);
            assert!(!is_in_it, "{keep:?} {is_killed} {}", file.display());
            assert!(!file.to_string_lossy()[to.as_os_str().len()..].contains(SECRET));
        }
        let said = String::from_utf8(output.stderr).unwrap();
        for stranger in ["rehearsal.json", "notes", ".hidden"] {
            assert!(said.contains(&format!("left out: {stranger}:")), "{said}");
        }
        let table = laggard()
            .args(["export", "--format=csv"])
            .arg(&to)
            .output()
            .unwrap();
        assert!(!holds(&table.stdout, SECRET));
    }
}

/// An answer without what differs by right: the folder, and names.
fn answer(command: &[&str], recording: &Path) -> Value {
    let output = laggard().args(command).arg(recording).output().unwrap();
    let value = serde_json::from_slice(&output.stdout);
    value.unwrap_or_else(|error| panic!("{command:?}: {error}: {output:?}"))
}

/// Where two answers differ in more than a name that was a secret.
fn differences(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: Vec<_> = one.keys().collect();
            if keys != other.keys().collect::<Vec<_>>() {
                found.push(format!("{path}: {keys:?}"));
                return;
            }
            for (key, value) in one {
                differences(value, &other[key], &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (number, (one, other)) in one.iter().zip(other).enumerate() {
                differences(one, other, &format!("{path}.{number}"), found);
            }
        }
        (Value::String(one), Value::String(_)) if one.contains(SECRET) => {}
        (one, other) if one == other => {}
        (one, other) => found.push(format!("{path}: {one} {other}")),
    }
}

#[test]
fn answers_are_the_same_but_for_names() {
    for (keep, is_killed) in [(Keep::All, false), (Keep::All, true), (Keep::Tail, false)] {
        let planted = planted(keep, is_killed);
        let to = planted.dir.path().join("public.laggard");
        redact(&planted.from, &to);

        for command in [
            &["show", "--json"][..],
            &["why", "--json"],
            &["qos", "--json", "--app=jack-128"],
            &["forecast", "--json"],
        ] {
            let (before, after) = (answer(command, &planted.from), answer(command, &to));

            let mut found = Vec::new();
            differences(&before, &after, "", &mut found);
            assert_eq!(found, [""; 0], "{command:?} {keep:?} {is_killed}");
        }
    }
}

#[test]
fn a_report_for_others_has_no_secret_and_leaves_nothing_behind() {
    let planted = planted(Keep::All, false);
    let temporary = planted.dir.path().join(format!("{SECRET}-tmp"));
    fs::create_dir(&temporary).unwrap();
    let report = |options: &[&str]| {
        let output = laggard()
            .args(["report", "--redact"])
            .args(options)
            .arg(&planted.from)
            .env("TMPDIR", &temporary)
            .current_dir(planted.dir.path())
            .output()
            .unwrap();
        assert!(
            output.status.code().is_some_and(|code| code != 2),
            "{output:?}"
        );
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
        output
    };

    let text = report(&["--markdown"]).stdout;
    report(&["--output=page.html"]);
    let page = fs::read(planted.dir.path().join("page.html")).unwrap();

    for shown in [text, page] {
        assert!(holds(&shown, "recording-1.laggard"));
        assert!(!holds(&shown, SECRET));
    }
}

#[test]
fn what_is_there_already_is_not_written_to() {
    let planted = planted(Keep::All, false);

    let output = laggard()
        .arg("export")
        .arg(&planted.from)
        .arg("--redact")
        .arg("--output")
        .arg(&planted.from)
        .output()
        .unwrap();

    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("exists and is not empty"), "{said}");
    assert!(planted.from.join("manifest.json").exists());
}
