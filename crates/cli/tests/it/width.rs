//! No printed line of any command is wider than the terminal, except an unbreakable name on its own
//! line.

use std::process::Output;

use tempfile::TempDir;

use crate::scripted::{Texts as _, laggard, must_record, stall};

/// Longer than any of the terminals is wide.
const LONG: &str = "a-recording-with-a-name-that-no-terminal-has-room-for-and-that-cannot-be-broken-since-it-is-to-be-copied.laggard";
const APPLICATION: &str = "--buffers=3 --buffer=6ms --compute=1.5ms";

/// Returns a script of a few services with some late wakeups.
fn script(stalls: u64) -> String {
    let stages =
        r#"[["irq", 14000], ["expire", 400], ["waking", 240], ["running", 3008], ["user", 1203]]"#;
    let thread = |service: &str| {
        format!("[[line]]\nservice = \"{service}\"\nroute = \"direct\"\nsteps = [{stages}]\n")
    };
    let softirq = "[[line]]\nservice = \"softirq\"\nroute = \"direct\"\n\
                   steps = [[[\"irq\", 2100], [\"raise\", 300], [\"softirq\", 900]]]\n";
    let stalls = (0..stalls).map(|index| stall((1_000 + 2_123 * index) * 1_000_000, 40_000_000));
    let lines = ["fifo:90", "fifo:50", "other"].map(thread).concat();
    format!(
        "period_ns = 1000000\n{lines}{softirq}{}",
        stalls.collect::<String>()
    )
}

fn output(dir: &TempDir, words: &str, columns: usize) -> Output {
    laggard()
        .args(words.split(' '))
        .current_dir(dir.path())
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap()
}

#[test]
fn output_fits_the_terminal() {
    let dir = TempDir::new().unwrap();
    for (name, stalls) in [(LONG, 8), ("b", 4)] {
        must_record(&dir.path().join(name), &script(stalls), &["--duration=20s"]);
    }
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    file(
        "tasks.toml",
        "permitted = \"5s\"\n\
         [[task]]\nname = \"loop\"\nperiod = \"30ms\"\ncompute = \"5ms\"\n\
         [[task]]\nname = \"a task with a name of many words that needs more than a line\"\n\
         period = \"400ms\"\ncompute = \"40ms\"\n",
    );
    file(
        "require.toml",
        "[[require]]\nservice = \"fifo:90\"\nat_most = \"1ms\"\nshare = 1e-5\n",
    );
    let mut wide = Vec::new();
    for words in [
        "show LONG",
        "show LONG --all",
        "show LONG --services --unit=ns",
        "show LONG --stages --unit=us",
        "show LONG --by=cpu",
        "show LONG --by=minute",
        "show LONG b",
        "show LONG b --all",
        "show LONG b --by=load",
        "qos LONG",
        "qos LONG APPLICATION",
        "qos LONG APPLICATION --curve",
        "forecast LONG",
        "forecast LONG --all",
        "sched LONG --tasks tasks.toml",
        "sched LONG --tasks tasks.toml --all",
        "compare LONG --with b --app jack-128",
        "compare LONG --with b --app jack-128 --all",
        "check LONG --require require.toml",
        "check LONG --require require.toml --all",
        "doctor",
        "doctor LONG",
        "bench timers --api poll,clock_nanosleep-abs --duration 500ms",
    ] {
        let words = words
            .replace("LONG", LONG)
            .replace("APPLICATION", APPLICATION);
        for columns in [40, 80, 120] {
            let output = output(&dir, &words, columns);
            let text = output.text();
            assert!(!text.is_empty(), "{words}: {:?}", output.stderr);
            // Alone but for its mark.
            let is_name = |line: &str| {
                let words = line.split_whitespace();
                words.filter(|word| word.len() > "[1]".len()).count() == 1
            };
            let lines = text.lines();
            let lines = lines.filter(|line| line.chars().count() > columns && !is_name(line));
            wide.extend(lines.map(|line| format!("{words} in {columns}: {line}")));
        }
    }

    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
