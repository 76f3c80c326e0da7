//! Sessions of a script, which do not need privileges, and their watchers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use laggard_model::{Caveat, CaveatKind, Manifest, Nanos, State};
use laggard_record::{Destination, Recording};
use laggard_session::{
    Done, Ending, LoadChoice, News, Next, Plan, ProbeChoice, Session, SessionError, WatchError,
    Watcher,
};
use tempfile::TempDir;

/// Script of one `fifo:90` wakeup per millisecond.
const SCRIPT: &str = r#"
period_ns = 1_000_000
[[line]]
service = "fifo:90"
route = "direct"
steps = [[["irq", 14_000], ["waking", 1_000], ["user", 3_000]]]
"#;

/// Watcher that counts its calls, and requests `next` from the first call.
struct Counts {
    next: Result<Next, &'static str>,
    seen: usize,
    begun: Option<Nanos>,
    ending: Option<Ending>,
    heard: Vec<Result<PathBuf, String>>,
}

impl Counts {
    const fn requesting(next: Result<Next, &'static str>) -> Self {
        Self {
            next,
            seen: 0,
            begun: None,
            ending: None,
            heard: Vec::new(),
        }
    }
}

impl Watcher for Counts {
    fn begun(&mut self, start: Nanos) {
        self.begun = Some(start);
    }

    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        assert_eq!(Some(news.start), self.begun);
        self.seen += news.batch.len();
        self.next.clone().map_err(Into::into)
    }

    fn recording(&mut self, begun: Result<&Path, &SessionError>) {
        let heard = begun.map(Path::to_owned).map_err(SessionError::in_full);
        self.heard.push(heard);
    }

    fn end(&mut self, ending: &Ending) {
        self.ending = Some(ending.clone());
    }
}

/// Plays 2 s of the script.
fn play(
    dir: &TempDir,
    recording: Option<PathBuf>,
    watchers: &mut [&mut dyn Watcher],
) -> Result<Done, SessionError> {
    let plan = Plan {
        duration: Some(Nanos::from_secs(2)),
        recording: recording.map(Destination::from),
        ..scripted(dir)
    };
    Session::ready(&plan, &AtomicBool::new(false))?.run(watchers)
}

/// Returns a plan with the script.
fn scripted(dir: &TempDir) -> Plan {
    let script = dir.path().join("script.toml");
    std::fs::write(&script, SCRIPT).unwrap();
    Plan {
        probe: ProbeChoice::Script(script),
        ..Plan::default()
    }
}

fn rows(recording: &Path) -> u64 {
    let manifest = Recording::open(recording).unwrap().manifest().clone();
    assert_eq!(manifest.state, State::Complete);
    manifest.counts.iter().map(|line| line.served).sum()
}

#[test]
fn every_watcher_receives_the_recorded_activations() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("r.laggard");
    let (mut first, mut second) = (
        Counts::requesting(Ok(Next::GoOn)),
        Counts::requesting(Ok(Next::GoOn)),
    );

    let done = play(&dir, Some(to.clone()), &mut [&mut first, &mut second]).unwrap();

    assert_eq!(done.recording.unwrap().path(), to);
    assert!(first.seen > 1_900, "{}", first.seen);
    assert_eq!((first.seen, second.seen as u64), (second.seen, rows(&to)));
    assert!(first.ending.is_some() && first.ending == second.ending);
}

/// The failure of the command is known only after it was stopped.
#[test]
fn watcher_receives_the_final_data_of_the_recording() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("r.laggard");
    let plan = Plan {
        duration: None,
        load: LoadChoice::Command(vec!["false".into()]),
        recording: Some(Destination::from(&to)),
        ..scripted(&dir)
    };
    let mut watcher = Counts::requesting(Ok(Next::GoOn));

    let interrupted = AtomicBool::new(false);
    let session = Session::ready(&plan, &interrupted).unwrap();
    let before = session.manifest().caveats.clone();
    session.run(&mut [&mut watcher]).unwrap();

    let manifest = Recording::open(&to).unwrap().manifest().clone();
    let ending = watcher.ending.unwrap();
    assert_ne!(ending.caveats, before);
    assert_eq!(ending.caveats, manifest.caveats);
    assert_eq!(ending.losses, manifest.losses);
    assert_eq!(ending.cost.wall_ns, manifest.cost.wall_ns);
}

#[test]
fn recording_can_be_requested_later_and_only_once() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("r.laggard");
    let mut watcher = Counts::requesting(Ok(Next::Record(to.clone())));

    let done = play(&dir, None, &mut [&mut watcher]).unwrap();

    assert_eq!(done.recording.unwrap().path(), to);
    assert_eq!(watcher.heard[0], Ok(to.clone()));
    let refused = watcher.heard[1].as_ref().unwrap_err();
    assert!(
        refused.starts_with("a recording is already being written to `"),
        "{refused}"
    );
    assert!(
        rows(&to) < watcher.seen as u64,
        "earlier expiries are excluded"
    );
}

#[test]
fn failed_watcher_ends_the_session_and_the_recording_is_kept() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("r.laggard");
    let mut watcher = Counts::requesting(Err("the line is dead"));

    let err = play(&dir, Some(to.clone()), &mut [&mut watcher]).unwrap_err();

    assert_eq!(err.in_full(), "the recording ended early: the line is dead");
    assert!(!err.is_unmet());
    let recording = Recording::open(&to).unwrap();
    assert_eq!(
        recording.manifest().state,
        State::Failed {
            error: "the line is dead".into()
        }
    );
}

#[test]
fn plan_that_cannot_start_leaves_no_directory() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("r.laggard");
    let plan = Plan {
        probe: ProbeChoice::Script(dir.path().join("none.toml")),
        recording: Some(Destination::from(&to)),
        ..Plan::default()
    };

    let err = Session::ready(&plan, &AtomicBool::new(false)).unwrap_err();

    assert!(
        err.in_full().starts_with("cannot read the script `"),
        "{err}"
    );
    assert!(!to.exists());
}

/// Waits until `is_so`, with a limit against hanging, not an expectation.
fn becomes(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > Duration::from_secs(60) {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
    true
}

/// Returns a plan of 2 s with a command that stores its PID.
fn beside_sleep(dir: &TempDir, recording: &Path) -> Plan {
    let number = dir.path().join("number").display().to_string();
    let script = format!("echo $$ >> {number}; exec sleep 1000");
    Plan {
        duration: Some(Nanos::from_secs(2)),
        load: LoadChoice::Command(["sh", "-c", &*script].map(Into::into).to_vec()),
        recording: Some(Destination::from(recording)),
        ..scripted(dir)
    }
}

/// Returns the PID of the one process that ran.
fn number(dir: &TempDir) -> Option<u32> {
    let text = std::fs::read_to_string(dir.path().join("number")).ok()?;
    text.ends_with('\n').then(|| text.trim().parse().unwrap())
}

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn signal(process: u32, name: &str) {
    let args = ["-s", name, &process.to_string()];
    let status = std::process::Command::new("kill").args(args).status();
    assert!(status.unwrap().success());
}

/// A load that starts after the signal takes the CPU from the end of the measurement: it
/// took 4 s and longer.
#[test]
fn no_load_is_started_after_a_signal() {
    for is_before in [true, false] {
        let dir = TempDir::new().unwrap();
        let to = dir.path().join("r.laggard");
        let interrupted = AtomicBool::new(is_before);

        let session = Session::ready(&beside_sleep(&dir, &to), &interrupted).unwrap();
        interrupted.store(true, Ordering::Relaxed);
        session.run(&mut []).unwrap();

        let load = Recording::open(&to).unwrap().manifest().load.clone();
        let load = load.unwrap();
        assert_eq!((load.name.as_str(), load.begun_ns), ("sh", None));
        assert!(load.ended.unwrap().starts_with("not started"));
        assert_eq!(
            number(&dir),
            None,
            "before the session was ready: {is_before}"
        );
    }
}

/// Events of the load between the sessions are not reported by the later one.
#[test]
fn one_load_runs_during_two_sessions() {
    let dir = TempDir::new().unwrap();
    let to = |name: &str| dir.path().join(name);
    let manifest = |name: &str| Recording::open(to(name)).unwrap().manifest().clone();
    let interrupted = AtomicBool::new(false);

    let first = Session::ready(&beside_sleep(&dir, &to("1")), &interrupted).unwrap();
    let (_, load) = first.run_on(&mut []).unwrap();
    assert!(becomes(|| number(&dir).is_some()));
    let process = number(&dir).unwrap();
    assert!(is_there(process));
    let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    signal(process, "STOP");
    assert!(becomes(|| state().contains(") T ")));
    signal(process, "CONT");
    let second = Session::ready_beside(&beside_sleep(&dir, &to("2")), &interrupted, load);
    second.unwrap().run(&mut []).unwrap();

    assert!(becomes(|| !is_there(process)));
    assert_eq!(number(&dir), Some(process), "it was started once");
    let (first, second) = (manifest("1"), manifest("2"));
    let begun = |manifest: &Manifest| manifest.load.clone().unwrap().begun_ns;
    assert!(begun(&first).is_some() && begun(&second).is_none());
    for load in [first, second] {
        assert_eq!(load.load.unwrap().name, "sh");
        let of_load = |caveat: &&Caveat| caveat.kind == CaveatKind::LoadEnded;
        assert_eq!(load.caveats.iter().find(of_load), None);
    }
}

#[test]
fn load_that_ends_between_two_sessions_is_reported_and_an_unused_one_is_ended() {
    let dir = TempDir::new().unwrap();
    let interrupted = AtomicBool::new(false);
    let plan = |name: &str| beside_sleep(&dir, &dir.path().join(name));
    let run = |name: &str| {
        let session = Session::ready(&plan(name), &interrupted).unwrap();
        let (_, load) = session.run_on(&mut []).unwrap();
        assert!(becomes(|| number(&dir).is_some()));
        (load, number(&dir).unwrap())
    };

    let (load, process) = run("1");
    signal(process, "KILL");
    let zombie = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    assert!(becomes(|| zombie().contains(") Z ")));
    let err = Session::ready_beside(&plan("2"), &interrupted, load).unwrap_err();
    std::fs::remove_file(dir.path().join("number")).unwrap();
    let (load, process) = run("3");
    drop(load);

    let message = err.in_full();
    assert!(
        message
            .starts_with("the load `sh` ended after the previous recording: killed by signal 9;"),
        "{message}"
    );
    assert!(!dir.path().join("2").exists());
    assert!(!is_there(process));
}
