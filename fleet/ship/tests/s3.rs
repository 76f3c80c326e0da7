//! The program with an S3 server.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use object_store::ObjectStoreExt as _;
use object_store::aws::AmazonS3Builder;
use tempfile::TempDir;
use tokio::runtime::Builder;

mod server;

use server::{DEADLINE, Server};

/// Returns the body of an object; `None` if it does not exist.
fn object(server: &Server, key: &str) -> Option<Vec<u8>> {
    let store = AmazonS3Builder::new()
        .with_bucket_name("latency")
        .with_endpoint(format!("http://127.0.0.1:{}", server.port))
        .with_allow_http(true)
        .with_access_key_id("of-a-test")
        .with_secret_access_key("of-a-test")
        .build()
        .unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let got = runtime.block_on(async { store.get(&key.into()).await?.bytes().await });
    match got {
        Ok(bytes) => Some(bytes.into()),
        Err(object_store::Error::NotFound { .. }) => None,
        Err(error) => panic!("{key}: {error}"),
    }
}

/// Returns the program, configured for this server.
fn command(server: &Server, dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard-ship"));
    command.arg(dir).arg("s3://latency/fleet");
    server.serve(&mut command);
    command
}

fn ship(server: &Server, dir: &Path) -> Output {
    command(server, dir).output().unwrap()
}

fn recorded(dir: &Path, name: &str, rows: &str) {
    let dir = dir.join(name);
    fs::create_dir_all(dir.join("samples")).unwrap();
    let manifest = |state| format!("{{\"state\": \"{state}\", \"host\": {{\"node\": \"a\"}}}}");
    for (file, text) in [
        ("manifest.json", &*manifest("complete")),
        ("manifest-start.json", &manifest("running")),
        ("samples/000001.parquet", rows),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
}

fn error_text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn recording_is_sent_to_the_bucket_once() {
    let Some(server) = Server::start() else {
        return;
    };
    let dir = TempDir::new().unwrap();
    // A recording with an unusual name is sent under this name.
    recorded(dir.path(), "an hour, 100 % + one.laggard", "rows");

    let first = ship(&server, dir.path());
    let again = ship(&server, dir.path());

    assert_eq!(first.status.code(), Some(0), "{}", error_text(&first));
    assert!(
        error_text(&first)
            .ends_with("1 sent, 0 there before, 0 not ended, 0 not sent, 0 not tried\n")
    );
    assert_eq!(again.status.code(), Some(0), "{}", error_text(&again));
    assert!(
        error_text(&again).contains("0 sent, 1 there before"),
        "{}",
        error_text(&again)
    );
    let listed = server.ask("GET", "/latency?prefix=fleet/a/", &[]);
    assert_eq!(listed.matches("<Key>").count(), 3, "{listed}");
}

#[test]
fn killed_program_leaves_no_manifest_and_the_next_continues() {
    let Some(server) = Server::start() else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let rows = "0123456789abcdef".repeat(3 << 20);
    recorded(dir.path(), "one.laggard", &rows);
    let key = |name: &str| format!("fleet/a/one.laggard/{name}");

    let mut killed = command(&server, dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while object(&server, &key("manifest-start.json")).is_none() {
        assert!(began.elapsed() < DEADLINE, "nothing is sent");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let is_whole = object(&server, &key("manifest.json")).is_some();
    let has_rows = object(&server, &key("samples/000001.parquet")).is_some();
    let next = ship(&server, dir.path());

    assert!(
        !is_whole || has_rows,
        "the manifest is there, and not the rows"
    );
    assert_eq!(next.status.code(), Some(0), "{}", error_text(&next));
    assert!(object(&server, &key("manifest.json")).is_some());
    assert!(object(&server, &key("samples/000001.parquet")).unwrap() == rows.as_bytes());
}

#[test]
fn follow_sends_a_recording_that_ends_later() {
    let Some(server) = Server::start() else {
        return;
    };
    let dir = TempDir::new().unwrap();
    recorded(dir.path(), "one.laggard", "rows");

    let mut follows = command(&server, dir.path())
        .args(["--follow", "--every=1s"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while object(&server, "fleet/a/one.laggard/manifest.json").is_none() {
        assert!(began.elapsed() < DEADLINE, "the first is not sent");
    }
    recorded(dir.path(), "two.laggard", "rows");
    while object(&server, "fleet/a/two.laggard/manifest.json").is_none() {
        assert!(began.elapsed() < DEADLINE, "what came later is not sent");
        std::thread::sleep(Duration::from_millis(200));
    }
    follows.kill().unwrap();
    follows.wait().unwrap();
}

#[test]
fn missing_bucket_and_unsent_recordings_are_reported() {
    let Some(server) = Server::start() else {
        return;
    };
    let dir = TempDir::new().unwrap();
    recorded(dir.path(), "one.laggard", "rows");

    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard-ship"));
    let output = command
        .arg(dir.path())
        .arg("s3://nowhere/fleet")
        .envs([("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")])
        .env(
            "AWS_ENDPOINT_URL",
            format!("http://127.0.0.1:{}", server.port),
        )
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(3), "{}", error_text(&output));
    let message = error_text(&output);
    assert!(
        message.contains("one.laggard: list s3://nowhere/fleet/a/one.laggard: "),
        "{message}"
    );
    assert!(message.contains("NoSuchBucket"), "{message}");
}

#[test]
fn invalid_bucket_and_missing_directory_are_refused() {
    for (dir, bucket, words) in [
        ("/", "latency", "give a directory and s3://BUCKET/PREFIX"),
        ("/nowhere", "s3://latency", "read `/nowhere`"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laggard-ship"));
        let output = command.args([dir, bucket]).output().unwrap();

        assert_eq!(output.status.code(), Some(2));
        assert!(
            error_text(&output).contains(words),
            "{}",
            error_text(&output)
        );
    }
}
