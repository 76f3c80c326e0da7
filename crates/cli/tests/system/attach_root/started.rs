//! Work of a cycle in other threads and processes: threads that it starts, timers and signals, and
//! processes that answer.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{SLEEPER, laggard, number, of_python, report, wait_until_planned};
use crate::scripted::wait_for;

/// Start of the C programs. `count` counts the cycles that certainly or perhaps ended late.
const HEADER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { US = 1000, MS = 1000000 };
static long surely, perhaps;

static long clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static struct timespec at(long ns)
{
    return (struct timespec) { ns / 1000000000, ns % 1000000000 };
}

static void compute(long ns)
{
    long end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
}

static void count(long due)
{
    long response = clock_ns(CLOCK_MONOTONIC) - due;

    surely += response > 3200 * US;
    perhaps += response > 2800 * US;
}
"#;

/// Each expiry of the timer runs `expired` in a new thread.
const THREAD_OF_TIMER: &str = r#"
static long first;

static void expired(union sigval value)
{
    static long number;
    long cycle = __sync_fetch_and_add(&number, 1), now = clock_ns(CLOCK_MONOTONIC);

    (void)value;
    compute(cycle % 5 == 4 ? 6 * MS : MS / 10);
    /* The latest expiry: a busy machine skips some. */
    count(now - (now - first) % (10 * MS));
}

int main(void)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD };
    struct itimerspec period = { { 0, 10 * MS }, { 0, 0 } };
    timer_t timer;

    event.sigev_notify_function = expired;
    first = clock_ns(CLOCK_MONOTONIC) + 100 * MS;
    period.it_value = at(first);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, TIMER_ABSTIME, &period, NULL);
    usleep(1500000);
    timer_delete(timer);
    usleep(100000);
    printf("%ld %ld\n", surely, perhaps);
    return 0;
}
"#;

/// A timer descriptor of 5 ms and the signals of another thread in one event loop. Each seventh
/// signal takes 9 ms.
const TIMER_AND_SIGNALS: &str = r#"
static void *sender(void *argument)
{
    /* A timer whose expiries have not woken the thread yet is not known. */
    usleep(400000);
    for (;;) {
        usleep(3000);
        kill(getpid(), SIGUSR1);
    }
    return argument;
}

int main(void)
{
    int signals, poll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec period = { { 0, 5 * MS }, { 0, 0 } };
    struct epoll_event event = { .events = EPOLLIN };
    long due = clock_ns(CLOCK_MONOTONIC) + 100 * MS, end = due + 2000L * MS;
    struct signalfd_siginfo info;
    unsigned long expired;
    pthread_t thread;
    sigset_t set;
    int number = 0;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_NONBLOCK);
    period.it_value = at(due);
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &period, NULL);
    event.data.fd = timer;
    epoll_ctl(poll, EPOLL_CTL_ADD, timer, &event);
    event.data.fd = signals;
    epoll_ctl(poll, EPOLL_CTL_ADD, signals, &event);
    pthread_create(&thread, NULL, sender, NULL);
    while (due < end) {
        if (epoll_wait(poll, &event, 1, -1) < 1)
            continue;
        if (event.data.fd == signals) {
            if (read(signals, &info, sizeof info) == sizeof info)
                compute(++number % 7 == 0 ? 9 * MS : MS / 10);
            continue;
        }
        if (read(timer, &expired, sizeof expired) != sizeof expired)
            continue;
        compute(MS / 5);
        for (; expired > 0; expired--, due += 5 * MS)
            count(due);
    }
    printf("%ld %ld\n", surely, perhaps);
    return 0;
}
"#;

/// Returns the report on a C program with a deadline of 3 ms, and the cycles that it counted as
/// late; `None`, with a message, if it is unavailable on this machine.
fn report_on_c(program: &str) -> Option<(Value, u64)> {
    let dir = TempDir::new().unwrap();
    let [source, target] = ["program.c", "program"].map(|name| dir.path().join(name));
    fs::write(&source, format!("{HEADER}{program}")).unwrap();
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&target, &source])
        .output();
    let Ok(compiled) = compiled else {
        println!("skipped: there is no C compiler");
        return None;
    };
    let stderr = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{stderr}");
    let output = laggard()
        .args(["--json", "--episodes=off", "--deadline=3ms", "--"])
        .arg(&target)
        .output()
        .unwrap();
    let report = report(&output)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (surely, _) = text.split_once(' ').unwrap();
    Some((report, surely.parse().unwrap()))
}

/// Returns the misses of the rows, the cycles that were not seen included.
fn misses<'a>(rows: impl Iterator<Item = &'a Value>) -> u64 {
    let of_row = |row: &Value| {
        let untold = number(row, "unseen") + number(row, "merged") + number(row, "lost");
        row["deadline"]["misses"].as_u64().unwrap_or(0) + untold
    };
    rows.map(of_row).sum()
}

#[test]
fn function_of_a_posix_timer_is_part_of_its_cycle() {
    let Some((report, surely)) = report_on_c(THREAD_OF_TIMER) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["home"]["call"] == "rt_sigtimedwait");
    let row = row.unwrap_or_else(|| panic!("{report:#}"));
    assert!(surely >= 10, "{surely}");
    let missed = misses([row].into_iter());
    assert!(10 * missed >= 9 * surely, "{missed} of {surely}: {row:#}");
    // The threads of the function do not have rows.
    assert!(rows.len() < 10, "{report:#}");
}

#[test]
fn timer_that_is_due_during_the_work_for_a_signal_is_missed() {
    let Some((report, surely)) = report_on_c(TIMER_AND_SIGNALS) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let by_timer = rows.iter().filter(|row| row["woken_by"] == "timer");
    // Without the thread that sends.
    let by_timer = by_timer.filter(|row| row["home"]["call"] == "epoll_wait");
    assert!(surely >= 20, "{surely}");
    let missed = misses(by_timer);
    assert!(
        10 * missed >= 9 * surely,
        "{missed} of {surely}: {report:#}"
    );
}

#[test]
fn process_that_answers_over_the_network_is_named() {
    let script = "import os, socket, time\n\
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        server.bind(('127.0.0.1', 0))\n\
        if os.fork() == 0:\n    \
        open('/proc/self/comm', 'w').write('answerer')\n    \
        for _ in range(20):\n        \
        data, peer = server.recvfrom(8)\n        \
        time.sleep(.02)\n        \
        server.sendto(data, peer)\n    \
        os._exit(0)\n\
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        for _ in range(20):\n    \
        time.sleep(.03)\n    \
        client.sendto(b'x', server.getsockname())\n    \
        client.recv(8)\n\
        os.wait()\n";
    let Some(report) = of_python(script, &["--deadline=5ms", "--episodes=on"]) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let parts = rows
        .iter()
        .filter_map(|row| row["deadline"]["taken"].as_array())
        .flatten();
    let wait = parts
        .into_iter()
        .find(|part| part["kind"] == "wait" && part["site"]["call"] == "recvfrom");
    let wait = wait.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(wait["waker"]["thread"], "answerer", "{report:#}");
}

#[test]
fn processes_that_a_process_has_started_are_watched_with_it() {
    let mut shell = Command::new("sh")
        .args(["-c", "\"$0\" --exact attach_root::planned --quiet & wait"])
        .arg(std::env::current_exe().unwrap())
        .env(SLEEPER, "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", shell.id());
    let mut child = None;
    wait_for("the shell has a child", || {
        child = fs::read_to_string(&children).unwrap().trim().parse().ok();
        child.is_some()
    });
    wait_until_planned(child.unwrap());

    let output = laggard()
        .args(["--json", "--episodes=off", "-d1s", &shell.id().to_string()])
        .output()
        .unwrap();

    let report = report(&output);
    let rows = report.iter().flat_map(|report| report["rows"].as_array());
    let row = rows.flatten().find(|row| row["name"] == "planned");
    // The shell ends after its child.
    match row.and_then(|row| row["process"].as_i64()) {
        Some(child) => {
            let child = nix::unistd::Pid::from_raw(child.try_into().unwrap());
            nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGTERM).unwrap();
        }
        None => shell.kill().unwrap(),
    }
    shell.wait().unwrap();
    if let Some(report) = &report {
        let row = row.unwrap_or_else(|| panic!("{report:#}"));
        assert!(number(row, "activations") > 0, "{report:#}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("and its descendant"), "{stderr}");
    }
}
