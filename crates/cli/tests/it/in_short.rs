//! Short answers: the main sentence comes first, followed by its reasons, in 80 columns.

use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, ask, must_record, run, script, stall};

/// Records a minute with `stalls` stalls of 40 ms.
fn recorded(dir: &TempDir, stalls: u64) {
    let stalls: String = (0..stalls)
        .map(|index| stall((1_000 + 7_123 * index) * 1_000_000 + 500_000, 40_000_000))
        .collect();
    let script = script(1_000_000, &stalls);
    must_record(&dir.path().join("r.laggard"), &script, &["--duration=60s"]);
}

/// The lines that are printed in the recording's folder.
fn lines_of(dir: &TempDir, words: &str) -> Vec<String> {
    let output = run(dir.path(), words);
    assert!(output.stderr.is_empty(), "{words}: {output:?}");
    let text = output.text();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{words}: {line}");
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn qos_of_an_application_fits_in_fourteen_lines() {
    let buffers = "qos r.laggard --buffers=3 --buffer=6ms --compute=1.5ms";
    for (stalls, sentence) in [
        (8, "NOT FIT  `application` as SCHED_FIFO 90: 1 xrun per "),
        (
            0,
            "UNKNOWN  `application` as SCHED_FIFO 90: no xrun in the recording; at most 1 per",
        ),
    ] {
        let dir = TempDir::new().unwrap();
        recorded(&dir, stalls);

        let lines = lines_of(&dir, buffers);

        assert!(lines[0].starts_with(sentence), "{lines:#?}");
        assert!(lines.len() <= 14, "{lines:#?}");
        let text = lines.join(" ");
        for part in [
            "NOT a measurement",
            "may start up to 10.5 ms late",
            "--curve",
            "had no xrun in the recording",
        ] {
            text.assert_has(part);
        }
    }
}

#[test]
fn qos_without_an_application_has_a_line_for_each_of_a_few() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, 8);

    let lines = lines_of(&dir, "qos r.laggard");

    let line_of = |name: &str| lines.iter().find(|line| line.starts_with(name)).unwrap();
    assert!(line_of("jack-128 ").contains("NOT FIT"), "{lines:#?}");
    // The slack of the application is longer than any stall.
    assert!(line_of("sdr ").contains("UNKNOWN"), "{lines:#?}");
    assert!(lines.len() <= 16, "{lines:#?}");
}

/// Returns the script of a thread with this service. One wakeup in `one_in` is late by 1 ms more.
fn thread(service: &str, one_in: usize) -> String {
    let early = r#"[["irq", 14000], ["waking", 640], ["user", 4211]], "#.repeat(one_in - 1);
    format!(
        "[[line]]\nservice = \"{service}\"\nroute = \"direct\"\n\
         steps = [{early}[[\"irq\", 14000], [\"waking\", 1000640], [\"user\", 4211]]]\n"
    )
}

/// Returns laggard's answer as JSON.
fn answer(dir: &TempDir, words: &[&str]) -> serde_json::Value {
    ask(dir, &[words, &["r.laggard", "--json"]].concat()).json()
}

/// Applications are run by different services: each by its own, or by the nearest
/// that was recorded.
#[test]
fn qos_and_the_first_screen_never_disagree() {
    let answers_of = |services: &[(&str, usize)], rest: &str| {
        let lines: String = services
            .iter()
            .map(|service| thread(service.0, service.1))
            .collect();
        format!("period_ns = 1000000\n{lines}{rest}")
    };
    let stalls: String = (0..6)
        .map(|index| stall((1_000 + 3_123 * index) * 1_000_000 + 500_000, 40_000_000))
        .collect();
    let softirq = "[[line]]\nservice = \"softirq\"\nroute = \"direct\"\n\
                   steps = [[[\"irq\", 2100], [\"raise\", 300], [\"softirq\", 900]]]\n";
    let mut seen_unfailing = 0;
    for script in [
        answers_of(&[("fifo:90", 5_000), ("fifo:50", 50), ("other", 3)], ""),
        answers_of(&[("fifo:90", 5_000), ("other", 3)], &stalls),
        answers_of(&[("other", 9)], ""),
        answers_of(&[("fifo:50", 4_000)], ""),
        format!("period_ns = 1000000\n{softirq}"),
    ] {
        let dir = TempDir::new().unwrap();
        let duration = ["--duration=20s"];
        must_record(&dir.path().join("r.laggard"), &script, &duration);

        let shown = answer(&dir, &["show"]);
        let fits = shown["overviews"][0]["fits"].as_array().unwrap();
        let lines = lines_of(&dir, "qos r.laggard");

        for fit in fits {
            let name = fit["application"]["name"].as_str().unwrap();
            let answer = answer(&dir, &["qos", "--app", name]);
            let services = answer["loads"][0]["services"].as_array().unwrap();
            let own: Vec<_> = services
                .iter()
                .filter(|service| service["is_own"] == true)
                .collect();
            assert_eq!(own.len(), 1, "{name}: {services:#?}");
            for field in ["service", "route", "verdict"] {
                assert_eq!(own[0][field], fit[field], "{field} of {name} in\n{script}");
            }
            assert_eq!(own[0]["outlook"], fit["figures"], "{name}");
            // With this resolution, no recording decides.
            let is_coarse = fit["figures"]["failures"].is_null();
            assert!(
                !is_coarse || fit["decided_by_ns"].is_null(),
                "{name}: {fit}"
            );
            let sentence = lines_of(&dir, &format!("qos r.laggard --app {name}")).join(" ");
            let unfailing = fit["unfailing"]["buffers"].as_u64();
            assert_eq!(
                sentence.contains(" had no xrun in the recording"),
                unfailing.is_some(),
                "{name}: {fit}\n{sentence}"
            );
            if let Some(buffers) = unfailing {
                let answers_of = format!("{buffers} buffers (");
                assert!(sentence.contains(&answers_of), "{name}: {sentence}");
                seen_unfailing += 1;
            }
            let row = lines
                .iter()
                .find(|line| line.starts_with(&format!("{name} ")));
            let verdict = match fit["verdict"].as_str().unwrap() {
                "fit" => " FIT ",
                "not_fit" => " NOT FIT ",
                _ => " UNKNOWN ",
            };
            assert!(
                row.is_none_or(|row| row.contains(verdict)),
                "{row:?}: {verdict}"
            );
        }
        let has_thread = !script.contains(softirq);
        assert_eq!(fits.is_empty(), !has_thread, "{fits:?}");
        let why = &shown["overviews"][0]["missing_fits"];
        assert_eq!(why.is_null(), has_thread, "{why}");
        if !has_thread {
            let message = lines_of(&dir, "qos r.laggard --app jack-128");
            let sentence = "UNKNOWN  `jack-128`: no recorded thread could run it";
            assert_eq!(message[0], sentence);
        }
    }
    assert!(seen_unfailing > 0);
}

#[test]
fn sched_first_names_the_task_that_misses() {
    let tasks = "permitted = \"5s\"\n\
                 [[task]]\nname = \"loop\"\nperiod = \"30ms\"\ncompute = \"5ms\"\n\
                 [[task]]\nname = \"slow\"\nperiod = \"400ms\"\ncompute = \"40ms\"\n";
    for (stalls, sentence) in [
        (
            8,
            "NOT SCHEDULABLE  `loop` misses its deadline (1 of 2 tasks)",
        ),
        (0, "SCHEDULABLE  all 2 tasks meet their deadlines"),
    ] {
        let dir = TempDir::new().unwrap();
        recorded(&dir, stalls);
        std::fs::write(dir.path().join("tasks.toml"), tasks).unwrap();

        let lines = lines_of(&dir, "sched r.laggard --tasks tasks.toml");

        assert_eq!(lines[0], sentence, "{lines:#?}");
        assert!(lines.len() <= 16, "{lines:#?}");
    }
}
