//! Tests of `laggard check` with recordings of known latencies.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{
    self, Printed as _, Texts as _, any_share, every, in_one_line, load_ended, record, run, script,
    share, stall,
};

/// A recording at 1 ms of `script` and its options.
fn recorded(dir: &TempDir, name: &str, script: &str, options: &[&str]) {
    record(&dir.path().join(name), script, options)
        .arg("--no-dither")
        .assert()
        .success();
}

fn ask(dir: &TempDir, recordings: &[&str], requirements: &str, options: &[&str]) -> Output {
    fs::write(dir.path().join("r.toml"), requirements).unwrap();
    let words = [&["check", "--require=r.toml"], recordings, options].concat();
    scripted::ask(dir, &words)
}

/// Returns the exit code, and the verdict of each row with its reason.
fn verdicts(output: &Output) -> (i32, Vec<String>) {
    let report: Value = output.json();
    let rows = report["rows"].as_array().unwrap().iter();
    let rows = rows.map(|row| {
        let why = row["why"].as_str().unwrap_or_default();
        format!("{} {why}", row["verdict"].as_str().unwrap())
            .trim_end()
            .to_owned()
    });
    (output.status.code().unwrap(), rows.collect())
}

#[test]
fn share_passes_fails_or_is_unknown_with_an_exit_code_for_each() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(1_000), &["--duration=100s"]);

    for (share_of, code, message) in [
        ("1e-2", 0, "pass"),
        ("1e-4", 1, "fail"),
        ("9.5e-4", 3, "unknown too_short"),
    ] {
        let output = ask(&dir, &["a"], &share("3500us", share_of), &["--json"]);

        assert_eq!(
            verdicts(&output),
            (code, vec![message.into()]),
            "{share_of}"
        );
    }
    // A failure outweighs an unknown verdict.
    let requirements = share("3500us", "9.5e-4") + &share("3500us", "1e-4") + &share("5ms", "0.1");
    let output = ask(&dir, &["a"], &requirements, &["--json"]);
    let rows = ["unknown too_short", "fail", "pass"].map(String::from);
    assert_eq!(verdicts(&output), (1, rows.into()));
    let text = ask(&dir, &["a"], &requirements, &[]).text();
    assert!(
        text.starts_with("FAIL  `r.toml`: 3 checks: 1 FAIL, 1 UNKNOWN, 1 PASS\n"),
        "{text}"
    );
    text.assert_has("\n2  FAIL     SCHED_FIFO 90: at most 1e-4 ");
    text.assert_has("99 of 99,999 wakeups, 9.9e-4");
    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn share_of_1e_5_without_a_late_wakeup_needs_299_573_samples() {
    let dir = TempDir::new().unwrap();
    // The last expiry of a script is one period before its end.
    let none = script(1_000_000, "");
    let requirements = share("1ms", "1e-5");
    for (name, duration, code, message) in [
        ("few", "--duration=299573ms", 3, "unknown too_short"),
        ("enough", "--duration=299574ms", 0, "pass"),
    ] {
        recorded(&dir, name, &none, &[duration]);

        let output = ask(&dir, &[name], &requirements, &["--json"]);

        assert_eq!(
            verdicts(&output),
            (code, vec![message.into()]),
            "{name}: {output:?}"
        );
    }
    // Two recordings are evidence together.
    recorded(&dir, "more", &none, &["--duration=1s"]);
    let output = ask(&dir, &["few", "more"], &requirements, &["--json"]);
    assert_eq!(verdicts(&output).0, 0);
}

/// 60,000 wakeups without a late one bound one in 1,000 only for stalls of up to
/// 60 / 2.9957 = 20.03 wakeups.
#[test]
fn share_passes_only_for_stalls_that_the_recording_excludes() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &script(1_000_000, ""), &["--duration=60001ms"]);
    let requirement = any_share("2ms", "1e-3");
    let row = |longest: &str| {
        let text = format!("{requirement}{longest}");
        let output = ask(&dir, &["a"], &text, &["--json"]);
        let report: Value = output.json();
        (verdicts(&output), report["rows"][0].clone())
    };

    let (by_default, default_row) = row("");
    let (short, short_row) = row("longest = \"22ms\"\n");
    let (long, _) = row("longest = \"23ms\"\n");

    assert_eq!(by_default, (3, vec!["unknown long_stalls".into()]));
    assert_eq!(default_row["longest_stall_ns"], 1_000_000_000);
    assert_eq!(short, (0, vec!["pass".into()]));
    assert_eq!(long.0, 3);
    assert_eq!(short_row["longest_stall_ns"], 22_000_000);
    for row in [&default_row, &short_row] {
        let holds_to = row["holds_to_ns"].as_f64().unwrap();
        assert!((holds_to - 22.03e6).abs() < 0.02e6, "{row}");
    }
    // 2.9957 stalls of 998 late wakeups are one in 1,000 of 2,989,700.
    let needed = default_row["needed_ns"].as_f64().unwrap();
    assert!((needed / 2_989.7e9 - 1.0).abs() < 0.01, "{needed}");
    let text = ask(&dir, &["a"], &requirement, &[]).text();
    let words = in_one_line(&text);
    words.assert_has("holds only for stalls of up to 22 ms, and must hold for stalls of up to 1.0 s (default; set `longest` in the requirement)");
}

#[test]
fn mean_time_that_passes_without_an_event_names_its_largest_burst() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &script(1_000_000, ""), &["--duration=60s"]);
    let level = "[[require]]\nservice = \"fifo:90\"\nlevel = \"10ms\"\nper = \"5s\"\n";

    let output = ask(&dir, &["a"], level, &["--json"]);

    assert_eq!(verdicts(&output), (0, vec!["pass".into()]));
    let report: Value = output.json();
    let burst = report["rows"][0]["holds_to_burst"].as_f64().unwrap();
    assert!((burst - 12.0 / 2.995_732).abs() < 1e-3, "{burst}");
    let text = ask(&dir, &["a"], level, &[]).text();
    text.assert_has("\nPASS 1: holds for bursts of up to 4\n");
}

#[test]
fn unknown_verdict_passes_only_if_the_file_allows_it() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &script(1_000_000, ""), &["--duration=10s"]);
    for (when, code) in [("fail", 3), ("warn", 0), ("extend", 3)] {
        let text = format!("when_unclear = \"{when}\"\n{}", share("1ms", "1e-5"));

        let output = ask(&dir, &["a"], &text, &["--json"]);

        assert_eq!(output.status.code(), Some(code), "{when}: {output:?}");
    }
    let extend = format!("when_unclear = \"extend\"\n{}", share("1ms", "1e-5"));
    let text = ask(&dir, &["a"], &extend, &[]).text();
    let words = in_one_line(&text);
    assert!(
        words.contains(
            "Next: `laggard record --require r.toml --until-decided` records until all are decided"
        ),
        "{text}"
    );
    let text = ask(&dir, &["a"], &share("1ms", "1e-5"), &[]).text();
    let words = in_one_line(&text);
    assert!(
        words.contains("UNKNOWN 1 (record 5.0 min): too short Next: record 5.0 min in total"),
        "{text}"
    );
}

#[test]
fn stall_that_had_not_ended_fails_a_shorter_limit() {
    let dir = TempDir::new().unwrap();
    let stalled = script(1_000_000, &stall(25_000_000_000, 20_000_000_000));
    record(&dir.path().join("a"), &stalled, &["--duration=30s"])
        .assert()
        .code(predicates::function::function(|code: &i32| {
            [0, 3].contains(code)
        }));
    let level = |level: &str| format!("[[require]]\nlevel = \"{level}\"\nper = \"1s\"\n");

    let broken = ask(&dir, &["a"], &level("10ms"), &["--json"]);
    let unknown = ask(&dir, &["a"], &level("100s"), &["--json"]);
    let share = ask(&dir, &["a"], &share("10ms", "0.9"), &["--json"]);

    assert_eq!(verdicts(&broken).0, 1, "{broken:?}");
    assert_eq!(verdicts(&unknown).0, 3, "{unknown:?}");
    assert_eq!(verdicts(&share).0, 1, "{share:?}");
}

/// A stall of 2 ms with wakeups 1 ms apart may exceed a slack of 1.87 ms, or not.
#[test]
fn wakeups_too_far_apart_neither_pass_nor_show_the_absence_of_xruns() {
    let dir = TempDir::new().unwrap();
    let script = script(1_000_000, &stall(10_000_500_000, 2_000_000));
    recorded(&dir, "a", &script, &["--duration=30s"]);
    let text = "when_unclear = \"warn\"\n[[require]]\napp = \"jack-128\"\nmttf = \"1h\"\n";

    let json = ask(&dir, &["a"], text, &["--json"]);
    let text_output = ask(&dir, &["a"], text, &[]);

    assert_eq!(verdicts(&json), (3, vec!["unknown too_coarse".into()]));
    let stdout = text_output.text();
    stdout.assert_lacks("no xrun");
    stdout.assert_has("too far apart");
}

#[test]
fn levels_applications_and_baselines_are_checked() {
    let dir = TempDir::new().unwrap();
    let stalls: String = (0..100_u64)
        .map(|index| stall((100 + 1_003 * index) * 1_000_000 + 500_000, 40_000_000))
        .collect();
    recorded(
        &dir,
        "stalls",
        &script(1_000_000, &stalls),
        &["--duration=100s"],
    );
    for name in ["a1", "a2", "a3", "a4"] {
        recorded(&dir, name, &every(2_000), &["--duration=30s"]);
    }
    for name in ["b1", "b2", "b3", "b4"] {
        recorded(&dir, name, &every(250), &["--duration=30s"]);
    }
    let level = "[[require]]\nservice = \"fifo:90\"\nlevel = \"10ms\"\nper = ";
    let app =
        |name: &str, mttf: &str| format!("[[require]]\napp = \"{name}\"\nmttf = \"{mttf}\"\n");
    for (text, code) in [
        (format!("{level}\"100ms\"\n"), 0),
        (format!("{level}\"hour\"\n"), 1),
        (app("jack-128", "1h"), 1),
        // The slack is too short for wakeups that are 1 ms apart.
        (app("jack-128", "10ms"), 3),
        (app("jack-1024", "1h"), 1),
        (app("jack-1024", "10ms"), 0),
    ] {
        let output = ask(&dir, &["stalls"], &text, &["--json"]);
        assert_eq!(verdicts(&output).0, code, "{text}{output:?}");
    }
    let text = "[[require]]\nservice = \"fifo:90\"\nnot_worse_than = 1.25\n";
    let (a, b) = (["a1", "a2", "a3", "a4"], ["b1", "b2", "b3", "b4"]);
    let result_of = |first: &[&str], second: &[&str]| {
        let mut options = vec!["--json", "--baseline"];
        options.extend(first);
        let output = ask(&dir, second, text, &options);
        verdicts(&output)
    };
    assert_eq!(result_of(&a, &b), (1, vec!["fail".into()]));
    assert_eq!(result_of(&b, &a), (0, vec!["pass".into()]));
    assert_eq!(
        result_of(&a[..1], &b[..1]),
        (3, vec!["unknown few_recordings".into()])
    );
    let none = ask(&dir, &["a1"], text, &[]);
    none.assert_fails(
        2,
        "r.toml:3:18: `not_worse_than` needs a baseline; give its recordings with --baseline",
    );
}

#[test]
fn errors_in_the_file_and_missing_data_are_refused_with_their_place() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(100), &["--duration=10s"]);
    for (text, message) in [
        (
            "[[require]]\nat_most = \"250\"\nshare = 1e-5",
            "r.toml:2:11: `250` has no unit",
        ),
        (
            "[[require]]\nservice = \"fifo:80\"\nat_most = \"1ms\"\nshare = 0.1",
            "r.toml:3:11: no recording measured `fifo:80`; measured: irq, fifo:90",
        ),
        (
            "[[require]]\nload = \"fileio\"\nlevel = \"1ms\"\nper = \"day\"",
            "no recording has the load `fileio`; recorded: no load",
        ),
        (
            "service = \"fifo:90\"\n",
            "r.toml:1:1: unknown key `service` at top level; requirements start with [[require]]",
        ),
        ("[[require]\n", "r.toml:1:"),
    ] {
        let output = ask(&dir, &["a"], text, &[]);

        output.assert_fails(2, message);
    }
    let missing = run(dir.path(), "check a --require none.toml");
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn untrustworthy_recording_never_passes() {
    let dir = TempDir::new().unwrap();
    record(&dir.path().join("short"), &every(5), &["--duration=10ms"])
        .assert()
        .code(3);

    let text = format!("when_unclear = \"warn\"\n{}", share("5ms", "0.9"));
    let output = ask(&dir, &["short"], &text, &["--json"]);

    assert_eq!(
        verdicts(&output),
        (3, vec!["unknown not_trustworthy".into()])
    );
}

/// Such a recording also shows the machine without the load. A requirement without a load can
/// fail, a requirement on that load cannot.
#[test]
fn recording_with_a_failed_load_never_passes() {
    let dir = TempDir::new().unwrap();
    let options = ["--duration=100s", "--load=idle"];
    recorded(&dir, "a", &every(1_000), &options);
    load_ended(&dir, "a");
    let too_many = share("3500us", "1e-4");
    let of_load = too_many.replace("[[require]]", "[[require]]\nload = \"idle\"");
    let text = format!("when_unclear = \"warn\"\n{}", share("3500us", "1e-2"));

    let easy = ask(&dir, &["a"], &text, &["--json"]);
    let broken = ask(&dir, &["a"], &too_many, &["--json"]);
    let of_load = ask(&dir, &["a"], &of_load, &["--json"]);

    let undecided = (3, vec!["unknown load_ended".into()]);
    assert_eq!(verdicts(&easy), undecided);
    assert_eq!(verdicts(&broken), (1, vec!["fail".into()]));
    assert_eq!(verdicts(&of_load), undecided);
}

/// Late wakeups are eight times as frequent as in the baseline. The load of one recording
/// failed, on either side.
#[test]
fn recording_with_a_failed_load_is_not_compared_with_a_baseline() {
    let dir = TempDir::new().unwrap();
    let options = ["--duration=30s", "--load=idle"];
    let names = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"];
    for (name, one_in) in names.iter().zip([2_000; 4].into_iter().chain([250; 4])) {
        recorded(&dir, name, &every(one_in), &options);
    }
    let text = "[[require]]\nservice = \"fifo:90\"\nnot_worse_than = 1.25\n";
    let compared = |first: &[&str], second: &[&str]| {
        let options = [&["--json", "--baseline"], first].concat();
        ask(&dir, second, text, &options)
    };

    let whole = compared(&names[..4], &names[4..]);
    load_ended(&dir, "b3");
    let ended = compared(&names[..4], &names[4..]);
    let baseline = compared(&names[4..], &names[..4]);

    assert_eq!(verdicts(&whole), (1, vec!["fail".into()]));
    assert_eq!(verdicts(&ended), (3, vec!["unknown load_ended".into()]));
    let options = [&["--baseline"], &names[..4]].concat();
    let screen = ask(&dir, &names[4..], text, &options).text();
    screen.assert_has("not compared with the");
    screen.assert_has("UNKNOWN 1: the load ended");
    baseline.assert_fails(3, "load: `b3`: the load `idle` ended");
}

/// A probe every millisecond does not see a stall between two wakeups, and the slack of
/// jack-128 is shorter than two periods.
#[test]
fn interval_that_excludes_short_stalls_is_marked() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(1_000), &["--duration=100s"]);
    let text = |mttf: &str| format!("[[require]]\napp = \"jack-128\"\nmttf = \"{mttf}\"\n");

    let lenient = ask(&dir, &["a"], &text("1ms"), &["--json"]);

    let undecided = (3, vec!["unknown too_coarse".into()]);
    assert_eq!(verdicts(&lenient), undecided);
    let words = |mttf: &str| ask(&dir, &["a"], &text(mttf), &[]).words();
    let marked = "the interval excludes short stalls, because wakeups are too far apart";
    let lenient = words("1ms");
    lenient.assert_has(marked);
    lenient.assert_has("to see short stalls that meet in one buffer");
    assert!(!words("1h").contains(marked));
}

#[test]
fn build_servers_get_junit_xml_annotations_and_markdown() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(1_000), &["--duration=100s"]);
    let text = share("3500us", "1e-2") + &share("3500us", "1e-4") + &share("3500us", "9.5e-4");

    let options = ["--junit", "j.xml", "--github"];
    let output = ask(&dir, &["a"], &text, &options);

    let stdout = output.text();
    let mut lines = stdout.lines();
    let first = lines.next().unwrap();
    assert!(
        first.starts_with(
            "::error file=r.toml,line=8,col=11,title=FAIL%3A at most 1e-4 of wakeups later than 3500us::"
        ),
        "{stdout}"
    );
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("::error file=r.toml,line=13,col=11,title=UNKNOWN%3A")
    );
    let verdict = "FAIL  `r.toml`: 3 checks: 1 FAIL, 1 UNKNOWN, 1 PASS";
    assert_eq!(lines.next(), Some(verdict));
    let xml: PathBuf = dir.path().join("j.xml");
    let xml = fs::read_to_string(xml).unwrap();
    xml.assert_has("tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\"");
    assert_eq!(xml.matches("<testcase ").count(), 3);
    let markdown = ask(&dir, &["a"], &text, &["--markdown"]).text();
    markdown.assert_has("\n- **FAIL**: ");
    markdown.assert_has("\n| 2 | FAIL | ");
}

/// One wakeup in 10 is late, 100 per second.
#[test]
fn frequent_late_wakeups_exceed_one_run_per_two_seconds() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(10), &["--duration=100s"]);
    let rate = "[[require]]\nservice = \"fifo:90\"\nlevel = \"1ms\"\nper = \"2s\"\n";

    let output = ask(&dir, &["a"], rate, &["--json"]);

    assert_eq!(verdicts(&output), (1, vec!["fail".into()]));
}
