//! The JSON of every command matches the schema that `laggard schema` prints, and has no prose.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use laggard_made::trace::{MadeEvent, MadeTrace};
use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Texts as _, manifest, record, run, stall};

/// Reads from standard input what was answered, and holds it to the schemas.
const VALIDATOR: &str = r#"
import json, sys
try:
    from jsonschema import Draft202012Validator
except ImportError:
    sys.exit(77)
wrong = []
for case in json.load(sys.stdin):
    Draft202012Validator.check_schema(case["schema"])
    for error in Draft202012Validator(case["schema"]).iter_errors(case["answer"]):
        place = "/".join(str(step) for step in error.absolute_path)
        wrong.append(f"{case['what']}: {place}: {error.message[:300]}")
print("\n".join(wrong[:30]))
sys.exit(bool(wrong))
"#;

/// Keys of text that laggard does not build from figures.
const TEXT_KEYS: [&str; 16] = [
    // Warnings and absent abilities, in the words of the measuring crates.
    "what",
    "advice",
    "reason",
    "remedy",
    // Catalogue of applications.
    "about",
    "source",
    // The machine, and commands.
    "build",
    "command_line",
    "mitigations",
    "model",
    "reproduce",
    // Names of threads and of functions, which can have spaces.
    "who",
    "functions",
    // Report of `attach` as text.
    "sentences",
    // Text that `laggard-fleet` prints.
    "distrust",
    "shortfalls",
];

/// Fails if a string has the length of a sentence: an answer has kinds and figures, and the
/// views build the sentences.
fn assert_no_prose<'a>(what: &str, path: &mut Vec<&'a str>, value: &'a Value) {
    /// Number of words of the longest name.
    const MAX_NAME_WORDS: usize = 3;
    match value {
        Value::String(text) => {
            // A name can have an explanation: `BPF object irq (service irq)`.
            let name = text.split(" (").next().unwrap();
            assert!(
                name.split_whitespace().count() <= MAX_NAME_WORDS,
                "{what}: {}: {text:?}",
                path.join(".")
            );
        }
        Value::Array(values) => {
            for value in values {
                assert_no_prose(what, path, value);
            }
        }
        Value::Object(values) => {
            for (key, value) in values {
                let is_digest = what.starts_with("digest");
                let is_text = match key.as_str() {
                    "distrust" | "shortfalls" => is_digest,
                    key => TEXT_KEYS.contains(&key),
                };
                if !is_text {
                    path.push(key);
                    assert_no_prose(what, path, value);
                    path.pop();
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Answers, each with the name of its schema and the command that gave it.
#[derive(Default)]
struct Answers(Vec<(String, String, Value)>);

impl Answers {
    fn add(&mut self, schema: &str, what: &str, answer: Value) {
        assert_no_prose(what, &mut Vec::new(), &answer);
        self.0.push((schema.into(), what.into(), answer));
    }

    /// Runs a command that may exit with code 1 for an unmet requirement.
    fn ask(&mut self, dir: &TempDir, schema: &str, words: &str) {
        let output = run(dir, words);
        let text = output.text();
        let lines = match schema {
            "digest" => text.lines().collect(),
            _ => vec![&*text],
        };
        for line in lines {
            let answer = serde_json::from_str(line);
            let answer = answer.unwrap_or_else(|err| panic!("{words}: {err}: {output:?}"));
            self.add(schema, words, answer);
        }
    }

    fn add_manifest(&mut self, dir: &TempDir, recording: &str) {
        self.add("manifest", recording, manifest(&dir.path().join(recording)));
    }

    /// Validates all against the schemas that the program publishes. Returns whether there is a
    /// validator.
    fn validate(self) -> bool {
        let mut schemas = BTreeMap::new();
        let mut cases = Vec::new();
        for (name, what, answer) in self.0 {
            let schema: &Value = schemas
                .entry(name.clone())
                .or_insert_with(|| run(".", &format!("schema {name}")).json());
            cases.push(serde_json::json!({ "what": what, "schema": schema, "answer": answer }));
        }
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("cases.json");
        fs::write(&file, serde_json::to_vec(&cases).unwrap()).unwrap();
        let output = std::process::Command::new("python3")
            .args(["-c", VALIDATOR])
            .stdin(fs::File::open(&file).unwrap())
            .output();
        let Ok(output) = output else {
            println!("skipped: schemas are compared by python3, which is not here");
            return false;
        };
        if output.status.code() == Some(77) {
            println!(
                "skipped: schemas are compared by the Python package jsonschema, which is not here"
            );
            return false;
        }
        assert!(
            output.status.success(),
            "{}{}",
            output.text(),
            output.errors()
        );
        true
    }
}

/// `fifo:90` and `other`: with all stages or the last alone, late or never.
fn varied() -> TempDir {
    let dir = TempDir::new().unwrap();
    let stages = "[[\"irq\", 14000], [\"expire\", 400], [\"waking\", 240], [\"running\", 3008], [\"user\", 1203]]";
    let line = |service: &str, steps: &str, more: &str| {
        format!(
            "[[line]]\nservice = \"{service}\"\nroute = \"direct\"\nsteps = [{steps}]\n{more}\n"
        )
    };
    let both = |steps: &str| line("fifo:90", steps, "") + &line("other", steps, "");
    let user = both("[[\"user\", 900]]");
    let late = format!("{stages}, [[\"user\", 9000000]], {stages}");
    let huge = "[[\"user\", 900000000000000]]";
    for (name, lines, options) in [
        ("stages", both(stages), &["--duration=2s"][..]),
        ("again", both(stages), &["--duration=2s"]),
        ("never", user.clone(), &["--duration=2s"]),
        (
            "empty",
            line("fifo:90", stages, "starved_from_ns = 0"),
            &["--duration=1s"],
        ),
        (
            "late",
            both(&late) + &stall(500_000_000, 40_000_000),
            &["--duration=4s", "--period=1ms"],
        ),
        ("tail", both(&late), &["--duration=4s", "--keep=tail"]),
        (
            "starved",
            line("fifo:90", stages, "starved_from_ns = 1000000000"),
            &["--duration=2s"],
        ),
        (
            "huge",
            line("fifo:90", &format!("{stages}, {huge}"), ""),
            &["--duration=1s"],
        ),
        (
            "behind",
            both(stages) + "[[clock_step]]\nat_ns = 300000000\nlength_ns = 100000000\n",
            &["--duration=1s"],
        ),
    ] {
        let text = format!("period_ns = 1000000\n{lines}");
        let recorded = record(&dir.path().join(name), &text, options)
            .output()
            .unwrap();
        assert!(
            recorded.status.code().is_some_and(|code| code < 4),
            "{name}: {recorded:?}"
        );
    }
    dir
}

/// Copies the recording `stages`, and returns its directory.
fn copied(dir: &TempDir, name: &str) -> PathBuf {
    let copy = dir.path().join(name);
    for folder in ["", "samples"] {
        fs::create_dir_all(copy.join(folder)).unwrap();
        for entry in fs::read_dir(dir.path().join("stages").join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), copy.join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
    copy
}

/// A recording of `stages` without its end.
fn aborted(dir: &TempDir, name: &str) -> PathBuf {
    let copy = copied(dir, name);
    fs::copy(copy.join("manifest-start.json"), copy.join("manifest.json")).unwrap();
    copy
}

/// A recording of `stages` that lost samples in every way.
fn lossy(dir: &TempDir, name: &str) {
    let file = copied(dir, name).join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for lost in manifest["losses"].as_object_mut().unwrap().values_mut() {
        if lost.is_u64() {
            *lost = 500.into();
        }
    }
    fs::write(&file, manifest.to_string()).unwrap();
}

/// A recording of `stages` without its end, and with damage.
fn damaged(dir: &TempDir, name: &str) {
    let copy = aborted(dir, name);
    for entry in fs::read_dir(copy.join("samples")).unwrap() {
        let file = entry.unwrap().path();
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    }
}

#[test]
fn the_json_of_every_answer_is_as_its_schema_says() {
    let dir = varied();
    damaged(&dir, "damaged");
    aborted(&dir, "aborted");
    lossy(&dir, "lossy");
    let trace = MadeTrace::new(10_000_000, 5, 1).buffer(
        0,
        &[
            MadeEvent::dpc(68, 2_000, 1_000, 0xffff_f806_9ea8_0000),
            MadeEvent::ready(3_000, 8),
            MadeEvent::switch(4_000, 0, 8, 24),
        ],
    );
    fs::write(dir.path().join("trace.etl"), trace.bytes()).unwrap();
    run(&dir, "import trace.etl -o traced");
    let requirements = "[[require]]\nservice = \"fifo:90\"\nat_most = \"3ms\"\nshare = 1e-3\n\
                        [[require]]\nservice = \"fifo:90\"\napp = \"jack-128\"\nmttf = \"1h\"\n\
                        [[require]]\nservice = \"fifo:90\"\nlevel = \"1ms\"\nper = \"hour\"\n";
    fs::write(dir.path().join("r.toml"), requirements).unwrap();
    let limit = "[[require]]\nservice = \"fifo:90\"\nnot_worse_than = 1.25\n";
    fs::write(dir.path().join("n.toml"), limit).unwrap();
    // More than all of the CPU: no response has a bound.
    let tasks = "[[task]]\nname = \"a\"\nperiod = \"10ms\"\ncompute = \"9ms\"\nbuffers = 3\n\
                 [[task]]\nname = \"b\"\nperiod = \"20ms\"\ncompute = \"9ms\"\n\
                 [[task]]\nname = \"c\"\nperiod = \"30ms\"\ncompute = \"1ms\"\nservice = \"other\"\n";
    fs::write(dir.path().join("t.toml"), tasks).unwrap();
    let rt_app = "{ \"tasks\" : { \"a\" : { \"instance\" : 2, \"policy\" : \"SCHED_RR\", \"priority\" : 95, \
                  \"run\" : 9000, \"run\" : 1, \"timer\" : { \"ref\" : \"t\", \"period\" : 10000 } } } }";
    fs::write(dir.path().join("t.json"), rt_app).unwrap();
    let mut answers = Answers::default();
    let recordings = [
        "stages", "never", "empty", "late", "tail", "starved", "huge", "behind", "damaged",
        "aborted", "lossy",
    ];
    for recording in recordings {
        answers.add_manifest(&dir, recording);
        let has_intervals = !["empty", "tail", "damaged"].contains(&recording);
        let has_rates = !["empty", "damaged"].contains(&recording);
        for (is_asked, schema, words) in [
            (true, "show", "show --json"),
            (true, "digest", "digest"),
            (has_intervals, "intervals", "show --intervals --json"),
            (has_rates, "qos", "qos --json --app jack-128"),
            (has_rates, "qos-profiles", "qos --json"),
            (has_rates, "forecast", "forecast --json"),
            (has_rates, "check", "check --json --require r.toml"),
            (has_rates, "sched", "sched --json --tasks t.json"),
        ] {
            if is_asked {
                answers.ask(&dir, schema, &format!("{words} {recording}"));
            }
        }
    }
    for recording in ["stages", "never", "late"] {
        for (schema, words) in [
            ("sched", "sched --json --tasks t.toml"),
            ("show", "show --json --by cpu"),
        ] {
            answers.ask(&dir, schema, &format!("{words} {recording}"));
        }
    }
    answers.add_manifest(&dir, "traced");
    for recording in ["never", "huge", "starved"] {
        let level = "--json --at 1ms --service fifo:90";
        for (schema, words) in [
            (
                "compare",
                format!("compare {level} {recording} --with again"),
            ),
            (
                "compare-over",
                format!("compare {level} --over stages again {recording}"),
            ),
            (
                "check",
                format!("check --json --require n.toml {recording} --baseline again"),
            ),
        ] {
            answers.ask(&dir, schema, &words);
        }
    }
    for (schema, words) in [
        ("show", "show --json traced"),
        ("show", "show --json stages late"),
        ("digest", "digest traced"),
        ("import", "import --json trace.etl"),
        ("compare", "compare --json stages --with again"),
        ("doctor", "doctor --json"),
        ("qos-list", "qos --list --json"),
    ] {
        answers.ask(&dir, schema, words);
    }

    answers.validate();
}

/// Starts a program that wakes every 5 ms.
fn watched() -> std::io::Result<std::process::Child> {
    std::process::Command::new("python3")
        .args(["-c", "import time\nfor _ in range(12000): time.sleep(.005)"])
        .spawn()
}

/// Without a tracer in the kernel, trace data is missing.
#[test]
fn json_of_a_measurement_matches_its_schema() {
    let dir = TempDir::new().unwrap();
    let record = |words: &str| {
        let output = run(&dir, &format!("record -q -d 2s -o {words}"));
        matches!(output.status.code(), Some(0 | 3))
    };
    let mut answers = Answers::default();
    if record("user --backend=user -s other") {
        answers.add_manifest(&dir, "user");
        for (schema, words) in [
            ("show", "show --json user"),
            ("qos", "qos --json --app jack-128 user"),
            ("forecast", "forecast --json user"),
        ] {
            answers.ask(&dir, schema, words);
        }
    } else {
        println!("skipped: no measuring by threads here");
    }
    let task = "[[task]]\nname = \"a\"\nperiod = \"20ms\"\ncompute = \"1ms\"\n\
                service = \"other\"\ncpu = 0\n";
    fs::write(dir.path().join("t.toml"), task).unwrap();
    // With this threshold, every machine has late wakeups.
    if record("bpf --handlers --threshold=1us") {
        answers.add_manifest(&dir, "bpf");
        for (schema, words) in [
            ("show", "show --json bpf"),
            ("why", "why --json bpf"),
            ("handlers", "why --handlers --json bpf"),
            ("bug", "why --bug 1 --json bpf"),
            ("wakeup", "why --episode 1 --json bpf"),
            ("qos", "qos --json --app jack-128 bpf"),
            ("digest", "digest bpf"),
            (
                "rehearse",
                "rehearse t.toml --json -d 1s --from bpf -o rehearsed",
            ),
            ("show", "show --json rehearsed"),
        ] {
            answers.ask(&dir, schema, words);
        }
        if let Ok(mut watched) = watched() {
            let words = format!(
                "attach --json -d 1s --deadline 2ms -o attached {}",
                watched.id()
            );
            answers.ask(&dir, "attach", &words);
            answers.add_manifest(&dir, "attached");
            answers.ask(&dir, "show", "show --json attached");
            watched.kill().unwrap();
            watched.wait().unwrap();
        }
    } else {
        println!("skipped: no measuring by BPF here, which explains what is late");
    }
    answers.ask(&dir, "timers", "bench timers --json --duration 1s");
    answers.ask(
        &dir,
        "switch",
        "bench switch --json --policy=other --threads=2 --duration=1s",
    );

    answers.validate();
}
