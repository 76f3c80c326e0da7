//! Tests of the JSON of `compare` and `check` for recordings of known latencies, with the expected
//! output in `snapshots/`. The HTML report of `compare` must have the same figures. Run `cargo
//! insta review` after an intended change.

use std::fs;
use std::process::Output;

use serde_json::{Number, Value};
use tempfile::TempDir;

use crate::scripted::{Texts as _, every, must_record, run};

/// Four recordings of 30 s of each side: one activation in 2,000, and in 250, is
/// 4 ms late.
fn sides() -> TempDir {
    let dir = TempDir::new().unwrap();
    for (letter, one_in) in [("a", 2_000), ("b", 250)] {
        let script = every(one_in);
        for number in 1..=4 {
            let name = dir.path().join(format!("{letter}{number}"));
            must_record(&name, &script, &["--duration=30s", "--no-dither"]);
        }
    }
    dir
}

/// Removes the parts that depend on the machine and the time, and rounds numbers to six digits,
/// because further digits depend on the math library.
fn lasting(output: &Output) -> String {
    let mut answer: Value = output.json();
    for (key, instead) in [("host", "(a machine)"), ("recorded_at", "(a time)")] {
        if let Some(value) = answer.get_mut(key) {
            *value = instead.into();
        }
    }
    round(&mut answer);
    // They describe the machine, not the recording.
    for key in ["notes", "differing"] {
        if let Some(list) = answer.get_mut(key) {
            assert!(list.is_array(), "{key}");
            *list = "(of a machine)".into();
        }
    }
    serde_json::to_string_pretty(&answer).unwrap()
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = format!("{:.5e}", number.as_f64().unwrap());
            *value = Number::from_f64(rounded.parse().unwrap()).unwrap().into();
        }
        Value::Array(elements) => elements.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const COMPARE: &str = "compare a1 a2 a3 a4 --with b1 b2 b3 b4";

#[test]
fn the_json_of_compare_and_of_check() {
    let dir = sides();
    let requirements = "[[require]]\nname = \"loop\"\nservice = \"fifo:90\"\n\
                        at_most = \"3500us\"\nshare = 1e-2\nlongest = \"20ms\"\n\
                        [[require]]\nservice = \"fifo:90\"\nlevel = \"1ms\"\nper = \"hour\"\n\
                        [[require]]\nservice = \"fifo:90\"\nnot_worse_than = 1.25\n";
    fs::write(dir.path().join("r.toml"), requirements).unwrap();

    let compared = run(&dir, &format!("{COMPARE} --json"));
    let checked = run(
        &dir,
        "check b1 b2 b3 b4 --require r.toml --baseline a1 a2 a3 a4 --json",
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

/// Parses a cell: `12 s` to ns, `8.1` unchanged.
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
    let figure_of_cell = figure(cell);
    assert!(
        (figure_of_cell / json - 1.0).abs() <= 0.05,
        "{cell} is not {json}"
    );
}

#[test]
fn page_of_compare_has_the_figures_of_its_json() {
    let dir = sides();
    let json: Value = run(&dir, &format!("{COMPARE} --at=1ms,2ms --json")).json();

    let written = run(&dir, &format!("{COMPARE} --at=1ms,2ms -o c.html"));

    assert_eq!(written.status.code(), Some(0), "{written:?}");
    assert_eq!(written.text(), "Wrote c.html; open it in a browser\n");
    let page = fs::read_to_string(dir.path().join("c.html")).unwrap();
    let services = json["services"].as_array().unwrap();
    assert_eq!(page.matches("<figure>").count(), services.len());
    let rows = rows(&page);
    let mut compared = 0;
    for service in services {
        let name = match service["service"].as_str().unwrap() {
            "irq" => "timer IRQ",
            "fifo:90" => "SCHED_FIFO 90",
            other => panic!("{other}"),
        };
        let of_service = |column: usize| {
            let rows = rows.iter().filter(|row| row.len() == 5);
            rows.filter(move |row| row[column] == name)
        };
        // The max follows the quantiles.
        let quantiles = service["quantiles"].as_array().unwrap();
        assert_eq!(of_service(0).count(), quantiles.len() + 1, "{rows:?}");
        for (row, quantile) in of_service(0).zip(quantiles) {
            assert_alike(&row[2], quantile["first_ns"].as_f64().unwrap());
            assert_alike(&row[3], quantile["second_ns"].as_f64().unwrap());
        }
        let of_service = of_service(1);
        let levels = service["levels"].as_array().unwrap();
        assert_eq!(of_service.clone().count(), levels.len(), "{rows:?}");
        for (row, level) in of_service.zip(levels) {
            let [verdict, _, levels, every, ratio] = &row[..] else {
                panic!("{row:?}");
            };
            let (a, b) = every.split_once(" / ").unwrap();
            assert_alike(levels, level["level_ns"].as_f64().unwrap());
            for (cell, side) in [(a, &level["first"]), (b, &level["second"])] {
                let clusters = side["clusters"].as_f64().unwrap();
                if clusters > 0.0 {
                    assert_alike(cell, side["exposure_ns"].as_f64().unwrap() / clusters)
                } else {
                    assert_eq!(cell, "never")
                }
            }
            let figures = ratio.split([' ', '(', ')']);
            let figures: Vec<&str> = figures
                .filter(|word| !matches!(*word, "" | "to" | "x"))
                .collect();
            let expected = ["ratio", "ratio_low", "ratio_high"].map(|key| level[key].as_f64());
            if let [Some(ratio), Some(low), Some(high)] = expected {
                assert_eq!(figures.len(), 3, "{row:?}");
                for (cell, json) in figures.into_iter().zip([ratio, low, high]) {
                    assert_alike(cell, json);
                }
                compared += 1;
            }
            let message = level["change"]["verdict"].as_str().unwrap();
            let word = match message {
                "equivalent" => "same",
                other => other,
            };
            assert!(verdict.starts_with(word), "{row:?} {level}");
        }
    }
    assert!(compared >= 2, "{rows:?}");
}
