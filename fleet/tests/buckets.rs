//! Reports over an object store equal reports over a directory.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

#[path = "../ship/tests/server/mod.rs"]
mod server;
mod stores;

use server::Server;
use stores::{core, made};

fn put(server: &Server, key: &str, body: &[u8]) {
    let answer = server.ask("PUT", &format!("/latency/{key}"), body);
    assert!(answer.contains(" 200 "), "{key}: {answer}");
}

/// Sends all files below a directory to this prefix of the bucket, under their names.
fn send(server: &Server, dir: &Path, prefix: &str) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let key = format!("{prefix}/{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            send(server, &path, &key);
        } else {
            put(server, &key, &fs::read(&path).unwrap());
        }
    }
}

fn run_fleet(server: &Server, catalogue: &TempDir, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard-fleet"));
    command.args(words).env("LAGGARD", core("laggard"));
    command.env("XDG_CACHE_HOME", catalogue.path());
    server.serve(&mut command);
    command.output().unwrap()
}

fn json(output: &Output, code: i32) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Removes the name of the store.
fn figures(mut answer: Value) -> Value {
    answer["of"]["store"] = Value::Null;
    answer
}

#[test]
fn bucket_and_its_source_directory_give_the_same_answer() {
    let Some(server) = Server::start() else {
        return;
    };
    let (store, cache) = (made(6, 2, 5), TempDir::new().unwrap());
    send(&server, store.path(), "fleet");
    let folder = store.path().to_str().unwrap();

    for question in ["summary", "worst", "causes"] {
        let here = run_fleet(&server, &cache, &[folder, question, "--json"]);
        let there = run_fleet(&server, &cache, &["s3://latency/fleet", question, "--json"]);

        assert_eq!(
            figures(json(&here, 0)),
            figures(json(&there, 0)),
            "{question}"
        );
    }
    // A recording that was read is not fetched again: neither missing samples nor missing
    // histograms are noticed.
    for file in ["samples/000001.parquet", "histograms-000000.parquet"] {
        assert!(
            store
                .path()
                .join("host-0/hour-000.laggard")
                .join(file)
                .is_file(),
            "{file}"
        );
    }
    let kept: Vec<_> = fs::read_dir(cache.path().join("laggard-fleet"))
        .unwrap()
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
}

#[test]
fn directory_and_bucket_form_one_answer_and_duplicates_are_listed() {
    let Some(server) = Server::start() else {
        return;
    };
    let (store, cache) = (made(4, 1, 5), TempDir::new().unwrap());
    send(&server, &store.path().join("host-0"), "fleet/host-0");
    send(&server, &store.path().join("host-1"), "fleet/host-1");
    fs::remove_dir_all(store.path().join("host-1")).unwrap();
    let folder = store.path().to_str().unwrap();
    let whole = made(4, 1, 5);

    let both = run_fleet(
        &server,
        &cache,
        &["s3://latency/fleet", "summary", "--json", "--also", folder],
    );
    let alone = run_fleet(
        &server,
        &cache,
        &[whole.path().to_str().unwrap(), "summary", "--json"],
    );

    let (both, alone) = (json(&both, 3), json(&alone, 0));
    assert_eq!(both["of"]["recordings"], alone["of"]["recordings"]);
    assert!(both["rows"].is_array());
    assert_eq!(both["rows"], alone["rows"]);
    let twice = &both["of"]["refused"];
    assert_eq!(twice.as_array().unwrap().len(), 1, "{both:#}");
    assert_eq!(twice[0]["because"], "twice");
}

#[test]
fn incomplete_or_damaged_recordings_are_listed_by_url() {
    let Some(server) = Server::start() else {
        return;
    };
    let (store, cache) = (made(3, 1, 5), TempDir::new().unwrap());
    let path_of = |name: &str| store.path().join(name);
    fs::remove_file(path_of("host-0/hour-000.laggard/manifest.json")).unwrap();
    for name in ["manifest.json", "manifest-start.json"] {
        fs::write(
            path_of("host-1/hour-000.laggard").join(name),
            "{\"schema\": 99}",
        )
        .unwrap();
    }
    send(&server, store.path(), "fleet");

    let answer = json(
        &run_fleet(
            &server,
            &cache,
            &["s3://latency/fleet", "summary", "--json"],
        ),
        3,
    );

    let refused: Vec<(&str, &str)> = answer["of"]["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|recording| {
            (
                recording["path"].as_str().unwrap(),
                recording["reason"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(refused.len(), 2, "{answer:#}");
    assert_eq!(refused[0].0, "s3://latency/fleet/host-0/hour-000.laggard");
    assert!(refused[0].1.contains("still being sent"), "{answer:#}");
    assert_eq!(refused[1].0, "s3://latency/fleet/host-1/hour-000.laggard");
    let folder = std::env::temp_dir().display().to_string();
    assert!(
        refused.iter().all(|entry| !entry.1.contains(&folder)),
        "{answer:#}"
    );
}

#[test]
fn missing_bucket_is_reported_by_url() {
    let Some(server) = Server::start() else {
        return;
    };
    let cache = TempDir::new().unwrap();
    for (store, words) in [
        ("s3://nothing/fleet", "list s3://nothing/fleet"),
        (
            "s3://latency/empty",
            "there is no recording in `s3://latency/empty`",
        ),
        ("s3:latency", "write s3://BUCKET/PREFIX"),
    ] {
        let output = run_fleet(&server, &cache, &[store, "summary"]);

        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{store}: {stderr}");
        assert!(stderr.contains(words), "{store}: {stderr}");
    }
}
