//! Recordings, and files of a user's, that were changed to harm: no command
//! panics, hangs or takes gigabytes.
//!
//! Each mutant is one change to one file of a good recording, made so that it
//! gets past the checksums: a value of JSON (also within packed episodes), a
//! byte of Parquet, a frame of a journal, a whole file. `LAGGARD_MUTANTS` says
//! how many; a number says which, so a finding is seen again with
//! `LAGGARD_MUTANT=17`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use laggard_model::Keep;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scripted::Texts as _;
use crate::whole;

/// Mutants of a run of all tests.
const USUAL: u64 = 500;
/// Default number of mutated text files.
const TEXTS_USUAL: u64 = 150;
/// Memory limit of a command: many times the memory that a command needs for this small recording,
/// also without optimisation.
const MEMORY_KIB: u64 = 4 << 20;
const CPU_SECONDS: u64 = 20;
/// And a limit against waiting for ever, also on a machine that is busy.
const REAL_SECONDS: u64 = 120;

/// Low-quality random numbers, equal in every run.
struct Noise(u64);

impl Noise {
    fn new(number: u64) -> Self {
        // Neighbours of a number are neighbours in nothing (Steele et al. 2014,
        // "Fast Splittable Pseudorandom Number Generators", mix64).
        let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or_default()
    }

    fn one_of<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len())]
    }
}

/// The good recordings that are changed: whole, killed, and of the tail.
fn good(dir: &Path) -> Vec<PathBuf> {
    [(Keep::All, false), (Keep::All, true), (Keep::Tail, true)]
        .into_iter()
        .enumerate()
        .map(|(number, (keep, is_killed))| {
            let folder = dir.join(format!("good-{number}.laggard"));
            whole::record_late(&folder, keep, is_killed);
            folder
        })
        .collect()
}

/// Every file below a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths.extend(files(&path))
        } else {
            paths.push(path)
        }
    }
    paths.sort();
    paths
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name))
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Changes one file of a recording. Returns a description of the change.
fn mutate(recording: &Path, noise: &mut Noise) -> String {
    let mut paths = files(recording);
    paths.retain(|file| !file.ends_with("reserve"));
    let file = noise.one_of(&paths).clone();
    let name = file.strip_prefix(recording).unwrap().display().to_string();
    let mut bytes = fs::read(&file).unwrap();
    let kind = file.extension().and_then(|kind| kind.to_str());
    let how = match (noise.below(8), kind) {
        (0, _) => {
            bytes.truncate(noise.below(bytes.len() + 1));
            "cut".to_owned()
        }
        (1, _) => {
            let other = noise.one_of(&paths).clone();
            bytes = fs::read(&other).unwrap();
            format!("replaced by {}", other.display())
        }
        (_, Some("json")) => change_json(&mut bytes, noise),
        (2, Some("zst")) => {
            let text = zstd::decode_all(bytes.as_slice()).unwrap();
            let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let times = noise.below(5_000);
            bytes = zstd::encode_all(swollen(first, times).as_slice(), 19).unwrap();
            format!("{times} times its first episode, in {} bytes", bytes.len())
        }
        (_, Some("zst")) => {
            let text = zstd::decode_all(bytes.as_slice()).unwrap();
            let mut lines: Vec<Vec<u8>> =
                text.split(|byte| *byte == b'\n').map(Into::into).collect();
            let line = noise.below(lines.len());
            let how = change_json(&mut lines[line], noise);
            bytes = zstd::encode_all(lines.join(&b'\n').as_slice(), 1).unwrap();
            format!("line {line}: {how}")
        }
        (_, Some("parquet")) => {
            let how = flip(&mut bytes, noise);
            make_checksum_right(&mut bytes);
            how
        }
        (_, Some("journal")) => {
            let mut payload: Vec<u8> = bytes.get(12..).unwrap_or_default().to_vec();
            let how = match noise.below(3) {
                0 => flip(&mut payload, noise),
                _ => {
                    payload = rows_of_nobody(noise);
                    "other rows".to_owned()
                }
            };
            // Appends to the good frame, or replaces it.
            if noise.below(2) == 0 {
                bytes.clear();
            }
            bytes.extend(b"LGJ1");
            bytes.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
            bytes.extend(crc32fast::hash(&payload).to_le_bytes());
            bytes.extend(payload);
            how
        }
        _ => flip(&mut bytes, noise),
    };
    fs::write(&file, bytes).unwrap();
    format!("{name}: {how}")
}

/// Returns this number of copies of an episode with increasing numbers and many spaces, which
/// compress well.
fn swollen(line: &[u8], times: usize) -> Vec<u8> {
    let Ok(mut episode) = serde_json::from_slice::<Value>(line) else {
        return line.repeat(times);
    };
    let mut text = Vec::new();
    for number in 1..=times {
        episode["number"] = number.into();
        text.extend(serde_json::to_vec(&episode).unwrap());
        text.extend(b" ".repeat(2_000));
        text.push(b'\n');
    }
    text
}

/// Rows of a journal with impossible times and counts.
fn rows_of_nobody(noise: &mut Noise) -> Vec<u8> {
    const NUMBERS: [u64; 12] = [
        0,
        1,
        1_000_000,
        1 << 32,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        1 << 62,
        i64::MAX.cast_unsigned(),
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    let mut rows = Vec::new();
    for _ in 0..=noise.below(3) {
        // The stages irq and user, often missed, rarely of a line that is not.
        let flags = 1 | 1 << 7 | u64::from(noise.below(3) == 0) << 9;
        let line = u64::from(noise.below(9) == 0);
        let expiry = match noise.below(2) {
            0 => 2 * (100_000_000_000 + noise.next() % 200_000_000),
            _ => *noise.one_of(&NUMBERS),
        };
        let seq = *noise.one_of(&NUMBERS);
        let (irq, user) = (*noise.one_of(&NUMBERS), *noise.one_of(&NUMBERS));
        for mut number in [flags, line, seq, expiry, irq, user] {
            while number >= 0x80 {
                rows.push((number & 0x7f) as u8 | 0x80);
                number >>= 7;
            }
            rows.push((number & 0x7f) as u8);
        }
    }
    rows
}

/// Changes one to four bytes.
fn flip(bytes: &mut [u8], noise: &mut Noise) -> String {
    let mut how = Vec::new();
    for _ in 0..=noise.below(4) {
        let position = noise.below(bytes.len());
        let to = *noise.one_of(&[0, 1, 0x7f, 0x80, 0xff, 0x55]);
        if let Some(byte) = bytes.get_mut(position) {
            *byte = to;
            how.push(format!("byte {position} is {to:#x}"));
        }
    }
    how.join(", ")
}

/// Changes one value, or takes it away.
fn change_json(bytes: &mut Vec<u8>, noise: &mut Noise) -> String {
    let Ok(mut whole) = serde_json::from_slice::<Value>(bytes) else {
        return flip(bytes, noise);
    };
    let mut places = Vec::new();
    pointers(&whole, String::new(), &mut places);
    let place = noise.one_of(&places).clone();
    let Some(value) = whole.pointer_mut(&place) else {
        return flip(bytes, noise);
    };
    let how = match (noise.below(4), &mut *value) {
        (0, Value::Array(elements)) if !elements.is_empty() => {
            let element = elements[0].clone();
            elements.extend(std::iter::repeat_n(element, 5_000));
            "5000 times more".to_owned()
        }
        (1, Value::Array(elements)) => {
            elements.reverse();
            elements.truncate(noise.below(3));
            "turned around and cut".to_owned()
        }
        (2, Value::Object(fields)) if !fields.is_empty() => {
            let key = fields
                .keys()
                .nth(noise.below(fields.len()))
                .cloned()
                .unwrap();
            fields.remove(&key);
            format!("without `{key}`")
        }
        _ => {
            let new = hostile(noise);
            *value = new.clone();
            format!("{new:.60}")
        }
    };
    *bytes = serde_json::to_vec(&whole).unwrap();
    format!("{place}: {how}")
}

fn pointers(value: &Value, place: String, pointers_found: &mut Vec<String>) {
    match value {
        Value::Array(elements) => {
            for (number, element) in elements.iter().enumerate().take(50) {
                pointers(element, format!("{place}/{number}"), pointers_found);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                pointers(
                    field,
                    format!("{place}/{}", key.replace('/', "~1")),
                    pointers_found,
                );
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    pointers_found.push(place);
}

/// Returns a value that challenges arithmetic, tables or terminals.
fn hostile(noise: &mut Noise) -> Value {
    let values = [
        json!(0),
        json!(1),
        json!(-1),
        json!(65_535),
        json!(1_u64 << 32),
        json!(1_u64 << 53),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e-300),
        json!(1e308),
        json!(""),
        json!("\u{1b}[2J\u{202e}\n"),
        json!("x".repeat(70_000)),
        json!("0xffffffffffffffff"),
        json!("fifo:99"),
        json!("kthread"),
        json!("0-4294967295"),
        json!("tail"),
        json!("running"),
        json!(null),
        json!(true),
        json!([]),
        json!({}),
    ];
    noise.one_of(&values).clone()
}

/// Computes the checksum as the reader does: over the file with eight zeros in its place.
fn make_checksum_right(content: &mut [u8]) {
    let key = b"laggard.crc32";
    let Some(start) = content.windows(key.len()).rposition(|some| some == key) else {
        return;
    };
    let digits = start + key.len() + 2..start + key.len() + 10;
    if digits.end > content.len() {
        return;
    }
    content[digits.clone()].fill(b'0');
    let crc = format!("{:08x}", crc32fast::hash(content));
    content[digits].copy_from_slice(crc.as_bytes());
}

/// Commands for a mutant: `R` is the recording, `G` a good recording, `O` the place of an output.
const COMMANDS: [&str; 23] = [
    "show R",
    "show --all R",
    "show --by=cpu --json R",
    "why R",
    "why --all R",
    "why --json R",
    "why --bug 1 R",
    "why --perfetto O R",
    "why --flame O R",
    "qos --app=jack-128 R",
    "qos --app=jack-128 --curve --json R",
    "forecast R",
    "forecast --json G R",
    "compare G --with R",
    "report --markdown R",
    "report --output O R",
    "report --redact --markdown R",
    "report R --figure distribution --output O.svg",
    "report R --figure mttf --output O.svg",
    "export --format csv R",
    "export --format parquet --output O R",
    "export --format openmetrics R",
    "export --redact --output O R",
];

/// Files of a user's that are changed, and what reads them: `F` is the file.
const TEXTS: [(&str, &str); 7] = [
    ("check --json --require F R", REQUIREMENTS),
    ("sched --tasks F R", TASKS),
    ("sched --json --tasks F R", RT_APP),
    ("qos --app F R", APPLICATION),
    ("rehearse --count-only --duration 300ms F", TASKS),
    ("load show F", LOAD),
    (
        "record --quiet --duration 1s --backend fake:F --output O",
        SCRIPT,
    ),
];
const REQUIREMENTS: &str = "confidence = 0.95\nwhen_unclear = \"fail\"\n\
    [[require]]\nname = \"loop\"\nservice = \"fifo:90\"\nat_most = \"250us\"\nshare = 1e-5\n\
    [[require]]\napp = \"jack-128\"\nmttf = \"1h\"\n\
    [[require]]\nlevel = \"2ms\"\nper = \"week\"\n\
    [[require]]\nlongest_softirq = \"100us\"\nper = \"hour\"\n";
const TASKS: &str = "service = \"other\"\noverhead = \"5us\"\npermitted = \"1h\"\n\
    [[task]]\nname = \"control\"\nperiod = \"50ms\"\ncompute = \"1ms\"\ndeadline = \"20ms\"\n\
    [[task]]\nname = \"video\"\nperiod = \"100ms\"\ncompute = \"2ms\"\nbuffers = 3\n";
const RT_APP: &str = r#"{ "tasks": { "a": { "policy": "SCHED_FIFO", "priority": 90,
    "run": 1000, "timer": { "ref": "t", "period": 20000 } } } }"#;
const APPLICATION: &str = "name = \"mixer\"\nbuffers = 3\nbuffer = \"6ms\"\ncompute = \"1.5ms\"\n";
const LOAD: &str = "name = \"l\"\nabout = \"a\"\nunit = \"runs\"\norder = \"together\"\n\
    [[step]]\nname = \"s\"\ncommand = \"exit 1\"\nwork = 3\n";
const SCRIPT: &str = "period_ns = 1000000\n[[line]]\nservice = \"fifo:90\"\nroute = \"direct\"\n\
    steps = [[[\"irq\", 14000], [\"user\", 1203]]]\n\
    [[stall]]\nat_ns = 500500000\nlength_ns = 20000000\n";

/// Changes one word of a text. Returns a description of the change.
fn change_text(text: &str, noise: &mut Noise) -> (String, String) {
    const INSTEAD: [&str; 22] = [
        "",
        "0",
        "-1",
        "1",
        "nan",
        "inf",
        "1e308",
        "1e-320",
        "18446744073709551615",
        "9223372036854775808",
        "99999999999999999999",
        "\"0ns\"",
        "\"1ns\"",
        "\"584y\"",
        "\"18446744073s\"",
        "\"\\u001b[2J\"",
        "\"fifo:0\"",
        "\"kthread\"",
        "[]",
        "{}",
        "true",
        "[[",
    ];
    let mut words: Vec<&str> = text.split_inclusive([' ', '\n', ',']).collect();
    let index = noise.below(words.len());
    let end = words[index]
        .chars()
        .next_back()
        .filter(|char| " \n,".contains(*char));
    let new = format!("{}{}", noise.one_of(&INSTEAD), end.unwrap_or(' '));
    let how = format!("word {index} `{}` is {new:?}", words[index].trim_end());
    words[index] = &new;
    (words.concat(), how)
}

fn run(command: &str, recording: &Path, good: &Path, output: &Path) -> Output {
    let words = command.split(' ').map(|word| match word {
        "R" => recording.display().to_string(),
        "G" => good.display().to_string(),
        "F" => file_beside(output).display().to_string(),
        "fake:F" => format!("fake:{}", file_beside(output).display()),
        word => match word.strip_prefix('O') {
            Some(end) => format!("{}{end}", output.display()),
            None => word.to_owned(),
        },
    });
    let limits = format!(
        "ulimit -v {MEMORY_KIB}; ulimit -t {CPU_SECONDS}; exec timeout {REAL_SECONDS} \"$@\""
    );
    Command::new("sh")
        .args(["-c", &limits, "sh"])
        .arg(assert_cmd::cargo::cargo_bin("laggard"))
        .args(words)
        .env("TMPDIR", output.parent().unwrap())
        .output()
        .unwrap()
}

/// Returns the path of a text file of the user.
fn file_beside(output: &Path) -> PathBuf {
    output.with_file_name("text")
}

/// Returns the fault in the end of a command, if there is one.
fn fault(output: &Output) -> Option<String> {
    let stderr = output.errors();
    let is_plain = matches!(output.status.code(), Some(0..=4)) && output.status.signal().is_none();
    let is_silent = output.status.code() == Some(2) && stderr.trim().is_empty();
    if is_plain && !is_silent && !stderr.contains("panicked") {
        None
    } else {
        Some(format!("{}: {stderr:.600}", output.status))
    }
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns the numbers of the mutants to make.
fn numbers(usual: u64) -> std::ops::Range<u64> {
    match number_in("LAGGARD_MUTANT") {
        Some(number) => number..number + 1,
        None => 0..number_in("LAGGARD_MUTANTS").unwrap_or(usual),
    }
}

#[test]
fn no_mutant_makes_a_command_panic_hang_or_grow() {
    let dir = TempDir::new().unwrap();
    let good = good(dir.path());
    let mut faults = Vec::new();
    for number in numbers(USUAL) {
        let mut noise = Noise::new(number);
        let mutant = dir.path().join("m.laggard");
        let from: &PathBuf = noise.one_of(&good);
        copy(from, &mutant);
        let how = mutate(&mutant, &mut noise);
        let command = *noise.one_of(&COMMANDS);
        let place = TempDir::new_in(dir.path()).unwrap();

        let output = run(command, &mutant, &good[0], &place.path().join("o"));

        if let Some(fault) = fault(&output) {
            faults.push(format!("LAGGARD_MUTANT={number} {command}: {how}: {fault}"));
        }
        fs::remove_dir_all(&mutant).unwrap();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_text_of_a_user_makes_a_command_panic_hang_or_grow() {
    let dir = TempDir::new().unwrap();
    let good = good(dir.path());
    let mut faults = Vec::new();
    for number in numbers(TEXTS_USUAL) {
        let mut noise = Noise::new(number ^ 1 << 40);
        let (command, text) = *noise.one_of(&TEXTS);
        let (text, how) = change_text(text, &mut noise);
        let place = TempDir::new_in(dir.path()).unwrap();
        let output = place.path().join("o");
        fs::write(file_beside(&output), text).unwrap();

        let output = run(command, &good[0], &good[1], &output);

        if let Some(fault) = fault(&output) {
            faults.push(format!("LAGGARD_MUTANT={number} {command}: {how}: {fault}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_that_is_asked_answers_of_a_good_recording() {
    let dir = TempDir::new().unwrap();
    let good = good(dir.path());
    for command in COMMANDS {
        let place = TempDir::new_in(dir.path()).unwrap();

        let output = run(command, &good[0], &good[1], &place.path().join("o"));

        // With a usage error, the mutants below would be refused before they are read.
        let stderr = output.errors();
        assert!(!stderr.contains("Usage:"), "{command}: {stderr}");
        assert_eq!(fault(&output), None, "{command}");
    }
    for (command, text) in TEXTS {
        let place = TempDir::new_in(dir.path()).unwrap();
        let output = place.path().join("o");
        fs::write(file_beside(&output), text).unwrap();

        let output = run(command, &good[0], &good[1], &output);

        let stderr = output.errors();
        assert!(!stderr.contains("Usage:"), "{command}: {stderr}");
        assert_eq!(fault(&output), None, "{command}");
    }
}
