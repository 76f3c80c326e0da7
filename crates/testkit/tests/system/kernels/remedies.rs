//! Remedies that need settings of the whole machine: with the remedy, the delay is gone.
//!
//! `model/src/remedy.rs` names these tests.

use laggard_testkit::host::TestHost;

use crate::hosts::{DEADLINE, fetch, figure, run};

/// Shell function that measures `SCHED_FIFO` 90 for 5 s. For 3 s of them, a thread of a lower
/// real-time priority never sleeps while a `SCHED_OTHER` thread waits.
const BUSY: &str = "\
    busy() { \
        cyclictest -q -D 5 -p 90 -i 1000 -m & test=$!; sleep 1; \
        sh -c 'while :; do :; done' & other=$!; \
        chrt -f 60 timeout 3 chrt -f 50 sh -c 'while :; do :; done'; \
        wait $test; kill $other; \
    }";
/// The kernel stops real-time threads for 50 ms of each second.
const MIN_STOPPED_US: u64 = 40_000;
/// Largest latency of a kernel in virtual time without the stops.
const MAX_OTHERWISE_US: u64 = 10_000;

fn assert_removed(kernel: &str, remedy: &str) {
    let Some(kernel) = fetch(kernel) else { return };
    let host = TestHost::new(kernel)
        .deadline(DEADLINE)
        .command(&format!("{BUSY}; busy; {remedy} && busy"));
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    let tests: Vec<&str> = outcome.output.split("\nT: 0").skip(1).collect();
    let [before, after] = tests[..] else {
        panic!("{}", outcome.output);
    };

    let (before, after) = (figure(before, "Max:"), figure(after, "Max:"));

    assert!(before > MIN_STOPPED_US, "{before} us");
    assert!(after < MAX_OTHERWISE_US, "{after} us");
}

/// Linux 6.12 refuses the loop without the first command.
#[test]
#[ignore = "boots kernels"]
fn disabling_the_fair_server_removes_its_delay() {
    assert_removed(
        "6.12",
        "sysctl -w kernel.sched_rt_runtime_us=-1 && \
         for file in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do \
             echo 0 >$file || exit 5; \
         done",
    );
}

#[test]
#[ignore = "boots kernels"]
fn disabling_realtime_throttling_removes_its_delay() {
    assert_removed("6.1", "sysctl -w kernel.sched_rt_runtime_us=-1");
}
