//! Output does not depend on the number and speed of the reading threads.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::scripted::{laggard, must_record};

/// Records 150 s of two lines. Every fourth wakeup is late. There are five segments, and each
/// starts in the middle of both lines.
fn recorded(dir: &Path) {
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        random >> 33
    };
    let mut script = "period_ns = 1000000\n".to_owned();
    for service in ["other", "fifo:90"] {
        let steps: String = (0..997)
            .map(|_| match next() % 4 {
                0 => 100_000 + next() % 800_000,
                _ => 3_000,
            })
            .map(|late_ns| format!("[[\"irq\", 3000], [\"user\", {late_ns}]], "))
            .collect();
        let line =
            format!("[[line]]\nservice = \"{service}\"\nroute = \"direct\"\nsteps = [{steps}]\n");
        script.push_str(&line);
    }
    must_record(&dir.join("r.laggard"), &script, &["--duration=150s"]);
    let segments = fs::read_dir(dir.join("r.laggard/samples")).unwrap();
    assert_eq!(segments.count(), 5);
}

#[test]
fn the_same_bytes_in_give_the_same_bytes_out_with_any_number_of_threads() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    let tasks = "[[task]]\nname = \"t\"\nperiod = \"5ms\"\ncompute = \"1ms\"\ndeadline = \"5ms\"\nservice = \"fifo:90\"\ncpu = 0\n";
    fs::write(dir.path().join("tasks.toml"), tasks).unwrap();
    for command in [
        "qos r.laggard --json --buffers 2 --buffer 1ms --compute 600us",
        "forecast r.laggard --json --usage=8,5,500",
        "sched r.laggard --json --tasks tasks.toml",
        "show r.laggard --json",
        "show r.laggard",
        "show r.laggard --by minute",
        "report r.laggard --markdown",
        "report r.laggard --figure time -o out.svg",
    ] {
        let say = |threads: usize| {
            let output = laggard()
                .args(command.split(' '))
                .current_dir(dir.path())
                .env("LAGGARD_THREADS", threads.to_string())
                .output()
                .unwrap();
            (output, fs::read(dir.path().join("out.svg")).ok())
        };
        let first = say(1);
        assert!(
            matches!(first.0.status.code(), Some(0 | 1)) && first.0.stderr.is_empty(),
            "{command}: {:?}",
            first.0
        );
        for threads in [2, 8] {
            assert!(say(threads) == first, "{command}, {threads} threads");
        }
    }
    where_no_thread_can_be_had(dir.path());
}

/// The number of threads cannot be limited for root. Therefore the memory for stacks is limited.
fn where_no_thread_can_be_had(dir: &Path) {
    let show = |stack: Option<&str>| {
        let mut command = laggard();
        command.args(["show", "r.laggard"]).current_dir(dir);
        command.env("LAGGARD_THREADS", "4");
        if let Some(bytes) = stack {
            command.env("RUST_MIN_STACK", bytes);
        }
        command.output().unwrap()
    };

    let without = show(Some("140737488355328"));

    assert!(without == show(None), "{without:?}");
}
