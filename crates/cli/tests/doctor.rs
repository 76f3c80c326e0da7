//! What can be measured here, and what a recording says of it.

use serde_json::Value;
use tempfile::TempDir;

mod scripted;

use scripted::{laggard, stalled};

#[test]
fn json_says_what_the_text_says_with_the_same_exit_code() {
    let text = laggard().arg("doctor").output().unwrap();
    let json = laggard().args(["doctor", "--json"]).output().unwrap();

    let said = String::from_utf8(text.stdout).unwrap();
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(text.status.code(), json.status.code());
    let missing = report["missing"].as_u64().unwrap();
    assert_eq!(json.status.code(), Some(i32::from(missing > 0)));
    // Lines are broken at the width of a terminal.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = |text: &Value| {
        text.as_str()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    for ability in report["abilities"].as_array().unwrap() {
        assert!(said.contains(&told(&ability["name"])), "{ability}");
    }
    for row in report["audio"].as_array().unwrap() {
        assert!(said.contains(&told(&row["what"])), "{row}\n{said}");
        assert_eq!(row["effect"], Value::Null, "{row}");
        assert_eq!(row["is_met"] == false, row["advice"].is_string(), "{row}");
    }
    for caveat in report["caveats"].as_array().unwrap() {
        assert!(caveat["advice"].is_string(), "{caveat}");
    }
}

#[test]
fn a_recording_that_cannot_tell_of_an_effect_says_why() {
    let dir = stalled();

    let output = laggard()
        .args(["doctor", "r.laggard", "--json"])
        .current_dir(dir.path())
        .output()
        .unwrap();

    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["recording"], "r.laggard");
    for row in report["audio"].as_array().unwrap() {
        // A script has no evidence of who made it late.
        assert_eq!(row["effect"]["seen"], "unknown", "{row}");
        assert!(row["effect"]["why"].is_string(), "{row}");
    }
}

#[test]
fn a_recording_that_is_not_there_is_an_error() {
    let dir = TempDir::new().unwrap();

    let output = laggard()
        .args(["doctor", "none.laggard"])
        .current_dir(dir.path())
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("none.laggard"), "{said}");
}
