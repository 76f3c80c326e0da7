//! Loads as real processes. If a test needs a parent to kill or a built-in load to run,
//! it starts this test program again in another role.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use laggard_model::{Cpu, CpuList, Nanos};
use laggard_workload::load::{self, Builtin, Launch, LoadProcess, LoadUser, Output};

/// A limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(60);

const ROLE: &str = "LAGGARD_TEST_ROLE";
/// Variable with a file that a built-in load creates when it starts.
const BEGUN: &str = "LAGGARD_TEST_BEGUN";

fn sh(script: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", script].map(OsString::from).to_vec()
}

/// Waits until `ready` returns a value.
fn eventually<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns whether a process exists and is not a zombie.
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

fn field_of_stat(pid: u32, number: usize) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let field = after_name.split_whitespace().nth(number - 3).unwrap();
    field.parse().unwrap()
}

/// Reads process IDs, one per line, that a script wrote to `path`.
fn pids(path: &Path, count: usize) -> Vec<u32> {
    eventually("process ids", || {
        let text = fs::read_to_string(path).ok()?;
        let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (pids.len() == count).then_some(pids)
    })
}

#[test]
fn stop_leaves_no_process_of_the_tree() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!(
        "sleep 1000 & echo $! >{0}; echo $$ >>{0}; wait",
        file.path().display()
    );
    let mut load = LoadProcess::spawn(sh(&script)).unwrap();
    let tree = pids(file.path(), 2);

    assert!(load.poll().unwrap().is_none());
    assert!(tree.iter().all(|&pid| runs(pid)), "{tree:?}");
    let ended = load.stop().unwrap();

    assert_eq!(ended.to_string(), "killed by signal 15");
    assert!(!tree.iter().any(|&pid| runs(pid)), "{tree:?}");
}

#[test]
fn load_that_ignores_sigterm_is_killed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!(
        "trap '' TERM; sleep 1000 & echo $! >{0}; echo $$ >>{0}; wait",
        file.path().display()
    );
    let load = LoadProcess::spawn(sh(&script)).unwrap();
    let tree = pids(file.path(), 2);

    let ended = load.stop().unwrap();

    assert_eq!(ended.to_string(), "killed by signal 9");
    assert!(!tree.iter().any(|&pid| runs(pid)), "{tree:?}");
}

/// A daemon leaves the process group of its parent.
#[test]
fn process_outside_the_group_ends_with_the_load() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!(
        "setsid sh -c 'echo $$ >>{0}; sleep 1000' & echo $$ >>{0}; wait",
        file.path().display()
    );
    let load = LoadProcess::spawn(sh(&script)).unwrap();
    let tree = pids(file.path(), 2);
    // Two simultaneous loads do not end each other.
    let other = LoadProcess::spawn(sh("sleep 1000")).unwrap();
    assert!(tree.iter().all(|&pid| runs(pid)), "{tree:?}");

    load.stop().unwrap();

    eventually("the daemon's end", || {
        (!tree.iter().any(|&pid| runs(pid))).then_some(())
    });
    assert!(runs(other.id()));
}

#[test]
fn load_of_another_user_has_its_rights_and_environment() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return println!("skipped: only root starts a load as somebody else");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let file = dir.path().join("told");
    let script = format!(
        "setsid sleep 1000 & (id -u; id -g; env; echo $!; echo end) >{}; wait",
        file.display()
    );
    let user = LoadUser {
        user: 65534,
        group: 65534,
    };

    let load = Launch::new(sh(&script)).user(Some(user)).start().unwrap();

    let facts = eventually("what it is", || {
        let text = fs::read_to_string(&file).ok()?;
        text.ends_with("end\n").then_some(text)
    });
    let lines: Vec<&str> = facts.lines().collect();
    assert_eq!(lines[..2], ["65534", "65534"], "{facts}");
    // A variable of the test's environment, set by cargo.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!facts.contains("CARGO_MANIFEST_DIR"), "{facts}");
    let daemon = lines[lines.len() - 2].parse().unwrap();
    assert!(runs(daemon));
    load.stop().unwrap();
    eventually("the daemon's end", || (!runs(daemon)).then_some(()));
}

#[test]
fn dropped_load_is_ended() {
    let load = LoadProcess::spawn(sh("sleep 1000")).unwrap();
    let pid = load.id();

    drop(load);

    assert!(!runs(pid));
}

#[test]
fn ended_load_reports_its_status_and_last_line() {
    let mut load = Launch::new(sh("echo one; echo no such disk >&2; exit 3"))
        .output(Output::Memory)
        .start()
        .unwrap();

    let ended = eventually("the load's end", || load.poll().unwrap());

    assert_eq!(ended.to_string(), "exit status 3: no such disk");
    assert_eq!(load.stop().unwrap().to_string(), ended.to_string());
}

#[test]
fn output_goes_to_the_requested_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut load = Launch::new(sh("echo out; echo err >&2"))
        .output(Output::File(file.path().into()))
        .start()
        .unwrap();

    eventually("the load's end", || load.poll().unwrap());

    assert_eq!(fs::read_to_string(file.path()).unwrap(), "out\nerr\n");
}

#[test]
fn missing_program_is_named() {
    let err = LoadProcess::spawn(vec!["no-such-load".into()]).unwrap_err();

    assert_eq!(
        err.to_string(),
        "cannot start the load `no-such-load`; check its name and that it is in PATH"
    );
}

#[test]
fn empty_command_is_refused() {
    let err = LoadProcess::spawn(vec![]).unwrap_err();

    assert_eq!(
        err.to_string(),
        "the load's command is empty; give one after `--`"
    );
}

#[test]
fn load_stays_on_its_cpus() {
    let load = Launch::new(sh("sleep 1000"))
        .cpus(CpuList::from_iter([Cpu(0)]))
        .start()
        .unwrap();

    let status = fs::read_to_string(format!("/proc/{}/status", load.id())).unwrap();

    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
}

#[test]
fn missing_cpus_are_refused_with_the_place_to_look() {
    let err = Launch::new(sh("sleep 1000"))
        .cpus(CpuList::from_iter([Cpu(8191)]))
        .start()
        .unwrap_err();

    let text = err.to_string();
    assert!(
        text.contains("8191") && text.contains("cpu/online"),
        "{text}"
    );
}

#[test]
fn load_of_a_real_time_thread_has_normal_scheduling() {
    const POLICY: usize = 41;
    let param = libc::sched_param { sched_priority: 1 };
    let policy = thread::spawn(move || {
        // SAFETY: `param` outlives the call; 0 is this thread.
        let refused =
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) } != 0;
        let load = LoadProcess::spawn(sh("sleep 1000")).unwrap();
        (!refused).then(|| field_of_stat(load.id(), POLICY))
    });

    match policy.join().unwrap() {
        Some(policy) => assert_eq!(policy, libc::SCHED_OTHER.cast_unsigned()),
        None => eprintln!("skipped: this user may not have real-time threads"),
    }
}

/// Starts this test program again with `role` in the test `test`.
fn actor(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--ignored",
            "--exact",
            &format!("load_process::{test}"),
            "--nocapture",
        ])
        .env(ROLE, role)
        .stdin(Stdio::null());
    command
}

#[test]
fn load_dies_when_its_parent_is_killed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut parent = actor("a_parent_that_waits", &file.path().display().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let tree = pids(file.path(), 3);
    assert!(tree.iter().all(|&pid| runs(pid)), "{tree:?}");

    parent.kill().unwrap();
    parent.wait().unwrap();

    eventually("the load's end", || {
        (!tree.iter().any(|&pid| runs(pid))).then_some(())
    });
}

/// Role, not a test: starts a load and waits to be killed.
#[test]
#[ignore = "a role that another test starts"]
fn a_parent_that_waits() {
    let Ok(path) = std::env::var(ROLE) else {
        return println!("skipped: only another test runs this");
    };
    let script = format!(
        "sleep 1000 & echo $! >{path}; setsid sleep 1000 & echo $! >>{path}; echo $$ >>{path}; wait"
    );
    let _load = LoadProcess::spawn(sh(&script)).unwrap();
    thread::sleep(DEADLINE);
}

/// Starts a held load that creates `marker` only after the start signal.
fn held(marker: &Path) -> LoadProcess {
    let script = format!(
        "echo ready; read -r word && echo $word > {}; sleep 1000",
        marker.display()
    );
    Launch::new(sh(&script)).held().start().unwrap()
}

#[test]
fn held_load_is_ready_first_and_works_after_the_signal() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("marker");
    let mut load = held(&marker);
    eventually("readiness", || load.is_ready().unwrap().then_some(()));
    thread::sleep(Duration::from_millis(100));
    assert!(!marker.exists());

    load.begin();

    eventually("work", || marker.exists().then_some(()));
    load.stop().unwrap();
}

#[test]
fn held_load_that_is_stopped_never_works() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("marker");
    let load = held(&marker);
    eventually("readiness", || load.is_ready().unwrap().then_some(()));

    load.stop().unwrap();

    assert!(!marker.exists());
}

#[test]
fn delayed_command_runs_unchanged_after_the_signal() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("a marker");
    let script = format!("echo \"$1\" > '{}'; exit 7", marker.display());
    let mut command = sh(&script);
    command.extend(["sh", "it's $HOME"].map(OsString::from));
    let mut load = Launch::new(command).told().start().unwrap();
    thread::sleep(Duration::from_millis(100));
    assert!(!marker.exists());

    load.begin();

    let ended = eventually("the load's end", || load.poll().unwrap());
    assert_eq!(ended.status.code(), Some(7));
    assert_eq!(fs::read_to_string(marker).unwrap(), "it's $HOME\n");
}

#[test]
fn delayed_command_that_does_not_exist_is_refused_at_once() {
    for (name, reason) in [("no-such-load", "not found"), ("/etc/passwd", "denied")] {
        let err = Launch::new(vec![name.into()]).told().start().unwrap_err();

        let cause = std::error::Error::source(&err).unwrap().to_string();
        assert!(err.to_string().contains(name), "{err}");
        assert!(cause.contains(reason), "{cause}");
    }
}

#[test]
fn load_that_ends_before_it_is_ready_is_not_ready() {
    let mut load = Launch::new(sh("echo no display >&2; exit 3"))
        .held()
        .start()
        .unwrap();

    let ended = eventually("the end", || load.poll().unwrap());

    assert!(!load.is_ready().unwrap());
    assert_eq!(ended.to_string(), "exit status 3: no display");
}

#[test]
fn load_killed_after_it_was_ready_does_not_report_ready_as_its_error() {
    let mut load = Launch::new(sh("echo ready; kill -9 $$"))
        .held()
        .start()
        .unwrap();

    let ended = eventually("the end", || load.poll().unwrap());

    assert_eq!(ended.to_string(), "killed by signal 9");
}

/// A busy machine takes seconds to end a program and to remove its files.
#[test]
fn held_load_has_time_to_clean_up_and_report_its_throughput() {
    let script = r#"end() { sleep 3; echo '{"unit": "steps", "count": 7, "elapsed_ns": 9}'; exit; }
        trap end TERM; echo ready; read -r word; while :; do sleep 0.01; done"#;
    let mut load = Launch::new(sh(script)).held().start().unwrap();
    eventually("readiness", || load.is_ready().unwrap().then_some(()));
    load.begin();

    let ended = load.stop().unwrap();

    assert_eq!(ended.throughput.unwrap().count, 7);
}

#[test]
fn built_in_load_reports_its_throughput_when_stopped() {
    let script = tempfile::NamedTempFile::new().unwrap();
    let begun = script.path().with_extension("begun");
    let this = std::env::current_exe().unwrap();
    fs::write(
        script.path(),
        format!(
            "export {ROLE}=$3 {BEGUN}={}\nexec {} --ignored --exact load_process::a_program_that_runs_a_load --nocapture\n",
            begun.display(),
            this.display()
        ),
    )
    .unwrap();
    let mut command = sh(". \"$0\"");
    command.push(script.path().into());
    command.extend(["load", "run", Builtin::Fp.name()].map(OsString::from));
    let load = Launch::new(command).output(Output::Memory).start().unwrap();
    eventually("the start", || begun.exists().then_some(()));
    fs::remove_file(begun).unwrap();
    // The load works during this time.
    thread::sleep(Duration::from_millis(100));

    let ended = load.stop().unwrap();

    assert!(ended.status.success(), "{ended}");
    let throughput = ended
        .throughput
        .expect("a built-in load reports its throughput");
    assert_eq!(throughput.unit, "divisions");
    assert!(throughput.count > 0);
    assert!(throughput.elapsed_ns > Nanos::ZERO);
}

/// Role, not a test: behaves as `laggard load run NAME`.
#[test]
#[ignore = "a role that another test starts"]
fn a_program_that_runs_a_load() {
    let Ok(name) = std::env::var(ROLE) else {
        return println!("skipped: only another test runs this");
    };
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop)).unwrap();
    let begin = || fs::write(std::env::var(BEGUN).unwrap(), "").unwrap();
    let done = load::run(name.parse().unwrap(), &stop, &begin).unwrap();
    println!("{}", serde_json::to_string(&done).unwrap());
    std::process::exit(0);
}
