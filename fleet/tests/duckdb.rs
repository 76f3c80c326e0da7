//! Another engine gives the same answers to the program's queries.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

mod stores;

use stores::{json, made, text};

/// Runs a script, and writes the result of each query: rows as lists of numbers and texts. `DuckDB`'s
/// decimal numbers become numbers here.
const DUCKDB: &str = "\
import duckdb, json, sys
from decimal import Decimal
number = lambda value: float(value) if isinstance(value, Decimal) else value
queries = [query for query in open(sys.argv[1]).read().split(';\\n') if query.strip()]
database = duckdb.connect()
answers = []
for query in queries:
    result = database.execute(query)
    if query.lstrip().startswith('CREATE VIEW'):
        continue
    names = [column[0] for column in result.description]
    rows = [[number(value) for value in row] for row in result.fetchall()]
    answers.append({'query': query, 'names': names, 'rows': rows})
json.dump(answers, sys.stdout)
";

/// Formats a row so that it does not depend on the last digits of a double, or on whether an engine
/// returns 1 or 1.0 for a sum.
fn alike(row: impl Iterator<Item = Value>) -> String {
    let cells: Vec<String> = row
        .map(|cell| match cell.as_f64() {
            Some(number) => format!("{number:.9e}"),
            None => cell.to_string(),
        })
        .collect();
    cells.join(" ")
}

fn python() -> Option<String> {
    let python = std::env::var("LAGGARD_PYTHON").unwrap_or_else(|_| "python3".into());
    let has = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: `{python}` has no duckdb (pip install duckdb; LAGGARD_PYTHON names another)"
        );
        return None;
    }
    Some(python)
}

/// Returns `DuckDB`'s results of the queries behind `question`.
fn answers(python: &str, store: &Path, question: &[&str]) -> Vec<Value> {
    let script = text(store, &[question, &["--show-sql"]].concat());
    let file = store.join("script.sql");
    std::fs::write(&file, &script).unwrap();
    let output = Command::new(python)
        .args(["-c", DUCKDB])
        .arg(&file)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{question:?}: {stderr}\n{script}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn duckdb_gives_the_same_result_for_every_query() {
    let Some(python) = python() else { return };
    let store = made(40, 3, 60);
    let mut rows_seen = 0;

    for question in [
        &["summary"][..],
        &["summary", "--by=kernel,build,load"],
        &["worst", "--limit=1400us"],
        &["worst", "--order=p999", "--top=500"],
        &["worst", "--order=largest", "--since=2020-01-01"],
        &["changed", "--limit=1400us"],
        &["causes"],
        &["show", "host-0"],
    ] {
        let theirs = answers(&python, store.path(), question);
        assert!(!theirs.is_empty(), "{question:?}");
        for answer in theirs {
            let query = answer["query"].as_str().unwrap().trim();
            let names = answer["names"].as_array().unwrap();
            let ours = json(store.path(), &["sql", query], 0);
            let rows = |answer: &Value| answer["rows"].as_array().unwrap().clone();
            let in_order = |row: &Value| -> Vec<Value> {
                let cell = |name: &Value| row[name.as_str().unwrap()].clone();
                names.iter().map(cell).collect()
            };
            let mut our_rows: Vec<String> = rows(&ours)
                .iter()
                .map(|row| alike(in_order(row).into_iter()))
                .collect();
            let mut their_rows: Vec<String> = rows(&answer)
                .iter()
                .map(|row| alike(row.as_array().unwrap().iter().cloned()))
                .collect();
            our_rows.sort();
            their_rows.sort();

            assert_eq!(our_rows, their_rows, "{question:?}: {query}");
            rows_seen += our_rows.len();
        }
    }
    println!("{rows_seen} rows are the same");
    assert!(rows_seen > 100, "{rows_seen}");
}
