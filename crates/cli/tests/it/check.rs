//! `laggard check`: verdicts on recordings whose every latency is known.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{laggard, load_ended, often, record, script, stall};

/// A recording at 1 ms of `script` and its options.
fn recorded(dir: &TempDir, name: &str, script: &str, options: &[&str]) {
    record(&dir.path().join(name), script, options)
        .arg("--no-dither")
        .assert()
        .success();
}

fn every(of: usize) -> String {
    format!("period_ns = 1000000\n{}", often(of))
}

fn ask(dir: &TempDir, recordings: &[&str], requirements: &str, options: &[&str]) -> Output {
    fs::write(dir.path().join("r.toml"), requirements).unwrap();
    laggard()
        .current_dir(dir.path())
        .arg("check")
        .args(recordings)
        .args(["--require", "r.toml"])
        .args(options)
        .output()
        .unwrap()
}

/// The exit code, and each row's verdict and why.
fn told(output: &Output) -> (i32, Vec<String>) {
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {output:?}"));
    let rows = found["rows"].as_array().unwrap().iter();
    let rows = rows.map(|row| {
        let why = row["why"].as_str().unwrap_or_default();
        format!("{} {why}", row["verdict"].as_str().unwrap())
            .trim_end()
            .to_owned()
    });
    (output.status.code().unwrap(), rows.collect())
}

/// For stalls in which about one wakeup is late.
fn share(of: &str, share: &str) -> String {
    let longest = if of == "1ms" { "2ms" } else { "20ms" };
    format!("{}longest = \"{longest}\"\n", any_share(of, share))
}

fn any_share(of: &str, share: &str) -> String {
    format!("[[require]]\nservice = \"fifo:90\"\nat_most = \"{of}\"\nshare = {share}\n")
}

#[test]
fn a_share_is_met_broken_or_not_decided_and_the_exit_code_says_which() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(1_000), &["--duration=100s"]);

    for (share_of, code, said) in [
        ("1e-2", 0, "met"),
        ("1e-4", 1, "broken"),
        ("9.5e-4", 3, "not_decided too_short"),
    ] {
        let output = ask(&dir, &["a"], &share("3500us", share_of), &["--json"]);

        assert_eq!(told(&output), (code, vec![said.into()]), "{share_of}");
    }
    // What is broken weighs more than what is not decided.
    let all = share("3500us", "9.5e-4") + &share("3500us", "1e-4") + &share("5ms", "0.1");
    let output = ask(&dir, &["a"], &all, &["--json"]);
    let rows = ["not_decided too_short", "broken", "met"].map(String::from);
    assert_eq!(told(&output), (1, rows.into()));
    let text = ask(&dir, &["a"], &all, &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.starts_with("BROKEN: r.toml\nOf 3 checks: 1 broken, 1 not decided, 1 met"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn of_none_too_late_it_takes_299_573_samples_to_show_one_in_100_000() {
    let dir = TempDir::new().unwrap();
    // The last expiry of a script is one period before its end.
    let none = script(1_000_000, "");
    let requirements = share("1ms", "1e-5");
    for (name, duration, code, said) in [
        ("few", "--duration=299573ms", 3, "not_decided too_short"),
        ("enough", "--duration=299574ms", 0, "met"),
    ] {
        recorded(&dir, name, &none, &[duration]);

        let output = ask(&dir, &[name], &requirements, &["--json"]);

        assert_eq!(
            told(&output),
            (code, vec![said.into()]),
            "{name}: {output:?}"
        );
    }
    // Two recordings are evidence together.
    recorded(&dir, "more", &none, &["--duration=1s"]);
    let output = ask(&dir, &["few", "more"], &requirements, &["--json"]);
    assert_eq!(told(&output).0, 0);
}

/// 60,000 wakeups without a late one bound one in 1,000 only for stalls of up to
/// 60 / 2.9957 = 20.03 wakeups.
#[test]
fn share_is_met_only_for_stalls_that_the_recording_excludes() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &script(1_000_000, ""), &["--duration=60001ms"]);
    let requirement = any_share("2ms", "1e-3");
    let row = |longest: &str| {
        let text = format!("{requirement}{longest}");
        let output = ask(&dir, &["a"], &text, &["--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (told(&output), found["rows"][0].clone())
    };

    let (by_default, default_row) = row("");
    let (short, short_row) = row("longest = \"22ms\"\n");
    let (long, _) = row("longest = \"23ms\"\n");

    assert_eq!(by_default, (3, vec!["not_decided long_stalls".into()]));
    assert_eq!(default_row["longest_stall_ns"], 1_000_000_000);
    assert_eq!(short, (0, vec!["met".into()]));
    assert_eq!(long.0, 3);
    assert_eq!(short_row["longest_stall_ns"], 22_000_000);
    for row in [&default_row, &short_row] {
        let holds_to = row["holds_to_ns"].as_f64().unwrap();
        assert!((holds_to - 22.03e6).abs() < 0.02e6, "{row}");
    }
    // 2.9957 stalls of 998 late wakeups are one in 1,000 of 2,989,700.
    let needed = default_row["needed_ns"].as_f64().unwrap();
    assert!((needed / 2_989.7e9 - 1.0).abs() < 0.01, "{needed}");
    let text = String::from_utf8(ask(&dir, &["a"], &requirement, &[]).stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "holds only for stalls of up to 22 ms, and must for stalls of up to 1.0 s (by default; set `longest` in the requirement)"
        ),
        "{words}"
    );
}

#[test]
fn mean_time_that_is_met_without_an_event_names_its_largest_burst() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &script(1_000_000, ""), &["--duration=60s"]);
    let level = "[[require]]\nservice = \"fifo:90\"\nlevel = \"10ms\"\nper = \"5s\"\n";

    let output = ask(&dir, &["a"], level, &["--json"]);

    assert_eq!(told(&output), (0, vec!["met".into()]));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let burst = found["rows"][0]["holds_to_burst"].as_f64().unwrap();
    assert!((burst - 12.0 / 2.995_732).abs() < 1e-3, "{burst}");
    let sentence = found["rows"][0]["sentence"].as_str().unwrap();
    assert!(
        sentence.ends_with("holds for bursts of up to 4"),
        "{sentence}"
    );
}

#[test]
fn what_is_not_decided_passes_only_where_the_file_says_so() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &script(1_000_000, ""), &["--duration=10s"]);
    for (when, code) in [("fail", 3), ("warn", 0), ("extend", 3)] {
        let text = format!("when_unclear = \"{when}\"\n{}", share("1ms", "1e-5"));

        let output = ask(&dir, &["a"], &text, &["--json"]);

        assert_eq!(output.status.code(), Some(code), "{when}: {output:?}");
    }
    let extend = format!("when_unclear = \"extend\"\n{}", share("1ms", "1e-5"));
    let text = String::from_utf8(ask(&dir, &["a"], &extend, &[]).stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("as it takes: laggard record --require r.toml --until-decided"),
        "{text}"
    );
    let text = ask(&dir, &["a"], &share("1ms", "1e-5"), &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("not decided: too short; 5.0 min would decide"),
        "{text}"
    );
}

#[test]
fn a_stall_that_had_not_ended_breaks_whatever_it_is_later_than() {
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

    assert_eq!(told(&broken).0, 1, "{broken:?}");
    assert_eq!(told(&unknown).0, 3, "{unknown:?}");
    assert_eq!(told(&share).0, 1, "{share:?}");
}

/// A stall of 2 ms among activations 1 ms apart may fail 1.87 ms of slack, or not.
#[test]
fn what_activations_too_far_apart_cannot_tell_is_not_called_never_nor_passed() {
    let dir = TempDir::new().unwrap();
    let script = script(1_000_000, &stall(10_000_500_000, 2_000_000));
    recorded(&dir, "a", &script, &["--duration=30s"]);
    let text = "when_unclear = \"warn\"\n[[require]]\napp = \"jack-128\"\nmttf = \"1h\"\n";

    let json = ask(&dir, &["a"], text, &["--json"]);
    let said = ask(&dir, &["a"], text, &[]);

    assert_eq!(told(&json), (3, vec!["not_decided too_coarse".into()]));
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(!said.contains("never"), "{said}");
    assert!(said.contains("too far apart"), "{said}");
}

#[test]
fn levels_applications_and_the_baseline_are_checked_too() {
    let dir = TempDir::new().unwrap();
    let stalls: String = (0..100_u64)
        .map(|at| stall((100 + 1_003 * at) * 1_000_000 + 500_000, 40_000_000))
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
        // Its slack is too short for activations 1 ms apart to show that.
        (app("jack-128", "10ms"), 3),
        (app("jack-1024", "1h"), 1),
        (app("jack-1024", "10ms"), 0),
    ] {
        let output = ask(&dir, &["stalls"], &text, &["--json"]);
        assert_eq!(told(&output).0, code, "{text}{output:?}");
    }
    let text = "[[require]]\nservice = \"fifo:90\"\nnot_worse_than = 1.25\n";
    let (a, b) = (["a1", "a2", "a3", "a4"], ["b1", "b2", "b3", "b4"]);
    let of = |first: &[&str], second: &[&str]| {
        let mut options = vec!["--json", "--baseline"];
        options.extend(first);
        let output = ask(&dir, second, text, &options);
        told(&output)
    };
    assert_eq!(of(&a, &b), (1, vec!["broken".into()]));
    assert_eq!(of(&b, &a), (0, vec!["met".into()]));
    assert_eq!(
        of(&a[..1], &b[..1]),
        (3, vec!["not_decided few_recordings".into()])
    );
    let none = ask(&dir, &["a1"], text, &[]);
    let said = String::from_utf8(none.stderr).unwrap();
    assert!(
        said.contains("r.toml:3:18: `not_worse_than` needs recordings"),
        "{said}"
    );
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn a_bad_file_is_refused_with_its_place_and_so_is_what_was_not_recorded() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(100), &["--duration=10s"]);
    for (text, said) in [
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
            "no recording is of the load `fileio`; recorded: no load",
        ),
        ("[[require]\n", "r.toml:1:"),
    ] {
        let output = ask(&dir, &["a"], text, &[]);

        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(said), "{told}");
        assert_eq!(output.status.code(), Some(2), "{told}");
    }
    let missing = laggard()
        .args(["check", "a", "--require", "none.toml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn what_is_not_trustworthy_never_passes() {
    let dir = TempDir::new().unwrap();
    record(&dir.path().join("short"), &every(5), &["--duration=10ms"])
        .assert()
        .code(3);

    let text = format!("when_unclear = \"warn\"\n{}", share("5ms", "0.9"));
    let output = ask(&dir, &["short"], &text, &["--json"]);

    assert_eq!(
        told(&output),
        (3, vec!["not_decided not_trustworthy".into()])
    );
}

/// What was measured then is partly of a machine without it: what is too much in that
/// mixture is too much somewhere, and not said to be so under that load.
#[test]
fn a_recording_whose_load_failed_never_passes() {
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

    let undecided = (3, vec!["not_decided load_ended".into()]);
    assert_eq!(told(&easy), undecided);
    assert_eq!(told(&broken), (1, vec!["broken".into()]));
    assert_eq!(told(&of_load), undecided);
}

/// Eight times as often, in recordings of which one is partly of another load; and one
/// of the baseline.
#[test]
fn a_recording_whose_load_failed_is_not_compared_with_a_baseline() {
    let dir = TempDir::new().unwrap();
    let options = ["--duration=30s", "--load=idle"];
    let names = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"];
    for (name, of) in names.iter().zip([2_000; 4].into_iter().chain([250; 4])) {
        recorded(&dir, name, &every(of), &options);
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

    assert_eq!(told(&whole), (1, vec!["broken".into()]));
    assert_eq!(told(&ended), (3, vec!["not_decided load_ended".into()]));
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(
        said.contains(
            "fifo:90 under idle: not compared with the baseline; not decided: the load ended"
        ),
        "{said}"
    );
    let said = String::from_utf8(baseline.stderr).unwrap();
    assert_eq!(baseline.status.code(), Some(3), "{said}");
    assert!(said.contains("load: `b3`: the load `idle` ended"), "{said}");
}

/// A probe every millisecond does not see what begins and ends between two activations,
/// and jack-128 tolerates less than two of them.
#[test]
fn limits_that_would_decide_what_a_recording_cannot_see_are_said_to_be_of_what_was_seen() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(1_000), &["--duration=100s"]);
    let text = |mttf: &str| format!("[[require]]\napp = \"jack-128\"\nmttf = \"{mttf}\"\n");

    let lenient = ask(&dir, &["a"], &text("1ms"), &["--json"]);
    let strict = ask(&dir, &["a"], &text("1h"), &["--json"]);

    let undecided = (3, vec!["not_decided too_coarse".into()]);
    assert_eq!(told(&lenient), undecided);
    let said = String::from_utf8(lenient.stdout).unwrap();
    assert!(
        said.contains("fifo:90: by what was seen, runs dry "),
        "{said}"
    );
    assert!(
        said.contains("to see short stalls that meet in one buffer"),
        "{said}"
    );
    let said = String::from_utf8(strict.stdout).unwrap();
    assert!(!said.contains("by what was seen"), "{said}");
}

#[test]
fn machines_are_told_in_junit_s_xml_and_github_s_annotations() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(1_000), &["--duration=100s"]);
    let text = share("3500us", "1e-2") + &share("3500us", "1e-4") + &share("3500us", "9.5e-4");

    let options = ["--junit", "j.xml", "--github", "--badge", "b.svg"];
    let output = ask(&dir, &["a"], &text, &options);

    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines = said.lines();
    let first = lines.next().unwrap();
    assert!(
        first.starts_with("::error file=r.toml,line=8,col=11,title=broken%3A later than 3500us"),
        "{said}"
    );
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("::error file=r.toml,line=13,col=11,title=not decided%3A")
    );
    assert_eq!(lines.next(), Some("BROKEN: r.toml"));
    let xml: PathBuf = dir.path().join("j.xml");
    let xml = fs::read_to_string(xml).unwrap();
    assert!(
        xml.contains("tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\""),
        "{xml}"
    );
    assert_eq!(xml.matches("<testcase ").count(), 3);
    let badge = fs::read_to_string(dir.path().join("b.svg")).unwrap();
    assert!(badge.contains("aria-label=\"latency: broken\""), "{badge}");
    let met = share("3500us", "1e-2");
    ask(&dir, &["a"], &met, &["--badge", "b.svg"]);
    let badge = fs::read_to_string(dir.path().join("b.svg")).unwrap();
    assert!(badge.contains(">met</text>"), "{badge}");
}

/// An activation in 10 is late, a hundred in a second.
#[test]
fn what_is_late_all_the_time_is_late_more_often_than_every_two_seconds() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "a", &every(10), &["--duration=100s"]);
    let rate = "[[require]]\nservice = \"fifo:90\"\nlevel = \"1ms\"\nper = \"2s\"\n";

    let output = ask(&dir, &["a"], rate, &["--json"]);

    assert_eq!(told(&output), (1, vec!["broken".into()]));
}
