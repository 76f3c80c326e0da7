//! A recording of the tail answers `qos` as the whole one, or with an interval
//! that holds its answer.

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{LINE, Texts as _, laggard, must_record, often, script, stall};

/// Returns the figures of the application's own buffers for `fifo:90`, and the resolution.
fn qos(dir: &TempDir, recording: &str, buffers: &[&str]) -> (Value, Value) {
    let output = laggard()
        .args(["qos", "--json"])
        .args(buffers)
        .arg(dir.path().join(recording))
        .output()
        .unwrap();
    let report: Value = output.json();
    let services = report["loads"][0]["services"].as_array().unwrap();
    let fifo = services
        .iter()
        .find(|service| service["service"] == "fifo:90");
    let fifo = fifo.unwrap();
    (fifo["outlook"].clone(), fifo["resolution"].clone())
}

/// A recording of 60 s kept whole, and as a tail.
fn both(dir: &TempDir, script: &str) {
    for keep in ["all", "tail"] {
        must_record(
            &dir.path().join(keep),
            script,
            &["--duration=60s", &format!("--keep={keep}")],
        );
    }
}

/// Returns the lower and upper limit of the number of failures.
fn interval(figures: &Value) -> (f64, f64) {
    let exposure = figures["exposure_ns"].as_f64().unwrap();
    let least = figures["mttf_high_ns"].as_f64();
    (
        least.map_or(0.0, |most| exposure / most),
        exposure / figures["mttf_low_ns"].as_f64().unwrap(),
    )
}

#[test]
fn a_tail_gives_the_whole_recordings_failures_or_an_interval_that_holds_them() {
    // Stalls are rare: in the end p99.99 is below all of them.
    let stalls = |every: u64| -> String {
        let index = (1..=3).map(|index| stall(index * every + 500_000, 1_400_000));
        index.collect()
    };
    let full_script = |line: &str, stalls: &str| format!("period_ns = 500000\n{line}\n{stalls}");
    for (name, script) in [
        ("often", full_script(&often(1_000), "")),
        ("early", full_script(LINE, &stalls(500_000_000))),
        ("late", full_script(LINE, &stalls(16_000_000_000))),
    ] {
        let dir = TempDir::new().unwrap();
        both(&dir, &script);
        for buffers in [
            ["--buffers=2", "--buffer=1500us", "--compute=300us"],
            ["--buffers=2", "--buffer=250us", "--compute=60us"],
            ["--buffers=2", "--buffer=200ms", "--compute=20ms"],
        ] {
            let ((whole, _), (tail, resolution)) =
                (qos(&dir, "all", &buffers), qos(&dir, "tail", &buffers));

            let what = format!("{name}, {buffers:?}: {whole:#}\nfrom the tail: {tail:#}");
            let (least, most) = interval(&tail);
            if let Some(failures) = whole["failures"].as_f64() {
                assert!(least <= failures && failures <= most, "{what}");
            }
            if tail["failures"].is_null() {
                assert_ne!(resolution["kind"], "full", "{what}");
            } else {
                let of_whole = interval(&whole);
                assert!(
                    least <= of_whole.0 * 1.001 && of_whole.1 <= most * 1.001,
                    "{what}"
                );
            }
            // The histogram has all, whatever was kept.
            assert_eq!(tail["paper_mttf_ns"], whole["paper_mttf_ns"], "{what}");
        }
    }
}

#[test]
fn a_latency_that_is_always_the_same_fails_nothing() {
    let dir = TempDir::new().unwrap();
    must_record(
        &dir.path().join("r"),
        &script(1_000_000, ""),
        &["--duration=60s"],
    );

    let (figures, resolution) = qos(
        &dir,
        "r",
        &["--buffers=2", "--buffer=100us", "--compute=20us"],
    );

    // No failure was observed. The effect of a stall between two wakeups is unknown.
    let (least, most) = interval(&figures);
    assert!(least <= 0.0 && most < 200.0, "{figures:#}");
    assert_eq!(figures["failures"], Value::Null);
    assert_eq!(resolution["kind"], "too_coarse");
    assert_eq!(resolution["finer"]["period_ns"], 19_000);
}
