//! The JSON of `compare` and `check` for recordings whose every latency is known,
//! kept in `snapshots/`; and that a page of `compare` has the same figures.
//! `cargo insta review` after a change that is meant.

use std::fs;
use std::process::Output;

use serde_json::{Number, Value};
use tempfile::TempDir;

mod scripted;

use scripted::{laggard, often, record};

/// Four recordings of 30 s of each side: one activation in 2,000, and in 250, is
/// 4 ms late.
fn sides() -> TempDir {
    let dir = TempDir::new().unwrap();
    for (letter, of) in [("a", 2_000), ("b", 250)] {
        let script = format!("period_ns = 1000000\n{}", often(of));
        for number in 1..=4 {
            let name = dir.path().join(format!("{letter}{number}"));
            record(&name, &script, &["--duration=30s", "--no-dither"])
                .assert()
                .success();
        }
    }
    dir
}

fn ask(dir: &TempDir, words: &[&str]) -> Output {
    laggard()
        .current_dir(dir.path())
        .args(words)
        .output()
        .unwrap()
}

/// What does not depend on when and where, and numbers to six digits: the last
/// ones are those of the system's mathematics.
fn lasting(output: &Output) -> String {
    let mut found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {output:?}"));
    for (key, instead) in [("host", "(a machine)"), ("recorded_at", "(a time)")] {
        if let Some(value) = found.get_mut(key) {
            *value = instead.into();
        }
    }
    round(&mut found);
    // Of a machine: they are told, and are not of what was recorded.
    for key in ["notes", "differing"] {
        if let Some(list) = found.get_mut(key) {
            assert!(list.is_array(), "{key}");
            *list = "(of a machine)".into();
        }
    }
    serde_json::to_string_pretty(&found).unwrap()
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = format!("{:.5e}", number.as_f64().unwrap());
            *value = Number::from_f64(rounded.parse().unwrap()).unwrap().into();
        }
        Value::Array(all) => all.iter_mut().for_each(round),
        Value::Object(all) => all.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const COMPARE: [&str; 10] = [
    "compare", "a1", "a2", "a3", "a4", "--with", "b1", "b2", "b3", "b4",
];

#[test]
fn the_json_of_compare_and_of_check() {
    let dir = sides();
    let requirements = "[[require]]\nname = \"loop\"\nservice = \"fifo:90\"\n\
                        at_most = \"3500us\"\nshare = 1e-2\n\
                        [[require]]\nservice = \"fifo:90\"\nlevel = \"1ms\"\nper = \"hour\"\n\
                        [[require]]\nservice = \"fifo:90\"\nnot_worse_than = 1.25\n";
    fs::write(dir.path().join("r.toml"), requirements).unwrap();

    let compared = ask(&dir, &[&COMPARE[..], &["--json"]].concat());
    let checked = ask(
        &dir,
        &[
            "check",
            "b1",
            "b2",
            "b3",
            "b4",
            "--require",
            "r.toml",
            "--baseline",
            "a1",
            "a2",
            "a3",
            "a4",
            "--json",
        ],
    );

    assert_eq!(compared.status.code(), Some(0));
    assert_eq!(checked.status.code(), Some(1));
    insta::assert_snapshot!(lasting(&compared));
    insta::assert_snapshot!(lasting(&checked));
}

/// The texts of the cells of a page's tables, row by row.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.split("<tr>").skip(1);
    let row = |row: &str| -> Vec<String> {
        let row = row.split("</tr>").next().unwrap();
        let cells = row.split("<td").skip(1);
        let cell = |cell: &str| {
            let text = cell.split_once('>').unwrap().1;
            text.split("</td>").next().unwrap().replace("&gt;", ">")
        };
        cells.map(cell).collect()
    };
    rows.map(row).filter(|row| !row.is_empty()).collect()
}

/// What a cell says: `12 s` in ns, `8.1` as it is.
fn figure(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let scale = match unit {
        "" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 6e10,
        "h" => 3.6e12,
        other => panic!("{other} in {text}"),
    };
    number.parse::<f64>().unwrap() * scale
}

/// Two digits are off by a twentieth at most.
fn assert_alike(cell: &str, json: f64) {
    let told = figure(cell);
    assert!((told / json - 1.0).abs() <= 0.05, "{cell} is not {json}");
}

#[test]
fn the_page_of_compare_has_the_figures_of_its_json() {
    let dir = sides();
    let at = ["--at=1ms,2ms"];
    let json = ask(&dir, &[&COMPARE[..], &at, &["--json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();

    let written = ask(&dir, &[&COMPARE[..], &at, &["-o", "c.html"]].concat());

    assert_eq!(written.status.code(), Some(0), "{written:?}");
    assert_eq!(
        String::from_utf8_lossy(&written.stdout),
        "Wrote c.html; open it in a browser\n"
    );
    let page = fs::read_to_string(dir.path().join("c.html")).unwrap();
    let services = json["services"].as_array().unwrap();
    assert_eq!(page.matches("<figure>").count(), services.len());
    let rows = rows(&page);
    let mut compared = 0;
    for service in services {
        let name = service["service"].as_str().unwrap();
        let of_service = |cells: usize| {
            let rows = rows.iter().filter(move |row| row.len() == cells);
            rows.filter(move |row| row[0] == name)
        };
        // The largest seen is behind them.
        let quantiles = service["quantiles"].as_array().unwrap();
        assert_eq!(of_service(5).count(), quantiles.len() + 1, "{rows:?}");
        for (row, quantile) in of_service(5).zip(quantiles) {
            assert_alike(&row[2], quantile["first_ns"].as_f64().unwrap());
            assert_alike(&row[3], quantile["second_ns"].as_f64().unwrap());
        }
        let of_service = of_service(6);
        let levels = service["levels"].as_array().unwrap();
        assert_eq!(of_service.clone().count(), levels.len(), "{rows:?}");
        for (row, level) in of_service.zip(levels) {
            let [_, at, a, b, ratio, verdict] = &row[..] else {
                panic!("{row:?}");
            };
            assert_alike(at, level["level_ns"].as_f64().unwrap());
            for (cell, side) in [(a, &level["first"]), (b, &level["second"])] {
                let clusters = side["clusters"].as_f64().unwrap();
                match clusters > 0.0 {
                    true => assert_alike(cell, side["exposure_ns"].as_f64().unwrap() / clusters),
                    false => assert_eq!(cell, "never"),
                }
            }
            let told: Vec<&str> = ratio.split([' ', '[', ',', ']']).collect();
            let told: Vec<&str> = told.into_iter().filter(|word| !word.is_empty()).collect();
            let known = ["ratio", "ratio_low", "ratio_high"].map(|key| level[key].as_f64());
            if let [Some(ratio), Some(low), Some(high)] = known {
                assert_eq!(told.len(), 3, "{row:?}");
                for (cell, json) in told.into_iter().zip([ratio, low, high]) {
                    assert_alike(cell, json);
                }
                compared += 1;
            }
            let said = level["change"]["verdict"].as_str().unwrap();
            let word = match said {
                "equivalent" => "equal",
                "unclear" => "~",
                other => other,
            };
            assert!(verdict.starts_with(word), "{row:?} {level}");
        }
    }
    assert!(compared >= 2, "{rows:?}");
}

#[test]
fn the_page_of_compare_is_not_written_where_it_cannot_be() {
    let dir = sides();

    let output = ask(&dir, &[&COMPARE[..], &["-o", "none/c.html"]].concat());

    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("write the page `none/c.html`"), "{said}");
}
