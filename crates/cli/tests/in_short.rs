//! What a question is answered with unless more is asked for: the sentence
//! first, then what carries it, in 80 columns.

use tempfile::TempDir;

mod scripted;

use scripted::{laggard, record, script, stall};

/// A minute in which `stalls` of 40 ms come.
fn recorded(dir: &TempDir, stalls: u64) {
    let stalls: String = (0..stalls)
        .map(|at| stall((1_000 + 7_123 * at) * 1_000_000 + 500_000, 40_000_000))
        .collect();
    let script = script(1_000_000, &stalls);
    record(&dir.path().join("r.laggard"), &script, &["--duration=60s"])
        .assert()
        .success();
}

/// The lines that are printed in the recording's folder.
fn said(dir: &TempDir, words: &str) -> Vec<String> {
    let output = laggard()
        .args(words.split(' '))
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{words}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{words}: {line}");
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn qos_answers_for_an_application_in_five_lines() {
    let buffers = "qos r.laggard --buffers=3 --buffer=6ms --compute=1.5ms";
    for (stalls, sentence) in [
        (8, "NOT FIT: application as fifo:90 runs dry every "),
        (
            0,
            "NOT DECIDED: application as fifo:90 did not run dry; at most once every 20 s",
        ),
    ] {
        let dir = TempDir::new().unwrap();
        recorded(&dir, stalls);

        let lines = said(&dir, buffers);

        assert!(lines[0].starts_with(sentence), "{lines:#?}");
        // A script is no measurement, and that is a line of its own.
        assert!(lines[1].contains("NOT a measurement"), "{lines:#?}");
        assert!(lines.len() <= 6, "{lines:#?}");
        let all = lines.join(" ");
        assert!(all.contains("tolerates a start 10.5 ms late"), "{all}");
        assert!(all.contains("--curve"), "{all}");
    }
}

#[test]
fn qos_without_an_application_has_a_line_for_each_of_a_few() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, 8);

    let lines = said(&dir, "qos r.laggard");

    let of = |name: &str| lines.iter().find(|line| line.starts_with(name)).unwrap();
    assert!(of("jack-128 ").contains("NOT FIT"), "{lines:#?}");
    // Its slack is longer than any stall.
    assert!(of("sdr ").contains("NOT DECIDED"), "{lines:#?}");
    assert!(lines.len() <= 13, "{lines:#?}");
}

#[test]
fn sched_says_first_which_task_misses() {
    let tasks = "permitted = \"5s\"\n\
                 [[task]]\nname = \"loop\"\nperiod = \"30ms\"\ncompute = \"5ms\"\n\
                 [[task]]\nname = \"slow\"\nperiod = \"400ms\"\ncompute = \"40ms\"\n";
    for (stalls, sentence) in [
        (8, "MISSES: loop, by 1.0 min observed"),
        (
            0,
            "MEETS: all 2 tasks meet their deadlines, by 1.0 min observed",
        ),
    ] {
        let dir = TempDir::new().unwrap();
        recorded(&dir, stalls);
        std::fs::write(dir.path().join("tasks.toml"), tasks).unwrap();

        let lines = said(&dir, "sched r.laggard --tasks tasks.toml");

        assert_eq!(lines[0], sentence, "{lines:#?}");
        assert!(lines.len() <= 12, "{lines:#?}");
    }
}
