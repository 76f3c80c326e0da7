//! Tests of the JSON of `compare` and `check` for recordings of known latencies, with the expected
//! output in `snapshots/`. The HTML report of `compare` must have the same figures. Run `cargo
//! insta review` after an intended change.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Number, Value};
use tempfile::TempDir;

use crate::scripted::{Texts as _, every, laggard, must_record, record};

/// Four recordings of 30 s of each side: one activation in 2,000, and in 250, is
/// 4 ms late.
fn sides() -> TempDir {
    let dir = TempDir::new().unwrap();
    for (letter, one_in) in [("a", 2_000), ("b", 250)] {
        let script = every(one_in);
        for number in 1..=4 {
            let name = dir.path().join(format!("{letter}{number}"));
            must_record(&name, &script, &["--duration=30s", "--no-dither"]);
        }
    }
    dir
}

fn ask(dir: &TempDir, words: &[&str]) -> Output {
    laggard()
        .current_dir(dir.path())
        .args(words)
        .output()
        .unwrap()
}

/// Removes the parts that depend on the machine and the time, and rounds numbers to six digits,
/// because further digits depend on the math library.
fn lasting(output: &Output) -> String {
    let mut answer: Value = output.json();
    for (key, instead) in [("host", "(a machine)"), ("recorded_at", "(a time)")] {
        if let Some(value) = answer.get_mut(key) {
            *value = instead.into();
        }
    }
    round(&mut answer);
    // They describe the machine, not the recording.
    for key in ["notes", "differing"] {
        if let Some(list) = answer.get_mut(key) {
            assert!(list.is_array(), "{key}");
            *list = "(of a machine)".into();
        }
    }
    serde_json::to_string_pretty(&answer).unwrap()
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = format!("{:.5e}", number.as_f64().unwrap());
            *value = Number::from_f64(rounded.parse().unwrap()).unwrap().into();
        }
        Value::Array(elements) => elements.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const COMPARE: [&str; 10] = [
    "compare", "a1", "a2", "a3", "a4", "--with", "b1", "b2", "b3", "b4",
];

#[test]
fn the_json_of_compare_and_of_check() {
    let dir = sides();
    let requirements = "[[require]]\nname = \"loop\"\nservice = \"fifo:90\"\n\
                        at_most = \"3500us\"\nshare = 1e-2\nlongest = \"20ms\"\n\
                        [[require]]\nservice = \"fifo:90\"\nlevel = \"1ms\"\nper = \"hour\"\n\
                        [[require]]\nservice = \"fifo:90\"\nnot_worse_than = 1.25\n";
    fs::write(dir.path().join("r.toml"), requirements).unwrap();

    let compared = ask(&dir, &[&COMPARE[..], &["--json"]].concat());
    let checked = ask(
        &dir,
        &[
            "check",
            "b1",
            "b2",
            "b3",
            "b4",
            "--require",
            "r.toml",
            "--baseline",
            "a1",
            "a2",
            "a3",
            "a4",
            "--json",
        ],
    );

    assert_eq!(compared.status.code(), Some(0));
    assert_eq!(checked.status.code(), Some(1));
    insta::assert_snapshot!(lasting(&compared));
    insta::assert_snapshot!(lasting(&checked));
}

/// The texts of the cells of a page's tables, row by row.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.split("<tr>").skip(1);
    let row = |row: &str| -> Vec<String> {
        let row = row.split("</tr>").next().unwrap();
        let cells = row.split("<td").skip(1);
        let cell = |cell: &str| {
            let text = cell.split_once('>').unwrap().1;
            text.split("</td>").next().unwrap().replace("&gt;", ">")
        };
        cells.map(cell).collect()
    };
    rows.map(row).filter(|row| !row.is_empty()).collect()
}

/// Parses a cell: `12 s` to ns, `8.1` unchanged.
fn figure(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let scale = match unit {
        "" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 6e10,
        "h" => 3.6e12,
        other => panic!("{other} in {text}"),
    };
    number.parse::<f64>().unwrap() * scale
}

/// Two digits are off by a twentieth at most.
fn assert_alike(cell: &str, json: f64) {
    let figure_of_cell = figure(cell);
    assert!(
        (figure_of_cell / json - 1.0).abs() <= 0.05,
        "{cell} is not {json}"
    );
}

#[test]
fn page_of_compare_has_the_figures_of_its_json() {
    let dir = sides();
    let levels = ["--at=1ms,2ms"];
    let json = ask(&dir, &[&COMPARE[..], &levels, &["--json"]].concat());
    let json: Value = json.json();

    let written = ask(&dir, &[&COMPARE[..], &levels, &["-o", "c.html"]].concat());

    assert_eq!(written.status.code(), Some(0), "{written:?}");
    assert_eq!(written.text(), "Wrote c.html; open it in a browser\n");
    let page = fs::read_to_string(dir.path().join("c.html")).unwrap();
    let services = json["services"].as_array().unwrap();
    assert_eq!(page.matches("<figure>").count(), services.len());
    let rows = rows(&page);
    let mut compared = 0;
    for service in services {
        let name = match service["service"].as_str().unwrap() {
            "irq" => "timer IRQ",
            "fifo:90" => "SCHED_FIFO 90",
            other => panic!("{other}"),
        };
        let of_service = |column: usize| {
            let rows = rows.iter().filter(|row| row.len() == 5);
            rows.filter(move |row| row[column] == name)
        };
        // The max follows the quantiles.
        let quantiles = service["quantiles"].as_array().unwrap();
        assert_eq!(of_service(0).count(), quantiles.len() + 1, "{rows:?}");
        for (row, quantile) in of_service(0).zip(quantiles) {
            assert_alike(&row[2], quantile["first_ns"].as_f64().unwrap());
            assert_alike(&row[3], quantile["second_ns"].as_f64().unwrap());
        }
        let of_service = of_service(1);
        let levels = service["levels"].as_array().unwrap();
        assert_eq!(of_service.clone().count(), levels.len(), "{rows:?}");
        for (row, level) in of_service.zip(levels) {
            let [verdict, _, levels, every, ratio] = &row[..] else {
                panic!("{row:?}");
            };
            let (a, b) = every.split_once(" / ").unwrap();
            assert_alike(levels, level["level_ns"].as_f64().unwrap());
            for (cell, side) in [(a, &level["first"]), (b, &level["second"])] {
                let clusters = side["clusters"].as_f64().unwrap();
                if clusters > 0.0 {
                    assert_alike(cell, side["exposure_ns"].as_f64().unwrap() / clusters)
                } else {
                    assert_eq!(cell, "never")
                }
            }
            let figures = ratio.split([' ', '(', ')']);
            let figures: Vec<&str> = figures
                .filter(|word| !matches!(*word, "" | "to" | "x"))
                .collect();
            let expected = ["ratio", "ratio_low", "ratio_high"].map(|key| level[key].as_f64());
            if let [Some(ratio), Some(low), Some(high)] = expected {
                assert_eq!(figures.len(), 3, "{row:?}");
                for (cell, json) in figures.into_iter().zip([ratio, low, high]) {
                    assert_alike(cell, json);
                }
                compared += 1;
            }
            let message = level["change"]["verdict"].as_str().unwrap();
            let word = match message {
                "equivalent" => "same",
                other => other,
            };
            assert!(verdict.starts_with(word), "{row:?} {level}");
        }
    }
    assert!(compared >= 2, "{rows:?}");
}

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
        let output = ask(dir, &words.split(' ').collect::<Vec<_>>());
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
        let text = fs::read(dir.path().join(recording).join("manifest.json")).unwrap();
        self.add(
            "manifest",
            recording,
            serde_json::from_slice(&text).unwrap(),
        );
    }

    /// Validates all against the schemas that the program publishes. Returns whether there is a
    /// validator.
    fn validate(self) -> bool {
        let mut schemas = std::collections::BTreeMap::new();
        let mut cases = Vec::new();
        for (name, what, answer) in self.0 {
            let schema: &Value = schemas.entry(name.clone()).or_insert_with(|| {
                let output = laggard().args(["schema", &name]).output().unwrap();
                output.json()
            });
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
        let wrong = output.text();
        let error = output.errors();
        assert!(output.status.success(), "{wrong}{error}");
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
    let stall = |start, length| format!("[[stall]]\nat_ns = {start}\nlength_ns = {length}\n");
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
    let trace = laggard_made::trace::MadeTrace::new(10_000_000, 5, 1).buffer(
        0,
        &[
            laggard_made::trace::MadeEvent::dpc(68, 2_000, 1_000, 0xffff_f806_9ea8_0000),
            laggard_made::trace::MadeEvent::ready(3_000, 8),
            laggard_made::trace::MadeEvent::switch(4_000, 0, 8, 24),
        ],
    );
    fs::write(dir.path().join("trace.etl"), trace.bytes()).unwrap();
    ask(&dir, &["import", "trace.etl", "-o", "traced"]);
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
        for (schema, words) in [("show", "show --json"), ("digest", "digest")] {
            answers.ask(&dir, schema, &format!("{words} {recording}"));
        }
        if !["empty", "tail", "damaged"].contains(&recording) {
            answers.ask(
                &dir,
                "intervals",
                &format!("show --intervals --json {recording}"),
            );
        }
        if !["empty", "damaged"].contains(&recording) {
            answers.ask(
                &dir,
                "qos",
                &format!("qos --json --app jack-128 {recording}"),
            );
            answers.ask(&dir, "qos-profiles", &format!("qos --json {recording}"));
            answers.ask(&dir, "forecast", &format!("forecast --json {recording}"));
            answers.ask(
                &dir,
                "check",
                &format!("check --json --require r.toml {recording}"),
            );
            answers.ask(
                &dir,
                "sched",
                &format!("sched --json --tasks t.json {recording}"),
            );
        }
    }
    for recording in ["stages", "never", "late"] {
        answers.ask(
            &dir,
            "sched",
            &format!("sched --json --tasks t.toml {recording}"),
        );
        answers.ask(&dir, "show", &format!("show --json --by cpu {recording}"));
    }
    answers.ask(&dir, "show", "show --json traced");
    answers.ask(&dir, "show", "show --json stages late");
    answers.ask(&dir, "digest", "digest traced");
    answers.add_manifest(&dir, "traced");
    answers.ask(&dir, "import", "import --json trace.etl");
    for recording in ["never", "huge", "starved"] {
        answers.ask(
            &dir,
            "compare",
            &format!("compare --json --at 1ms --service fifo:90 {recording} --with again"),
        );
        answers.ask(
            &dir,
            "compare-over",
            &format!("compare --json --at 1ms --service fifo:90 --over stages again {recording}"),
        );
        answers.ask(
            &dir,
            "check",
            &format!("check --json --require n.toml {recording} --baseline again"),
        );
    }
    answers.ask(&dir, "compare", "compare --json stages --with again");
    answers.ask(&dir, "doctor", "doctor --json");
    answers.ask(&dir, "qos-list", "qos --list --json");

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
    let record = |name: &str, words: &[&str]| {
        let output = laggard()
            .current_dir(dir.path())
            .args(["record", "-q", "-d", "2s", "-o", name])
            .args(words)
            .output()
            .unwrap();
        output
            .status
            .code()
            .is_some_and(|code| code == 0 || code == 3)
    };
    let mut answers = Answers::default();
    if record("user", &["--backend=user", "-s", "other"]) {
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
    if record("bpf", &["--handlers", "--threshold=1us"]) {
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
