//! `laggard attach`, against a program that knows what it did.
//!
//! Needs root and a kernel with BTF; without them it says that it is skipped, and
//! why.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Where the program writes what it did; set: this process is the program.
const RESULT: &str = "LAGGARD_PLANNED_RESULT";
/// Set: it sleeps and wakes until it is ended, for a minute at most.
const SLEEPER: &str = "LAGGARD_PLANNED_SLEEPER";
/// How many threads it has.
const THREADS: &str = "LAGGARD_PLANNED_THREADS";
const CYCLES: u64 = 150;
const SLEEP: Duration = Duration::from_millis(2);
const SHORT: Duration = Duration::from_micros(200);
/// Every tenth takes so long, and misses.
const LONG: Duration = Duration::from_millis(5);
const DEADLINE: Duration = Duration::from_millis(3);
/// The program's own reading of the clock may be so far from the kernel's.
const UNSURE: Duration = Duration::from_micros(200);

/// Not a test by itself: the program that is watched.
#[test]
fn planned() {
    if std::env::var_os(SLEEPER).is_some() {
        (0..3_000).for_each(|_| thread::sleep(10 * SLEEP));
        return;
    }
    let Ok(result) = std::env::var(RESULT) else {
        return;
    };
    let threads: usize = std::env::var(THREADS).map_or(1, |text| text.parse().unwrap());
    let others: Vec<_> = (1..threads).map(|_| thread::spawn(cycles)).collect();
    let (surely, perhaps) = cycles();
    for other in others {
        other.join().unwrap();
    }
    fs::write(result, format!("{surely} {perhaps}")).unwrap();
}

/// Sleeps and computes by the plan; how often it surely missed its deadline, and how
/// often perhaps or surely.
fn cycles() -> (u64, u64) {
    let (mut surely, mut perhaps) = (0, 0);
    for cycle in 0..CYCLES {
        let due = Instant::now() + SLEEP;
        thread::sleep(SLEEP);
        let length = if cycle % 10 == 9 { LONG } else { SHORT };
        let begun = computed();
        while computed() < begun + length {
            std::hint::spin_loop();
        }
        let response = due.elapsed();
        surely += u64::from(response > DEADLINE + UNSURE);
        perhaps += u64::from(response + UNSURE > DEADLINE);
    }
    (surely, perhaps)
}

/// For how long this thread has had a CPU.
fn computed() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).unwrap().into()
}

fn laggard() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard"));
    command.arg("attach");
    command
}

/// The program, with so many threads; what it does is in `result` at its end.
fn program(command: &mut Command, result: &Path, threads: usize) {
    command
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "planned", "--quiet"])
        .env(RESULT, result)
        .env(THREADS, threads.to_string());
}

/// The answer; `None`: it cannot be had here, which is said.
fn report(output: &Output) -> Option<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("threads cannot be watched here") {
        println!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    // What the program itself wrote comes before.
    let begin = text.find("{\n").unwrap_or_else(|| panic!("{text} {said}"));
    Some(serde_json::from_str(&text[begin..]).unwrap())
}

fn number(row: &Value, name: &str) -> u64 {
    row[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {row}"))
}

#[test]
fn every_cycle_is_counted_and_every_miss_is_the_programs_own() {
    let dir = TempDir::new().unwrap();
    let result = dir.path().join("result");
    let mut command = laggard();
    command.args(["--json", "--deadline=3ms"]);
    program(&mut command, &result, 1);

    let output = command.output().unwrap();

    let Some(report) = report(&output) else {
        return;
    };
    let own = fs::read_to_string(&result).unwrap();
    let (surely, perhaps) = own.split_once(' ').unwrap();
    let (surely, perhaps): (u64, u64) = (surely.parse().unwrap(), perhaps.parse().unwrap());
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "planned")
        .unwrap_or_else(|| panic!("{report:#}"));
    let unfinished = u64::from(row["unfinished"].is_object());
    let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
    let told = number(row, "activations") + unfinished;
    assert_eq!(told + not_told, CYCLES, "{row:#}");
    let misses = number(&row["deadline"], "misses");
    assert!(surely >= CYCLES / 10, "{own}");
    assert!(
        misses + not_told + unfinished >= surely && misses <= perhaps,
        "{misses} of {surely} to {perhaps}: {row:#}"
    );
    // What it computed is its execution, and no more than its response.
    let of = |what: &str, figure: &str| number(&row[what], figure);
    assert!(of("execution", "median_ns") >= 200_000, "{row:#}");
    assert!(of("execution", "p99_ns") >= 5_000_000, "{row:#}");
    // There are not a thousand of which 999 could take no longer.
    assert!(row["response"]["p999_ns"].is_null(), "{row:#}");
    assert!(row["deadline"]["p999_margin_ns"].is_null(), "{row:#}");
    assert!(of("response", "largest_ns") >= of("execution", "largest_ns"));
    let grown = row["deadline"]["grown"].as_array().unwrap();
    for one in grown {
        assert!(number(one, "misses") >= misses, "{row:#}");
    }
    let functions = row["wakers"].as_array().unwrap();
    if functions[0]["who"] != "its own sleep or timeout" {
        println!("skipped: functions have no names here: {functions:?}");
    }
}

/// On which CPU this thread may run, the last of them.
fn some_cpu() -> u32 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let last = list.trim().rsplit([',', '-']).next().unwrap();
    last.parse().unwrap()
}

#[test]
fn who_has_the_cpu_while_it_is_due_is_named_with_the_time_that_it_took() {
    let cpu = some_cpu().to_string();
    let provoked = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["provoke", "thread", "--cpu", &cpu])
        .args(["--length=8ms", "--every=30ms", "--for=4s"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut provoked = provoked.unwrap();
    thread::sleep(Duration::from_millis(500));
    let mut command = laggard();
    command
        .args([
            "--json",
            "--episodes=on",
            "--deadline=3ms",
            "-d2500ms",
            "--",
        ])
        .args(["taskset", "-c", &cpu])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "planned", "--quiet"])
        .env(SLEEPER, "1");

    let output = command.output().unwrap();

    provoked.wait().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("taskset") || said.contains("flight recorder cannot be loaded") {
        return println!("skipped: {said}");
    }
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "planned")
        .unwrap_or_else(|| panic!("{report:#}"));
    let deadline = &row["deadline"];
    let (misses, explained) = (number(deadline, "misses"), number(deadline, "explained"));
    assert!((1..=misses).contains(&explained), "{row:#}");
    let taken = deadline["taken"].as_array().unwrap();
    let Some(ours) = taken.iter().find(|one| {
        let who = one["who"].as_str().unwrap_or_default();
        who.starts_with("lag/thread")
    }) else {
        panic!("{row:#}");
    };
    assert_eq!(ours["class"], "higher_priority", "{ours}");
    // It had the CPU for 8 ms, or what was left of them when the other was due.
    assert!(number(ours, "largest_ns") >= 3_000_000, "{ours}");
    // All of the largest is somebody's.
    let largest = &row["largest_response"];
    let taken = largest["taken"].as_array().unwrap();
    let sum: u64 = taken.iter().map(|one| number(one, "time_ns")).sum();
    assert_eq!(sum, number(largest, "response_ns"), "{largest:#}");
}

/// What cyclictest says of each of its cycles, and what is told of the same.
#[test]
fn what_cyclictest_says_of_each_cycle_is_no_less_than_what_is_told_of_it() {
    const INTERVAL_NS: u64 = 2_000_000;
    /// It reads its clock in whole microseconds.
    const GRAIN_NS: u64 = 1_000;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("activations.csv");
    let cpu = some_cpu().to_string();
    let output = laggard()
        .args(["--episodes=off", "--json", "--activations"])
        .arg(&file)
        .args([
            "--",
            "cyclictest",
            "-v",
            "-m",
            "-p80",
            "-t1",
            "-i2000",
            "-l700",
        ])
        .args(["-a", &cpu])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("run `cyclictest`") {
        return println!("skipped: {said}");
    }
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["policy"] == "fifo:80");
    let Some(row) = row else {
        return println!("skipped: cyclictest had no real-time thread: {said}");
    };

    let told = fs::read_to_string(&file).unwrap();
    let mut told = told.lines();
    let names: Vec<&str> = told.next().unwrap().split(',').collect();
    let place = |name: &str| names.iter().position(|one| *one == name).unwrap();
    let told: Vec<Vec<&str>> = told.map(|line| line.split(',').collect()).collect();
    let of = |line: &[&str], name: &str| line[place(name)].parse::<u64>().unwrap();
    let mut ours: Vec<(u64, u64)> = told
        .iter()
        .filter(|line| of(line, "number") == number(row, "number"))
        .filter(|line| line[place("woken_by")] == "timer")
        // Of the others it is told when they ran at the latest.
        .filter(|line| of(line, "run_seen") == 1)
        .map(|line| (of(line, "origin_ns"), of(line, "running_ns")))
        .collect();
    ours.sort_unstable();
    let not_seen = number(row, "activations") - ours.len() as u64;
    assert!(not_seen <= number(row, "inferred"), "{row:#}");
    let text = String::from_utf8_lossy(&output.stdout);
    let own = text.lines().filter_map(|line| {
        let mut parts = line.split(':').map(|part| part.trim().parse::<u64>());
        let (_, _, late) = (
            parts.next()?.ok()?,
            parts.next()?.ok()?,
            parts.next()?.ok()?,
        );
        Some(late * 1_000)
    });
    let own: Vec<u64> = own.collect();
    // Its first cycle is due an interval after it began; where one comes so late that
    // it leaves others out, numbers are no use any more.
    let first = ours[0].0;
    let same = own
        .iter()
        .position(|late| late + GRAIN_NS >= INTERVAL_NS)
        .unwrap_or(own.len());
    let compared = |shift: u64| -> Result<usize, String> {
        let mut compared = 0;
        for &(origin, running) in &ours {
            let cycle = shift + (origin - first + INTERVAL_NS / 2) / INTERVAL_NS;
            let (cycle, late) = (usize::try_from(cycle).unwrap(), running - origin);
            if cycle >= same {
                break;
            }
            compared += 1;
            if late > own[cycle] + GRAIN_NS {
                return Err(format!(
                    "cycle {cycle}: {late} ns; its own: {} ns",
                    own[cycle]
                ));
            }
        }
        Ok(compared)
    };
    // As many of its first as were not seen may be missing.
    let missing = number(row, "unseen") + not_seen;
    let tried: Vec<_> = (0..=missing).map(compared).collect();
    let Some(compared) = tried.iter().flatten().next() else {
        panic!("{tried:?}");
    };
    println!("{compared} of {} cycles", own.len());
    assert!(*compared > 0 || same < 10, "{own:?}");
}

#[test]
fn a_control_group_is_watched_with_those_that_come_to_it() {
    let Some(group) = OwnGroup::new("come") else {
        return;
    };
    let path = group.0.display().to_string();
    let mut watching = laggard()
        .args(["--cgroup", &path, "--json", "-d3s", "--episodes=off"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Begun::of(&mut watching);
    let mut sleepers: Vec<_> = (0..2)
        .map(|_| {
            let mut sleeper = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "planned", "--quiet"])
                .env(SLEEPER, "1")
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            fs::write(group.0.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
            thread::sleep(Duration::from_millis(500));
            // The second comes after the first has gone.
            sleeper.kill().unwrap();
            sleeper
        })
        .collect();

    let output = begun.end(watching);

    for sleeper in &mut sleepers {
        sleeper.wait().unwrap();
    }
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    for sleeper in &sleepers {
        assert!(
            rows.iter().any(|row| row["process"] == sleeper.id()
                && row["name"] == "planned"
                && number(row, "activations") > 0),
            "{}: {report:#}",
            sleeper.id()
        );
    }
}

/// A service that is a shell's script: those that end between being listed and being
/// marked are none, and take nobody with them.
#[test]
fn a_group_whose_processes_end_all_the_time_is_watched_all_the_time() {
    let Some(group) = OwnGroup::new("churn") else {
        return;
    };
    let path = group.0.display().to_string();
    let script = "echo $$ > \"$0\"; while :; do sleep 0.02; done";
    let members = group.0.join("cgroup.procs").display().to_string();
    let mut shell = Command::new("sh")
        .args(["-c", script, &members])
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(200));

    let output = laggard()
        .args(["--cgroup", &path, "--json", "-d3s", "--episodes=off"])
        .output()
        .unwrap();

    shell.kill().unwrap();
    shell.wait().unwrap();
    // What it started last ends by itself, and the group can go.
    thread::sleep(Duration::from_millis(200));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("No such file"), "{said}");
    assert!(!said.contains("is not watched"), "{said}");
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    let of_shell = rows.iter().filter(|row| row["process"] == shell.id());
    let told: u64 = of_shell.map(|row| number(row, "activations")).sum();
    assert!(told > 0 && number(&report, "ended") > 0, "{report:#}");
}

#[test]
fn a_group_of_threads_alone_is_refused_and_not_watched_without_a_thread() {
    let Some(group) = OwnGroup::new("threaded") else {
        return;
    };
    if let Err(err) = fs::write(group.0.join("cgroup.type"), "threaded") {
        return println!("skipped: no group can be made one of threads: {err}");
    }
    let path = group.0.display().to_string();

    let output = laggard()
        .args(["--cgroup", &path, "-d1s"])
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("has threads and no processes"), "{said}");
}

#[test]
fn a_unit_is_a_service_also_where_its_name_has_a_dot() {
    let Some(group) = OwnGroup::new("units") else {
        return;
    };
    let name = format!("php8.2-fpm-{}", std::process::id());
    let folder = group.0.join(format!("{name}.service"));
    fs::create_dir(&folder).unwrap();

    let output = laggard()
        .args(["--unit", &name, "--json", "-d100ms", "--episodes=off"])
        .output()
        .unwrap();

    fs::remove_dir(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("no control group is called"), "{said}");
    let Some(report) = report(&output) else {
        return;
    };
    assert_eq!(report["threads"], 0, "{report:#}");
    assert!(said.contains(&folder.display().to_string()), "{said}");
}

/// `CLOCK_MONOTONIC`, by which origins are told.
fn monotonic_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(Duration::from(now).as_nanos()).unwrap()
}

/// Attached to a program that sleeps and wakes: it is held up for a while in between,
/// by `hold`, until `go_on`. `None`: it cannot be had here, which is said.
fn held_up(hold: impl Fn(u32), go_on: impl Fn(u32)) -> Option<(Value, u64)> {
    let mut sleeper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "planned", "--quiet"])
        .env(SLEEPER, "1")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    let mut watching = laggard()
        .args([&sleeper.id().to_string(), "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Begun::of(&mut watching);
    thread::sleep(Duration::from_millis(700));

    hold(sleeper.id());
    thread::sleep(Duration::from_millis(800));
    let went_on = monotonic_ns();
    go_on(sleeper.id());
    thread::sleep(Duration::from_millis(800));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();

    let output = begun.end(watching);
    report(&output).map(|report| (report, went_on))
}

/// What says on its standard error that it watches.
struct Begun {
    errors: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Begun {
    /// The first that it says is that it watches, or why it does not; on a busy machine
    /// that takes seconds.
    fn of(watching: &mut std::process::Child) -> Self {
        let mut errors = BufReader::new(watching.stderr.take().unwrap());
        let mut said = String::new();
        errors.read_line(&mut said).unwrap();
        Self { errors, said }
    }

    /// Waits for its end.
    fn end(mut self, watching: std::process::Child) -> Output {
        let mut output = watching.wait_with_output().unwrap();
        self.errors.read_to_string(&mut self.said).unwrap();
        output.stderr = self.said.into_bytes();
        output
    }
}

/// Nothing that is told was under way when the program went on.
fn assert_is_not_told(report: &Value, went_on: u64) {
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && number(row, "activations") > 0)
        .unwrap_or_else(|| panic!("{report:#}"));
    for one in rows
        .iter()
        .flat_map(|row| [&row["largest_response"], &row["largest_latency"]])
        .filter(|one| one.is_object())
    {
        let from = number(one, "origin_ns");
        let to = from + number(one, "response_ns");
        assert!(to < went_on || from >= went_on, "{went_on}: {report:#}");
    }
    assert!(number(row, "stopped") > 0, "{report:#}");
    assert!(number(report, "stopped") > 0, "{report:#}");
}

#[test]
fn what_a_stop_signal_falls_into_is_counted_and_in_no_figure() {
    use nix::sys::signal::{Signal, kill};
    let signal = |process: u32, one: Signal| {
        let process = nix::unistd::Pid::from_raw(i32::try_from(process).unwrap());
        kill(process, one).unwrap();
    };

    let told = held_up(
        |process| signal(process, Signal::SIGSTOP),
        |process| signal(process, Signal::SIGCONT),
    );

    if let Some((report, went_on)) = told {
        assert_is_not_told(&report, went_on);
    }
}

/// A group of this test's own, gone with it.
struct OwnGroup(std::path::PathBuf);

impl OwnGroup {
    /// `None`: it cannot be had here, which is said.
    fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let mut mounts = mounts.lines().map(|line| line.split(' '));
        let Some(root) = mounts.find_map(|mut line| {
            let root = line.nth(1)?;
            (line.next()? == "cgroup2").then_some(root)
        }) else {
            println!("skipped: there are no cgroups of version 2");
            return None;
        };
        let name = format!("laggard-attach-{name}-{}", std::process::id());
        let group = Self(Path::new(root).join(name));
        if let Err(err) = fs::create_dir(&group.0) {
            println!("skipped: no cgroup can be made: {err}");
            return None;
        }
        Some(group)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn what_a_frozen_cgroup_falls_into_is_counted_and_in_no_figure() {
    let Some(group) = OwnGroup::new("frozen") else {
        return;
    };
    if !group.0.join("cgroup.freeze").exists() {
        return println!("skipped: cgroups cannot be frozen here");
    }
    let write = |file: &str, text: &str| fs::write(group.0.join(file), text).unwrap();

    let told = held_up(
        |process| {
            write("cgroup.procs", &process.to_string());
            write("cgroup.freeze", "1");
        },
        |_| write("cgroup.freeze", "0"),
    );

    if let Some((report, went_on)) = told {
        assert_is_not_told(&report, went_on);
    }
}

#[test]
fn what_a_process_becomes_by_exec_is_watched_to_its_end() {
    let dir = TempDir::new().unwrap();
    let result = dir.path().join("result");
    let mut command = laggard();
    command.args(["--json", "--", "sh", "-c"]);
    command.arg("sleep 0.1; exec \"$0\" --exact planned --quiet");
    command.arg(std::env::current_exe().unwrap());
    command.env(RESULT, &result);

    let output = command.output().unwrap();

    let Some(report) = report(&output) else {
        return;
    };
    assert!(result.exists(), "it ran to its end: {report:#}");
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "planned")
        .unwrap_or_else(|| panic!("{report:#}"));
    let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
    let unfinished = u64::from(row["unfinished"].is_object());
    assert_eq!(number(row, "activations") + unfinished + not_told, CYCLES);
    assert_eq!(number(row, "stopped"), 0, "{row:#}");
}

#[test]
fn threads_without_a_row_are_named_with_their_count() {
    let dir = TempDir::new().unwrap();
    let mut command = laggard();
    command.args(["--json", "--rows=5"]);
    program(&mut command, &dir.path().join("result"), 40);

    let output = command.output().unwrap();

    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    let watched = number(&report, "threads");
    assert!(watched >= 40, "{report:#}");
    assert_eq!(number(&report, "ended"), watched);
    let others = report["others"].as_array().unwrap();
    let without: u64 = others.iter().map(|one| number(one, "threads")).sum();
    let mut with: Vec<u64> = rows.iter().map(|row| number(row, "number")).collect();
    with.sort_unstable();
    with.dedup();
    assert_eq!(without + with.len() as u64, watched, "{report:#}");
}

/// As many as a program has threads that has many: what few there are of real-time ones
/// come first, however late they came and seldom they run.
#[test]
fn of_two_thousand_threads_real_time_ones_have_rows_and_none_is_missing() {
    let script = "import os, threading, time\n\
        threading.stack_size(65536)\n\
        go = threading.Event()\n\
        def wait():\n    go.wait()\n    time.sleep(.01)\n\
        def real():\n    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(30))\n    \
        for _ in range(8): time.sleep(.01)\n\
        all = [threading.Thread(target=wait) for _ in range(2000)]\n\
        all += [threading.Thread(target=real) for _ in range(2)]\n\
        for one in all: one.start()\n\
        go.set()\n\
        for one in all: one.join()\n";

    let Some(report) = of_python(script, &["--episodes=off"]) else {
        return;
    };

    let threads = number(&report, "threads");
    assert!(threads >= 2_003, "{threads}");
    assert_eq!(number(&report, "ended"), threads);
    let rows = report["rows"].as_array().unwrap();
    let first: Vec<&str> = rows
        .iter()
        .map(|row| row["policy"].as_str().unwrap())
        .collect();
    assert_eq!(first[..2], ["fifo:30", "fifo:30"], "{first:?}");
    let others = report["others"].as_array().unwrap();
    let without: u64 = others.iter().map(|one| number(one, "threads")).sum();
    let mut with: Vec<u64> = rows.iter().map(|row| number(row, "number")).collect();
    with.sort_unstable();
    with.dedup();
    assert_eq!(without + with.len() as u64, threads);
}

#[test]
fn a_number_that_is_used_again_is_another_thread() {
    let script = "import os, sys, time\n\
        def run(name, count):\n    open('/proc/self/comm', 'w').write(name)\n    \
        for _ in range(count): time.sleep(.005)\n    os._exit(0)\n\
        first = os.fork()\n\
        if not first: run('of-first', 20)\n\
        os.waitpid(first, 0)\n\
        for _ in range(500):\n    \
            try: open('/proc/sys/kernel/ns_last_pid', 'w').write(str(first - 1))\n    \
            except OSError: sys.exit(0)\n    \
            other = os.fork()\n    \
            if not other: run('of-second', 30) if os.getpid() == first else os._exit(0)\n    \
            os.waitpid(other, 0)\n    \
            if other == first: break\n";

    let Some(report) = of_python(script, &["--rows=1000", "--episodes=off"]) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let of = |name: &str| {
        rows.iter()
            .find(|row| row["name"] == name && row["woken_by"] == "timer")
    };
    let Some((first, second)) = of("of-first").zip(of("of-second")) else {
        return println!("skipped: no number was used again: {rows:?}");
    };
    assert_eq!(first["tid"], second["tid"], "{rows:?}");
    assert_ne!(first["number"], second["number"]);
    for (row, count) in [(first, 20), (second, 30)] {
        let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
        let unfinished = u64::from(row["unfinished"].is_object());
        let told = number(row, "activations") + unfinished + not_told;
        assert_eq!(told, count, "{row:#}");
    }
}

#[test]
fn a_name_of_escape_sequences_changes_no_terminal_and_a_killed_one_ends_its_row() {
    let mut shell = Command::new("sh")
        .args([
            "-c",
            "printf '\\033[2J\\nx' > /proc/$$/comm; while :; do sleep 0.02; done",
        ])
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    let mut watching = laggard()
        .arg(shell.id().to_string())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Begun::of(&mut watching);
    thread::sleep(Duration::from_millis(1_000));

    shell.kill().unwrap();
    shell.wait().unwrap();

    // Without a duration: it ends because all that it watches have.
    let output = begun.end(watching);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("threads cannot be watched here") {
        return println!("skipped: {said}");
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("have ended"), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\\x1b[2J\\nx/"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("ended: "), "{text}");
}

/// As cyclictest does, which was told as a normal thread.
#[test]
fn a_thread_runs_as_it_did_most_and_not_as_it_did_last() {
    let program = "import os, time\n\
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))\n\
        for _ in range(100): time.sleep(.002)\n\
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))\n\
        for _ in range(3): time.sleep(.002)";
    let mut command = laggard();
    command.args(["--json", "--", "python3", "-c", program]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("python3") || said.contains("Operation not permitted") {
        return println!("skipped: {said}");
    }

    let Some(report) = report(&output) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["woken_by"] == "timer").unwrap();
    assert_eq!(row["policy"], "fifo:40", "{row}");
    assert_eq!(row["is_real_time"], true, "{row}");
    let other = &row["other_policies"][0];
    assert!((1..=3).contains(&number(other, "count")), "{row}");
    let sentences = report["sentences"].to_string();
    assert!(sentences.contains("the rest as fifo:40"), "{sentences}");
}

/// The kernel wakes nobody as the next period of such a thread begins.
#[test]
fn jobs_of_a_deadline_thread_that_end_by_yielding_are_told_each() {
    const JOBS: u64 = 200;
    const PERIOD_NS: u64 = 5_000_000;
    let program = format!(
        "import os, time\n\
         for _ in range({JOBS}):\n\
        \x20    begun = time.thread_time()\n\
        \x20    while time.thread_time() - begun < 0.0003: pass\n\
        \x20    os.sched_yield()"
    );
    let period = PERIOD_NS.to_string();
    let mut command = laggard();
    command.args(["--json", "--deadline=5ms", "--", "chrt", "--deadline"]);
    command.args(["--sched-runtime", "2000000"]);
    command.args(["--sched-deadline", &period, "--sched-period", &period]);
    command.args(["0", "/usr/bin/python3", "-c", &program]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !said.contains("Traceback") {
        return println!("skipped: {said}");
    }
    let Some(report) = report(&output) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["wakers"][0]["who"] == "its next period")
        .unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(row["policy"], "deadline", "{row:#}");
    // Who is late for the next period goes on at once, as the same activation.
    let late = number(&row["deadline"], "misses");
    let told = number(row, "activations") + number(row, "unseen") + number(row, "lost");
    assert!(told <= JOBS && told + 10 + 2 * late >= JOBS, "{row:#}");
    assert!(number(&row["execution"], "median_ns") >= 300_000, "{row:#}");
    assert!(number(&row["response"], "median_ns") >= 300_000, "{row:#}");
    // There is no wake to be seen, whatever else is not.
    assert!(number(row, "inferred") <= told / 10, "{row:#}");
    if late == 0 {
        let found = number(row, "period_ns");
        assert!(found.abs_diff(PERIOD_NS) < PERIOD_NS / 100, "{row:#}");
    }
}

#[test]
fn what_is_not_there_is_refused_with_a_reason() {
    // The largest number that there can be is above the usual limit.
    for (args, words) in [
        (
            &["4194303", "-d", "1s"][..],
            "process 4194303 cannot be attached to",
        ),
        (
            &["--comm", "no such name", "-d", "1s"],
            "no process or thread is called",
        ),
        (
            &["1", "--tid", "4194303", "-d", "1s"],
            "process 1 has no thread 4194303",
        ),
        (
            &["1", "--stack-rate", "20000", "-d", "1s"],
            "20000 stack samples a second are out of range",
        ),
        (&["--cgroup", "", "-d", "1s"], "control group"),
        // Of a command that is yet to run no thread has a number.
        (
            &["--tid", "1", "-d", "1s", "--", "true"],
            "cannot be used with",
        ),
        (
            &["-d", "1s", "--", "/no/such/program"],
            "run `/no/such/program`",
        ),
    ] {
        let output = laggard().args(args).output().unwrap();

        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("threads cannot be watched here") {
            println!("skipped: {said}");
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn a_root_without_the_capabilities_is_told_which_it_lacks() {
    let output = Command::new("setpriv")
        .arg("--bounding-set=-bpf,-perfmon,-sys_admin")
        .arg(env!("CARGO_BIN_EXE_laggard"))
        .args(["attach", "-d", "1s", "--", "true"])
        .output();
    let Ok(output) = output else {
        return println!("skipped: there is no setpriv");
    };

    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("setpriv") || !nix::unistd::geteuid().is_root() {
        return println!("skipped: {said}");
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("this root may not") && said.contains("CAP_BPF"),
        "{said}"
    );
}

#[test]
fn in_a_pid_namespace_it_says_that_numbers_are_the_kernels() {
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(env!("CARGO_BIN_EXE_laggard"))
        .args(["attach", "-d", "1s", "--", "sleep", "0.1"])
        .output();
    let Ok(output) = output else {
        return println!("skipped: there is no unshare");
    };

    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare:") || said.contains("threads cannot be watched here") {
        return println!("skipped: {said}");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("the kernel's own numbers"), "{text} {said}");
}

#[test]
fn a_command_that_a_signal_ends_before_its_time_has_failed() {
    let output = laggard()
        .args(["-d", "30s", "--", "sh", "-c", "sleep 0.1; kill -KILL $$"])
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("threads cannot be watched here") {
        return println!("skipped: {said}");
    }
    assert_eq!(output.status.code(), Some(128 + 9), "{said}");
}

#[test]
fn the_commands_exit_code_is_passed_on() {
    let output = laggard()
        .args(["--", "sh", "-c", "sleep 0.1; exit 7"])
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("threads cannot be watched here") {
        return println!("skipped: {said}");
    }
    assert_eq!(output.status.code(), Some(7), "{said}");
}

/// What is told of `script`, which Python runs.
fn of_python(script: &str, more: &[&str]) -> Option<Value> {
    let mut command = laggard();
    command.arg("--json").args(more);
    command.args(["--", "python3", "-c", script]);
    let output = command.output().unwrap();
    report(&output)
}

#[test]
fn a_program_that_goes_to_the_background_is_watched_to_its_own_end() {
    let script = "import os, time\n\
        if os.fork(): os._exit(0)\n\
        os.setsid()\n\
        if os.fork(): os._exit(0)\n\
        open('/proc/self/comm', 'w').write('gone-back')\n\
        for _ in range(60): time.sleep(.01)\n";

    let Some(report) = of_python(script, &[]) else {
        return;
    };

    assert_eq!(number(&report, "ended"), number(&report, "threads"));
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "gone-back")
        .unwrap_or_else(|| panic!("{report:#}"));
    let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
    let unfinished = u64::from(row["unfinished"].is_object());
    assert_eq!(number(row, "activations") + unfinished + not_told, 60);
}

#[test]
fn what_goes_on_when_its_time_is_over_is_left_as_it_is() {
    let dir = TempDir::new().unwrap();
    let result = dir.path().join("result");
    let script = format!(
        "import os, time\n\
         if os.fork(): os._exit(0)\n\
         os.setsid()\n\
         nobody = os.open('/dev/null', os.O_WRONLY)\n\
         os.dup2(nobody, 1)\n\
         os.dup2(nobody, 2)\n\
         time.sleep(4)\n\
         open('{}', 'w').write('whole')\n",
        result.display()
    );

    if of_python(&script, &["--duration=2s"]).is_none() {
        return;
    }

    // Not a bound: until it is there, or the test is given up.
    let begun = Instant::now();
    while !result.exists() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(result.exists(), "it was not ended");
}

#[test]
fn a_process_that_has_ended_and_is_not_waited_for_is_not_watched() {
    let mut ended = Command::new("true").spawn().unwrap();
    let path = format!("/proc/{}/stat", ended.id());
    while !fs::read_to_string(&path).unwrap().contains(") Z ") {
        thread::sleep(Duration::from_millis(10));
    }

    let output = laggard()
        .args(["-d", "1s", &ended.id().to_string()])
        .output()
        .unwrap();

    ended.wait().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("threads cannot be watched here") {
        return println!("skipped: {said}");
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("it has ended"), "{said}");
}
