//! Recordings with missing trace data: every screen warns, and no total is below the max.

use std::fs;
use std::path::Path;

use laggard_made::{Made, late};
use laggard_model::{RowsOf, Stage};
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, ask, run};

const EPISODES: &str = "episodes-000001.jsonl.zst";

/// Writes a recording with 9 late wakeups of 2 ms and the maximum of 8 ms.
fn record(dir: &Path, rows: RowsOf, seed: u64) {
    let mut made = Made::new(&late::manifest().lines)
        .served(0, 5_000, &[(Stage::Irq, 2_000), (Stage::User, 16_000)])
        .served(0, 1, &[(Stage::Irq, 2_000), (Stage::User, 8_000_000)]);
    made.manifest.plan.rows = rows;
    made.manifest.plan.seed = seed;
    let episodes: Vec<_> = (1..10).map(late::episode).collect();
    made.record_with(dir, &episodes, &late::notes());
}

fn output(dir: &TempDir, words: &[&str]) -> String {
    let output = ask(dir, words);
    format!("{} {}", output.words(), output.error_words())
}

/// Damages the file of the late wakeups.
type Damage = fn(&Path);

const DAMAGES: [(&str, Damage); 3] = [
    ("removed", |file| fs::remove_file(file).unwrap()),
    ("cut", |file| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("emptied", |file| fs::write(file, []).unwrap()),
];

#[test]
fn missing_trace_data_is_a_warning_on_every_screen() {
    for rows in [RowsOf::Expiries, RowsOf::Activations] {
        for (name, damage) in DAMAGES {
            let dir = TempDir::new().unwrap();
            record(&dir.path().join("r"), rows, 1);
            record(&dir.path().join("whole"), rows, 2);
            let whole = output(&dir, &["show", "whole"]);
            assert!(!whole.contains("trace data of"), "{name}: {whole}");
            assert!(!whole.contains("(>= "), "{name}: {whole}");

            damage(&dir.path().join("r").join(EPISODES));

            for words in [&["show", "r"][..], &["show", "r", "whole"]] {
                let text = output(&dir, words);
                assert!(text.contains("WARNING"), "{name} {words:?}: {text}");
                assert!(
                    text.contains("of 9 late wakeups is missing") || text.contains("is damaged"),
                    "{name} {words:?}: {text}"
                );
            }
            for words in [&["show", "r", "--all"], &["why", "r", "--all"]] {
                let text = output(&dir, words);
                assert!(
                    text.contains("of 9 late wakeups is missing"),
                    "{name} {words:?}: {text}"
                );
            }
        }
    }
}

/// Losses and warnings of the end are unknown then.
#[test]
fn damaged_manifest_is_not_trustworthy() {
    let dir = TempDir::new().unwrap();
    record(&dir.path().join("r"), RowsOf::Expiries, 1);
    let code = |words: &str| run(dir.path(), words).status.code();
    assert_eq!(code("show r"), Some(0));

    fs::write(dir.path().join("r/manifest.json"), "{").unwrap();

    for words in [
        "show r",
        "show r --all",
        "show r --intervals",
        "show r --json",
        "qos r",
    ] {
        let output = run(dir.path(), words);

        assert_eq!(output.status.code(), Some(3), "{words}: {}", output.text());
    }
    let text = run(dir.path(), "show r").words();
    text.assert_has("manifest.json cannot be used");
}

#[test]
fn total_of_late_wakeups_is_at_least_the_max() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    record(&path, RowsOf::Expiries, 1);
    let total = |dir: &TempDir| {
        let output = run(dir.path(), "show r --json");
        let report: serde_json::Value = output.json();
        let late = &report["overviews"][0]["late"];
        let number = |key: &str| late[key].as_u64().unwrap();
        (number("total_ns"), late["is_incomplete"] == true)
    };
    assert!(total(&dir).0 >= 8_000_000);
    assert!(!total(&dir).1);

    // Only the first of the late wakeups is left.
    let packed = zstd::bulk::compress(
        format!("{}\n", serde_json::to_string(&late::episode(1)).unwrap()).as_bytes(),
        1,
    );
    fs::write(path.join(EPISODES), packed.unwrap()).unwrap();

    assert!(total(&dir).0 >= 8_000_000, "{:?}", total(&dir));
    assert!(total(&dir).1);
    let text = output(&dir, &["why", "r"]);
    text.assert_has(">= 2 late wakeups");
}
