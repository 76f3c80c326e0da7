//! A Ballista cluster gives the same answers as this process, also if one of its executors is
//! killed. `cargo install ballista-scheduler ballista-executor` builds its programs. The tests find
//! them in `LAGGARD_BALLISTA` or on the `PATH`.
#![cfg(feature = "cluster")]

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

mod stores;

use stores::{core, json, made};

/// Limit that detects a hang, not an expected duration. It is therefore generous.
const DEADLINE: Duration = Duration::from_secs(300);
/// Several queries answer each of these.
const QUESTIONS: [&[&str]; 6] = [
    &["summary"],
    &["worst"],
    &["worst", "--order=p999"],
    &["changed"],
    &["causes"],
    &["show", "host-17"],
];

/// Program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Scheduler with executors that run one task at a time.
struct Cluster {
    port: u16,
    dir: TempDir,
    scheduler: Program,
    executors: Vec<Program>,
}

fn program(name: &str) -> PathBuf {
    std::env::var_os("LAGGARD_BALLISTA")
        .map_or_else(|| name.into(), |dir| Path::new(&dir).join(name))
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

impl Cluster {
    /// Returns `None`, and prints the reason, if the programs are not installed.
    fn start(executors: usize) -> Option<Self> {
        Self::start_in(&["env"], executors)
    }

    /// Starts the executors with this command.
    fn start_in(starter: &[&str], executors: usize) -> Option<Self> {
        let (port, dir) = (free_port(), TempDir::new().unwrap());
        let mut command = Command::new(program("ballista-scheduler"));
        command.args(["--bind-host=127.0.0.1", "--executor-timeout-seconds=20"]);
        command.args([
            "--expire-dead-executor-interval-seconds=2",
            &format!("--bind-port={port}"),
        ]);
        let Some(scheduler) = started(&mut command, &dir.path().join("scheduler.log")) else {
            println!(
                "skipped: a cluster: no ballista-scheduler (cargo install ballista-scheduler ballista-executor)"
            );
            return None;
        };
        let mut cluster = Self {
            port,
            dir,
            scheduler,
            executors: Vec::new(),
        };
        cluster.listens("scheduler", port);
        for number in 0..executors {
            cluster.add_executor(starter, number);
        }
        Some(cluster)
    }

    fn add_executor(&mut self, starter: &[&str], number: usize) {
        let (name, port) = (format!("executor-{number}"), free_port());
        let work = self.dir.path().join(&name);
        fs::create_dir(&work).unwrap();
        let mut command = Command::new(starter[0]);
        command
            .args(&starter[1..])
            .arg(program("ballista-executor"))
            .args([
                "--bind-host=127.0.0.1",
                "--external-host=127.0.0.1",
                "--vcores=1",
            ])
            .args([
                "--scheduler-host=127.0.0.1",
                &format!("--scheduler-port={}", self.port),
            ])
            .args([
                format!("--bind-port={port}"),
                format!("--bind-grpc-port={}", free_port()),
            ])
            .args([
                format!("--bind-health-port={}", free_port()),
                "--executor-heartbeat-interval-seconds=2".into(),
            ])
            .arg("--work-dir")
            .arg(&work);
        let log = self.dir.path().join(format!("{name}.log"));
        let executor =
            started(&mut command, &log).expect("a scheduler is installed without an executor");
        self.executors.push(executor);
        self.listens(&name, port);
    }

    fn listens(&mut self, name: &str, port: u16) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let mut programs = self.executors.iter_mut().chain([&mut self.scheduler]);
            let has_ended = programs.any(|program| program.0.try_wait().unwrap().is_some());
            let log = || fs::read_to_string(self.dir.path().join(format!("{name}.log")));
            assert!(
                !has_ended && began.elapsed() < DEADLINE,
                "{name}: {:?}",
                log()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn command(&self, store: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laggard-fleet"));
        command
            .arg(store)
            .args(words)
            .args(["--json", "--cluster", &format!("127.0.0.1:{}", self.port)])
            .env("LAGGARD", core("laggard"));
        command
    }

    fn answer(&self, store: &Path, words: &[&str]) -> Value {
        answer(words, &self.command(store, words).output().unwrap())
    }
}

fn started(command: &mut Command, log: &Path) -> Option<Program> {
    let out = File::create(log).unwrap();
    let command = command.stdout(out.try_clone().unwrap()).stderr(out);
    command.spawn().ok().map(Program)
}

fn answer(words: &[&str], output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn cluster_gives_the_same_answers_as_this_process() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let store = made(40, 6, 10);

    for words in QUESTIONS {
        let here = json(store.path(), words, 0);
        assert_eq!(cluster.answer(store.path(), words), here, "{words:?}");
    }
}

#[test]
fn killed_executor_does_not_change_the_answer() {
    let Some(mut cluster) = Cluster::start(2) else {
        return;
    };
    let store = made(40, 6, 10);
    // A join of all pairs of buckets of an hour takes seconds.
    let query = "SELECT COUNT(*) AS pairs, SUM(a.n % 7 + b.n % 5) AS mixed FROM histograms a JOIN histograms b ON a.at_h = b.at_h AND a.line = b.line WHERE a.up_to_ns <> b.up_to_ns + 1";
    let words = ["sql", query];
    let here = json(store.path(), &words, 0);

    let child = cluster.command(store.path(), &words);
    let asking = thread::spawn(move || {
        let mut child = child;
        child.output().unwrap()
    });
    // Waits until the heaviest query, which is the last, is running.
    thread::sleep(Duration::from_secs(2));
    let was_under_way = !asking.is_finished();
    let mut killed = cluster.executors.pop().unwrap();
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();

    assert_eq!(answer(&words, &asking.join().unwrap()), here);
    if !was_under_way {
        println!("skipped: killed in the midst: the query had ended before");
    }
    // The remaining executor answers from now.
    assert_eq!(
        cluster.answer(store.path(), &["summary"]),
        json(store.path(), &["summary"], 0)
    );
}

/// Returns the error for an unavailable scheduler.
fn refused(store: &Path, port: u16) -> String {
    let words = ["summary", "--cluster", &format!("127.0.0.1:{port}")];
    let output = stores::fleet(store, &words);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn unreachable_scheduler_is_reported() {
    let store = made(2, 1, 1);

    let error = refused(store.path(), free_port());

    assert!(
        error.contains("connect to the scheduler at `127.0.0.1:"),
        "{error}"
    );
}

#[test]
fn scheduler_without_executors_is_refused_after_a_time_limit() {
    let Some(cluster) = Cluster::start(0) else {
        return;
    };
    let store = made(2, 1, 1);

    let error = refused(store.path(), cluster.port);

    assert!(
        error.contains("check that the cluster has executors"),
        "{error}"
    );
}

/// In a separate mount namespace, the catalogue's path leads to other files.
#[test]
fn executors_with_another_catalogue_or_none_are_refused() {
    let (store, other) = (made(2, 2, 1), made(3, 1, 1));
    for store in [&store, &other] {
        json(store.path(), &["summary"], 0);
    }
    let catalogue = store.path().join(".fleet");
    let others = other.path().join(".fleet");
    let [catalogue, others] = [&catalogue, &others].map(|path| path.to_str().unwrap());
    let in_place = |mount: &str| format!("mount {mount} {catalogue} && exec \"$0\" \"$@\"");
    for mount in [format!("--bind {others}"), "-t tmpfs none".to_owned()] {
        let script = in_place(&mount);
        let starter = ["unshare", "--mount", "sh", "-c", &script];
        let try_out = Command::new(starter[0])
            .args(&starter[1..])
            .arg("true")
            .output();
        if !try_out.is_ok_and(|output| output.status.success()) {
            println!("skipped: a mount namespace, which needs root and util-linux");
            return;
        }
        let Some(cluster) = Cluster::start_in(&starter, 1) else {
            return;
        };

        let error = refused(store.path(), cluster.port);

        assert!(error.contains("must see the catalogue"), "{mount}: {error}");
    }
}
