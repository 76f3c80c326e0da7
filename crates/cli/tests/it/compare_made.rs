//! `laggard compare` that makes its own recordings: from scripts. Also options that it refuses
//! before it measures.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, ask, backend, every, in_one_line, often};

/// Returns the answer and the messages.
fn made(dir: &TempDir, options: &[&str], one_in: usize) -> Output {
    let backend = backend(dir.path(), &every(one_in));
    let made = ["compare", "--into=made", "--each=30s", "--seed=0"];
    ask(dir, &[&made[..], options, &["--", &backend]].concat())
}

#[test]
fn change_without_effect_has_no_verdict_and_the_recordings_are_kept() {
    let dir = TempDir::new().unwrap();

    let output = made(&dir, &["--run=", "--run=", "--json"], 500);

    let report: Value = output.json();
    let services = report["services"].as_array().unwrap().iter();
    let levels: Vec<&Value> = services
        .flat_map(|service| service["levels"].as_array().unwrap())
        .collect();
    assert!(!levels.is_empty(), "{report}");
    for level in levels {
        let verdict = &level["change"]["verdict"];
        assert!(verdict == "equivalent" || verdict == "unclear", "{level}");
    }
    assert_eq!(report["changed"]["what"], "run during");
    assert_eq!(report["changed"]["second"], serde_json::json!(["nothing"]));
    let order = serde_json::json!({"sides": "ABABBABA", "repeats_after": null, "seed": 0});
    assert_eq!(report["order"], order);
    let kept: Value =
        serde_json::from_slice(&fs::read(dir.path().join("made/compare.json")).unwrap()).unwrap();
    assert_eq!(kept, report);
    let mut names: Vec<String> = fs::read_dir(dir.path().join("made"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".laggard").map(str::to_owned))
        .collect();
    names.sort_by_key(|name| name[1..].to_owned());
    assert_eq!(
        names,
        ["a01", "b02", "a03", "b04", "b05", "a06", "b07", "a08"]
    );
    let message = output.errors();
    for part in [
        "recording 8 times for 30 s into `made`, in random order (A B A B B A B A, seed 0), 4",
        "8 of 8: A",
        "laggard compare made/a* --with made/b* --factor load\n",
    ] {
        message.assert_has(part);
    }
}

/// Without `--seed`, the order is random, and its seed repeats it.
#[test]
fn seed_repeats_the_order() {
    let order = |seed: &[&str]| {
        let dir = TempDir::new().unwrap();
        let script = backend(dir.path(), &every(500));
        let trial = [
            "compare",
            "--into=made",
            "--each=1s",
            "--rounds=4",
            "--json",
        ];
        let words = [&trial[..], &["--run=", "--run="], seed, &["--", &script]];
        let report: Value = ask(&dir, &words.concat()).json();
        let seed = report["order"]["seed"].as_u64().unwrap();
        (report["order"]["sides"].clone(), seed)
    };

    let (sides, seed) = order(&[]);
    let again = order(&[&format!("--seed={seed}")]);

    assert_eq!(again, (sides, seed));
}

#[test]
fn command_before_a_recording_is_printed_and_that_of_a_also_runs_at_the_end() {
    let dir = TempDir::new().unwrap();

    let output = made(
        &dir,
        &["--before=A=echo a >>log,B=echo b >>log", "--rounds=1"],
        500,
    );

    let (stdout, stderr) = (output.text(), output.errors());
    assert!(output.status.success(), "{stderr}");
    assert_eq!(
        fs::read_to_string(dir.path().join("log")).unwrap(),
        "a\nb\na\n"
    );
    stdout.assert_has("\nChanged: run before: `echo a >>log` in A, `echo b >>log` in B\n");
    stderr.assert_has("runs before each A and at the end: echo a >>log\n");
    stderr.assert_has("fewer than 4 rounds give a ratio and no verdict");
}

/// This happens if the output is a pipe to `head`, or the terminal is closed.
#[test]
fn setting_is_restored_even_if_the_output_is_closed() {
    let dir = TempDir::new().unwrap();
    let script = backend(dir.path(), &every(500));
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_laggard"))
        .current_dir(dir.path())
        .args([
            "compare",
            "--into=made",
            "--each=5s",
            "--rounds=1",
            "--seed=0",
        ])
        .arg("--before=A=echo as it was && echo a >>log")
        .args(["--before=B=echo b >>log", "--", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();

    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let second = stderr.find(|line| line.as_ref().unwrap().contains("2 of 2: B"));
    drop(stderr);
    let status = child.wait().unwrap();

    assert!(second.is_some());
    assert_eq!(
        fs::read_to_string(dir.path().join("log")).unwrap(),
        "a\nb\na\n"
    );
    assert_eq!(status.code(), Some(0));
}

#[test]
fn all_changes_are_reported() {
    let dir = TempDir::new().unwrap();

    let output = made(
        &dir,
        &[
            "--before=A=true,B=:",
            "--run=",
            "--run=sleep 60",
            "--rounds=1",
        ],
        500,
    );

    let stdout = output.text();
    let words = in_one_line(&stdout);
    assert!(
        words.contains(
            "Changed: run before and run during: `true and nothing` in A, `: and sleep 60` in B Too few recordings"
        ),
        "{stdout}{}",
        output.errors()
    );
}

/// Copies the script of a side to where it is read before each recording.
const SCRIPTS: &str = "--before=A=echo a >>log; cp a.toml script.toml,B=cp b.toml script.toml";

/// Writes the scripts of two sides. One wakeup in `one_in` is late.
fn scripts(dir: &TempDir, one_in: [usize; 2]) {
    for (name, one_in) in ["a.toml", "b.toml"].into_iter().zip(one_in) {
        let text = every(one_in);
        fs::write(dir.path().join(name), text).unwrap();
    }
}

/// Returns the reason for the end, and the number of recordings.
fn ended(dir: &TempDir, report: &Value) -> (String, usize) {
    let names = fs::read_dir(dir.path().join("made")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let made = names.filter(|name| name.ends_with(".laggard")).count();
    let why = report["looks"]["ended"].as_str().unwrap_or_default();
    (why.to_owned(), made)
}

#[test]
fn decided_trial_ends_early_and_restores_the_machine() {
    let dir = TempDir::new().unwrap();
    scripts(&dir, [2_000, 250]);

    let output = made(&dir, &[SCRIPTS, "--rounds=8", "--json"], 2_000);

    let message = output.errors();
    let report: Value = output.json();
    assert_eq!(ended(&dir, &report), ("decided".into(), 8), "{message}");
    let looks = &report["looks"];
    assert_eq!((&looks["rounds"], &looks["look"]), (&8.into(), &1.into()));
    assert_eq!(looks["after"], serde_json::json!([4, 6, 8]));
    // The first evaluation uses 0.31 % of the permitted 5 %.
    let confidence = report["confidence"].as_f64().unwrap();
    assert!((confidence - 0.996_949).abs() < 1e-6, "{confidence}");
    assert_eq!(looks["confidence_of_each"][0], report["confidence"]);
    let level = &report["services"][0]["levels"][0];
    assert_eq!(level["change"]["verdict"], "worse", "{level}");
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(log, "a\n".repeat(4 + 1), "A's four, and at the end");
    for part in [
        "evaluates after 4 and 6 of 8 rounds, and ends if every series is worse, better or the same\n",
        "after 4 of 8 rounds, every series is decided; recording ends\n",
        "that command evaluates once, with 95 % confidence\n",
    ] {
        message.assert_has(part);
    }
}

#[test]
fn undecided_trial_makes_all_rounds() {
    let dir = TempDir::new().unwrap();
    scripts(&dir, [500, 500]);
    // With this margin, no ratio is the same.
    let alike = [SCRIPTS, "--rounds=6", "--equal=1.0001"];

    let undecided = made(&dir, &alike, 500);
    let kept = fs::read(dir.path().join("made/compare.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    let to_the_end = ended(&dir, &kept);
    fs::remove_dir_all(dir.path().join("made")).unwrap();
    scripts(&dir, [2_000, 250]);
    let decided = made(
        &dir,
        &[SCRIPTS, "--rounds=6", "--all-rounds", "--json"],
        500,
    );

    assert_eq!(to_the_end, ("all_rounds".into(), 12));
    let stdout = undecided.text();
    let words = in_one_line(&stdout);
    for part in [
        "All 6 rounds were made, because not every series was decided after 4.",
        "so that all 2 evaluations together err in at most 5 of 100 comparisons.",
    ] {
        assert!(words.contains(part), "{part} in\n{stdout}");
    }
    stdout.assert_has("B / A (96.2 %)");
    let text = undecided.errors();
    text.assert_has(
        "after 4 of 6 rounds: undecided: timer IRQ, SCHED_FIFO 90; recording continues\n",
    );
    let report: Value = decided.json();
    assert_eq!(ended(&dir, &report), ("all_rounds".into(), 12));
    assert_eq!(report["confidence"], 0.95);
    decided.errors().assert_lacks("evaluates after");
}

/// The sides change places after four rounds. The other service stays undecided, so that
/// recording continues.
#[test]
fn earlier_verdict_that_is_not_confirmed_is_listed() {
    let dir = TempDir::new().unwrap();
    let second = "[[line]]\nservice = \"fifo:50\"";
    for (name, one_in) in [("often.toml", 250), ("seldom.toml", 2_000)] {
        let other = often(500).replace("[[line]]\nservice = \"fifo:90\"", second);
        let text = format!("period_ns = 1000000\n{}\n{other}", often(one_in));
        fs::write(dir.path().join(name), text).unwrap();
    }
    let before = "--before=A=[ $(ls made | grep -c lagg) -lt 8 ] && cp seldom.toml script.toml || \
                  cp often.toml script.toml,B=[ $(ls made | grep -c lagg) -lt 8 ] && \
                  cp often.toml script.toml || cp seldom.toml script.toml";

    let options = [before, "--rounds=6", "--equal=1.0001", "--json"];
    let output = made(&dir, &options, 500);

    let message = output.errors();
    let report: Value = output.json();
    let words = in_one_line(&message);
    assert!(
        words.contains("after 4 of 6 rounds: timer IRQ worse (later than ")
            && words.contains(" ms), SCHED_FIFO 90 worse (later than 4.02 ms); undecided: "),
        "{message}"
    );
    let lost = report["looks"]["not_borne_out"].as_array().unwrap();
    let of_fifo: Vec<_> = lost
        .iter()
        .filter(|service| service["service"] == "fifo:90")
        .collect();
    assert_eq!(of_fifo.len(), 1, "{lost:?}");
    assert_eq!(
        (&of_fifo[0]["after"], &of_fifo[0]["change"]["verdict"]),
        (&4.into(), &"worse".into())
    );
}

#[test]
fn a_failing_command_ends_the_trial_and_the_setting_is_restored() {
    let dir = TempDir::new().unwrap();

    let before = made(&dir, &["--before=A=echo a >>log,B=false"], 500);
    fs::remove_dir_all(dir.path().join("made")).unwrap();
    let meanwhile = made(&dir, &["--run=", "--run=exit 3"], 500);

    assert_eq!(
        fs::read_to_string(dir.path().join("log")).unwrap(),
        "a\na\n"
    );
    for (output, part) in [
        (before, "`false`, before B, failed"),
        (
            meanwhile,
            "`exit 3`, which runs during B, failed: exit status 3",
        ),
    ] {
        let message = output.errors();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains(part) && message.contains("are in `made`"),
            "{message}"
        );
    }
}

/// Otherwise the error would come after the last recording.
#[test]
fn a_load_that_ends_before_its_recording_ends_the_comparison() {
    let dir = TempDir::new().unwrap();
    let load = "name = \"short\"\nabout = \"fails\"\norder = \"together\"\nunit = \"steps\"\n\
                [[step]]\nname = \"once\"\ncommand = \"exit 3\"\nwork = 1\n";
    fs::write(dir.path().join("short.toml"), load).unwrap();

    let trial = ["compare", "--into=made", "--run=", "--run=sleep 60"];
    let load = ["--load=./short.toml", "--rounds=2", "--each=3s"];
    let options = ["--", "--backend=user", "--services=other"];
    let output = ask(&dir, &[&trial[..], &load, &options].concat());

    let message = output.errors();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the load `short` ended before the recording: ")
            && message.contains("nothing was compared"),
        "{message}"
    );
    assert!(
        message.contains("1 of 4: ") && !message.contains("2 of 4"),
        "{message}"
    );
}

#[test]
fn missing_settings_and_wrong_options_are_refused_before_measuring() {
    let dir = TempDir::new().unwrap();
    for (options, part) in [
        (
            &["--factor=sysctl:kernel.no_such_setting=0,1"][..],
            "read the setting `kernel.no_such_setting`; `sysctl -a`",
        ),
        (
            &["--factor=sysctl:kernel.osrelease=0,1"],
            "the setting `kernel.osrelease` is read-only",
        ),
        (
            &["--factor=sysctl:kernel.osrelease=0"],
            "use load, or sysctl:NAME=A,B",
        ),
        (&["--run=true"], "give --run twice"),
        (&["--before=B=true"], "give --before A=COMMAND too"),
        (&["--before=true"], "names neither side"),
        (
            &["--run=true", "--run=true", "--factor=load"],
            "cannot be used with",
        ),
        (&["--factor=load"], "name the recordings of A"),
        (
            &["--run=", "--run=", "--rounds=0"],
            "a number from 1 to 1000",
        ),
        (&["--run=", "--run=", "--load=nothing"], "is not a load"),
    ] {
        let output = made(&dir, options, 500);

        let message = output.errors();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {message}");
        assert!(message.contains(part), "{options:?}: {message}");
        let left = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name != "script.toml").collect();
        assert!(left.is_empty(), "{options:?} leaves {left:?}");
    }
    for (options, part) in [
        (
            &["--output=x"][..],
            "--output cannot follow `--`; use --into",
        ),
        (&["--no-such-option"], "cannot read the options after `--`"),
    ] {
        let output = ask(
            &dir,
            &[&["compare", "--run=", "--run=", "--"], options].concat(),
        );
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(
            output.errors().contains(part),
            "{options:?}: {}",
            output.errors()
        );
    }
}

#[test]
fn a_setting_takes_root() {
    const NOBODY: u32 = 65_534;
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_laggard"));
    command.current_dir(dir.path()).args([
        "compare",
        "--into=made",
        "--factor=sysctl:kernel.printk=4 4 1 7,7 4 1 7",
    ]);
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }

    let output = match command.output() {
        Ok(output) => output,
        Err(err) => {
            println!("skipped: another user cannot run this program here: {err}");
            return;
        }
    };

    output.assert_fails(2, "changing the setting `kernel.printk` needs root");
    assert!(!dir.path().join("made").exists());
}
