//! Scripted truth compared with the answers of `qos`, `forecast` and `sched`.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{
    self, Printed as _, Texts as _, in_one_line, laggard, must_record, script, service, stall,
};

/// The stalls of a recording: (start, length), ms.
fn recorded(dir: &TempDir, seconds: u64, stalls: &[(u64, u64)]) {
    let stalls: String = stalls
        .iter()
        .map(|(start, length)| stall(start * 1_000_000 + 500_000, length * 1_000_000))
        .collect();
    must_record(
        &dir.path().join("r.laggard"),
        &script(1_000_000, &stalls),
        &[&format!("--duration={seconds}s")],
    );
}

fn ask(dir: &TempDir, command: &str, args: &[&str]) -> Output {
    scripted::ask(dir, &[&[command, "r.laggard"], args].concat())
}

const BUFFERS: [&str; 4] = ["--buffers=3", "--buffer=6ms", "--compute=1.5ms", "--json"];

/// In a stall of 40 ms, all due buffers are lost. Buffers of 6 ms with 5 ms of work each reduce the
/// backlog by 1 ms per buffer.
#[test]
fn policy_after_a_miss_decides_the_number_of_lost_buffers() {
    let dir = TempDir::new().unwrap();
    let long = (0..8).map(|k| (1_000 + 7_123 * k, 40));
    recorded(&dir, 60, &long.collect::<Vec<_>>());
    let buffers = ["--buffers=3", "--buffer=6ms", "--compute=5ms"];
    let with_policy = |policy: &[&str]| {
        let report = ask(&dir, "qos", &[&buffers, policy, &["--json"]].concat()).json();
        let fifo = service(&report["loads"][0], "fifo:90")["outlook"].clone();
        let late = fifo["late_per_hour"].as_f64().unwrap() / 60.0 / 8.0;
        (report["application"]["policy"].clone(), fifo, late)
    };

    let (named, plain, late) = with_policy(&[]);
    let (_, same, _) = with_policy(&["--policy=late"]);
    let (dropped, _, given_up) = with_policy(&["--policy=drop"]);
    let (reset, _, anew) = with_policy(&["--policy=reset"]);

    assert_eq!((&named, &plain), (&Value::Null, &same));
    assert_eq!((dropped, reset), ("drop".into(), "reset".into()));
    // Some 35 buffers until the backlog is gone, seven that were due in the stall,
    // and one or two behind these.
    assert!((25.0..40.0).contains(&late), "{late}");
    assert!((4.0..9.0).contains(&given_up), "{given_up}");
    assert!((4.0..10.0).contains(&anew), "{anew}");

    let text = ask(&dir, "qos", &[&buffers[..], &["--policy=drop"]].concat()).text();
    let message = in_one_line(&text);
    message.assert_has("the buffer is dropped at its deadline");
    let wrong = ask(&dir, "qos", &["--policy=later"]);
    let stderr = wrong.errors();
    stderr.assert_has("possible values: late, drop, reset");
}

#[test]
fn every_stall_beyond_the_slack_is_one_failure_and_the_others_are_none() {
    let dir = TempDir::new().unwrap();
    let long = (0..8).map(|k| (1_000 + 7_123 * k, 40));
    let short = (0..8).map(|k| (4_000 + 7_123 * k, 5));
    recorded(&dir, 60, &long.chain(short).collect::<Vec<_>>());

    let report = ask(&dir, "qos", &BUFFERS).json();

    let fifo = &service(&report["loads"][0], "fifo:90")["outlook"];
    assert_eq!(report["application"]["slack_ns"], 10_500_000);
    assert_eq!(fifo["failures"], 8.0);
    let mttf = fifo["mttf_ns"].as_f64().unwrap();
    assert!((mttf / 7.5e9 - 1.0).abs() < 0.01, "{mttf}");
    let (low, high) = (&fifo["mttf_low_ns"], &fifo["mttf_high_ns"]);
    assert!(low.as_f64().unwrap() < mttf && mttf < high.as_f64().unwrap());
    // A stall of 40 ms makes floor((40 - 10.5 - U) / 4.5) + 1 buffers late.
    let late = fifo["late_per_hour"].as_f64().unwrap() / 60.0 / 8.0;
    assert!((5.0..=7.0).contains(&late), "{late}");
}

#[test]
fn rate_without_a_failure_is_bounded_by_the_recording_time() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, 60, &[(30_000, 4)]);

    let report = ask(&dir, "qos", &BUFFERS).json();

    let fifo = service(&report["loads"][0], "fifo:90");
    assert_eq!(fifo["outlook"]["mttf_ns"], Value::Null);
    let low = fifo["outlook"]["mttf_low_ns"].as_f64().unwrap();
    assert!((low / (60e9 / 2.9957) - 1.0).abs() < 0.01, "{low}");
    for goal in fifo["needed"].as_array().unwrap() {
        assert_eq!(goal["surely"], Value::Null, "{goal}");
        assert!(goal["record_ns"].as_f64().unwrap() > 3e12, "{goal}");
    }
}

#[test]
fn very_many_buffers_end_and_very_short_ones_are_refused_with_the_limit() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, 60, &[(10_000, 40), (30_000, 90)]);

    let many = ["--buffers=5000", "--buffer=6ms", "--compute=1ms", "--json"];
    let report = ask(&dir, "qos", &many).json();

    let curve = service(&report["loads"][0], "fifo:90")["curve"]
        .as_array()
        .unwrap();
    assert_eq!((curve.len(), &curve[63]["buffers"]), (64, &5_000.into()));
    for short in ["--buffer=1ns", "--buffer=10us"] {
        let refused = ask(&dir, "qos", &["--buffers=2", short, "--compute=0ns"]);
        let text = refused.errors();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        text.assert_has("the shortest for these recordings is `--buffer ");
        // And that is accepted.
        let limit = text
            .split("`--buffer ")
            .nth(1)
            .unwrap()
            .split('`')
            .next()
            .unwrap();
        let accepted = ask(
            &dir,
            "qos",
            &["--buffers=2", "--buffer", limit, "--compute=0ns"],
        );
        assert!(accepted.status.success(), "{limit}: {accepted:?}");
    }
    let refused = ask(
        &dir,
        "qos",
        &["--buffers=100000", "--buffer=6ms", "--compute=1ms"],
    );
    let text = refused.errors();
    text.assert_has("the limit of `--buffers` is 65536");
}

#[test]
fn forecast_of_a_short_recording_states_how_long_to_record() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, 30, &[(10_000, 4), (20_000, 7)]);

    let output = ask(&dir, "forecast", &["--json", "--horizon=hour,week"]);
    let report = output.json();

    assert_eq!(output.status.code(), Some(1), "no level is known");
    let fifo = service(&report["loads"][0], "fifo:90");
    let largest = fifo["largest_ns"].as_u64().unwrap();
    assert_eq!(largest, 6_500_000 + 18_851);
    let cells = fifo["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert_eq!(cell["method"], "refused", "{cell}");
        assert!(!cell["reasons"].as_array().unwrap().is_empty(), "{cell}");
    }
    let needed = cells[0]["record_without_model_ns"].as_f64().unwrap();
    assert!((needed / (3.6889 * 3.6e12) - 1.0).abs() < 1e-3, "{needed}");
    // The probability and the bounds do not need a model: 3,600 s of 3,630 s and 168 h.
    let ahead = &cells[0]["ahead"];
    let chance = ahead["new_largest"].as_f64().unwrap();
    assert!((chance - 3_600.0 / 3_630.0).abs() < 1e-4, "{chance}");
    for (share, needed) in ahead["stays_below"]
        .as_array()
        .unwrap()
        .iter()
        .zip([1.0, 9.0])
    {
        assert_eq!(share["bound_ns"], Value::Null, "{share}");
        let record = share["record_ns"].as_f64().unwrap() / 3.6e12;
        assert!((record - needed).abs() < 1e-9, "{share}");
    }
    let limits = report["loads"][0]["limits"].as_array().unwrap();
    let length = limits.last().unwrap();
    assert_eq!(
        (&length["limit"], &length["horizon"]),
        (&"length".into(), &"hour".into())
    );
    let (more, halved) = (length["more_ns"].as_f64().unwrap() / 1e9, chance / 2.0);
    assert!(
        (3_600.0 / (30.0 + more + 3_600.0) - halved).abs() < 1e-3,
        "{more}"
    );
}

#[test]
fn forecast_fits_a_screen_and_lists_the_reasons_in_all() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, 30, &[(10_000, 4), (20_000, 7)]);
    let stdout = |args: &[&str]| ask(&dir, "forecast", args).text();

    let (short, full) = (stdout(&[]), stdout(&["--all"]));

    assert!(short.lines().count() <= 24, "{short}");
    short.assert_lacks("refused");
    // Two bounds of the hour, and the next step.
    assert_eq!(short.matches("record ").count(), 3, "{short}");
    let path = dir.path().to_str().unwrap();
    let wide = |line: &&str| line.chars().count() > 80 && !line.contains(path);
    assert_eq!(short.lines().find(wide), None);
    short.assert_has("halves the 99.2 % chance");
    assert!(full.contains("\n(a) ") && !short.contains("(a) "), "{full}");
}

/// Blocks last 1 s or longer.
#[test]
fn forecast_has_no_bound_of_spans_that_are_shorter_than_a_block() {
    for (seconds, expected) in [
        (
            18,
            "half of all spans of 18.0 s and 9 of 10 spans of 2.00 s stay",
        ),
        (4, "half of all spans of 4.00 s stay"),
    ] {
        let dir = TempDir::new().unwrap();
        recorded(&dir, seconds, &[(1_000, 4), (2_000, 7)]);

        let stdout = ask(&dir, "forecast", &[]).text();

        let words: Vec<&str> = stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(expected), "{stdout}");
    }
}

#[test]
fn recording_several_horizons_takes_no_model_and_holds_the_true_level() {
    let dir = TempDir::new().unwrap();
    // Peaks of 3 to 22 ms, one every 3 s in an irregular order.
    let stalls: Vec<(u64, u64)> = (0..20)
        .map(|k| (1_000 + 2_800 * k + 37 * (k * k % 11), 3 + k * 7 % 20))
        .collect();
    recorded(&dir, 60, &stalls);

    // An hour of use is 7.2 s of this recording: 8.3 horizons.
    let output = ask(
        &dir,
        "forecast",
        &["--json", "--horizon=hour", "--usage=8,5,500"],
    );
    let report = output.json();
    assert_eq!(output.status.code(), Some(0));

    let cell = &service(&report["loads"][0], "fifo:90")["cells"][0];
    assert_eq!(cell["method"], "order_statistics", "{cell}");
    let level = |key: &str| cell[key].as_f64().unwrap() / 1e6;
    // 8.3 horizons: nine of ten are not bounded yet, half are.
    let bound = &cell["ahead"]["stays_below"];
    assert_eq!(bound[1]["bound_ns"], Value::Null, "{bound}");
    let half = bound[0]["bound_ns"].as_f64().unwrap() / 1e6;
    assert!(
        bound[0]["rank"].as_u64().unwrap() > 1 && (10.0..22.6).contains(&half),
        "{bound}"
    );
    // Rank 8.3 of 22, 21, 20 ... ms.
    assert!((13.0..16.0).contains(&level("level_ns")), "{cell}");
    assert!(level("low_ns") < level("level_ns") && level("level_ns") < level("high_ns"));
}

#[test]
fn a_task_set_meets_its_deadlines_until_a_stall_takes_its_slack() {
    // 20 s tell whether it misses more often than once in 5 s.
    let tasks = "permitted = \"5s\"\n\
                 [[task]]\nname = \"loop\"\nperiod = \"100ms\"\ncompute = \"20ms\"\n\
                 [[task]]\nname = \"slow\"\nperiod = \"400ms\"\ncompute = \"40ms\"\n";
    for (stall, code, verdict) in [(10, 0, "meets"), (90, 1, "misses")] {
        let dir = TempDir::new().unwrap();
        recorded(&dir, 20, &[(5_000, stall)]);
        let file = dir.path().join("tasks.toml");
        std::fs::write(&file, tasks).unwrap();

        let output = ask(
            &dir,
            "sched",
            &["--json", "--tasks", file.to_str().unwrap()],
        );
        let report = output.json();

        let task = &report["tasks"][0];
        assert_eq!(output.status.code(), Some(code), "for {stall} ms: {report}");
        assert_eq!(task["verdict"], verdict, "for {stall} ms");
        assert_eq!(task["ideal_ns"], 20e6);
        let most = task["most_ns"].as_f64().unwrap();
        let length = stall as f64 * 1e6;
        // Stall, work, and the ordinary latency: 4 ms, a 20th of the slack.
        assert!((length + 20e6..length + 27e6).contains(&most), "{most}");
    }
}

#[test]
fn commands_with_the_same_first_word_are_separate_loads() {
    let dir = TempDir::new().unwrap();
    let (first, other) = (dir.path().join("a.laggard"), dir.path().join("b.laggard"));
    for (recording, time) in [(&first, "50"), (&other, "60")] {
        let options = ["--duration=2s", "--", "sleep", time];
        must_record(recording, &script(1_000_000, ""), &options);
    }
    let text_of = |command: &str, args: &[&str]| {
        let output = laggard()
            .arg(command)
            .args([&first, &other])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output.text()
    };

    let by_load = text_of("show", &["--by=load"]);
    let beside = text_of("show", &[]);
    let markdown = text_of("report", &["--markdown"]);
    let qos = text_of("qos", &BUFFERS);

    for load in ["sleep 50", "sleep 60"] {
        by_load.assert_has(&format!("Load: {load}\n"));
        beside.assert_has(&format!("load {load},"));
        markdown.assert_has(&format!("load {load},"));
        qos.assert_has(load);
    }
}
