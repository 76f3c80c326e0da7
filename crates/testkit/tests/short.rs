//! What `make test` asserts on test hosts: one stock and one `PREEMPT_RT` kernel
//! are booted, and laggard tells there what it can measure, measures it, and
//! shows it. `make test-kernels` has the rest.

mod hosts;

use std::collections::BTreeSet;
use std::fs;

use hosts::{
    DEADLINE, RECEIVE_TIMEOUT, assert_receive_timeout, fetch, figure, laggard, manifest, run,
    served, show,
};
use laggard_model::{Nanos, Route, Service, State};
use laggard_testkit::host::TestHost;

const COMMAND: &str = "\
    laggard doctor > /result/doctor; \
    laggard record -q --services irq,softirq,worker,fifo:90 --episodes off --duration 2s \
        -o /result/r.laggard || [ $? = 3 ] || exit 1; \
    cyclictest -q -D 1 -p 90 -m";

#[test]
fn a_stock_kernel_gives_every_service_and_the_median_that_cyclictest_sees() {
    measure("6.12", "yes  BPF object deferred");
}

#[test]
fn a_realtime_kernel_gives_every_service_and_the_median_that_cyclictest_sees() {
    measure("6.12-rt", "yes  timer descriptors");
}

/// Reads of 16 MiB at a time, in which a stock kernel gives way seldom.
const READS: &str = r#"
name = "reads"
about = "reads of 16 MiB at a time"
order = "together"
unit = "rounds"
[[step]]
name = "reads"
command = "dd if=/dev/zero of=/tmp/z bs=16M count=1 2>/dev/null; for i in 1 2 3 4 5 6 7 8; do dd if=/tmp/z of=/dev/null bs=16M 2>/dev/null; done; echo 8"
work = "output"
"#;

/// Timmerman (1998) asks for a largest time that does not grow with the load: what a
/// stock kernel does without giving way, a real-time one does not.
#[test]
fn a_largest_time_under_load_fails_on_a_stock_kernel_and_passes_on_a_realtime_one() {
    let of = |kernel| Some(criterion(kernel)?["rows"][0].clone());
    let Some((stock, realtime)) = of("6.12").zip(of("6.12-rt")) else {
        return;
    };

    assert_eq!(stock["verdict"], "fail", "{stock}");
    assert_eq!(realtime["verdict"], "pass", "{realtime}");
}

/// What `laggard rtos` says of the largest time, and `laggard timers` of a tick: the
/// receive timeout waits for two (Jones & Regehr 1999, section 3, in today's Linux).
fn criterion(kernel: &str) -> Option<serde_json::Value> {
    let laggard = laggard()?;
    let kernel = fetch(kernel)?;
    let command = format!(
        "cat >/reads.toml <<'END'\n{READS}\nEND\n\
         {RECEIVE_TIMEOUT} || exit 2\n\
         laggard rtos --only largest --loads idle,/reads.toml --duration 4s --json >/result/rtos\n\
         [ $? -le 1 ]"
    );
    let host = TestHost::new(kernel)
        .program(&laggard)
        .deadline(DEADLINE)
        .command(&command);
    let outcome = run(host)?.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(outcome.files.join(name)).unwrap()).unwrap()
    };

    assert_receive_timeout(&json("timers"));
    Some(json("rtos"))
}

/// Boots `kernel` in virtual time, in which latencies are the same however
/// busy this machine is. `softirq` is what doctor says of that service.
fn measure(kernel: &str, softirq: &str) {
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch(kernel) else { return };
    let host = TestHost::new(kernel)
        .program(&laggard)
        .deadline(DEADLINE)
        .command(COMMAND);
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);

    let doctor = fs::read_to_string(outcome.files.join("doctor")).unwrap();
    for ability in [softirq, "yes  service fifo:90"] {
        assert!(doctor.contains(ability), "no `{ability}` in\n{doctor}");
    }
    let manifest = manifest(&outcome);
    let services: BTreeSet<String> = manifest
        .lines
        .iter()
        .map(|line| line.service.to_string())
        .collect();
    let expected = ["fifo:90", "softirq", "worker"].map(str::to_owned);
    assert_eq!(services, BTreeSet::from(expected), "{doctor}");
    assert_eq!(manifest.state, State::Complete);
    assert!(
        show(&laggard, &outcome)
            .lines()
            .any(|line| line.starts_with("irq "))
    );

    let direct = manifest
        .lines
        .iter()
        .position(|line| (line.service, line.route) == (Service::Fifo(90), Route::Direct))
        .unwrap();
    let mut latencies: Vec<Nanos> = served(&outcome, "r.laggard")
        .iter()
        .filter(|one| usize::from(one.line.0) == direct)
        .map(|one| one.latency())
        .collect();
    latencies.sort_unstable();
    assert!(latencies.len() > 1_500, "{} of about 2000", latencies.len());
    let median = latencies[latencies.len() / 2].ns();
    let mean_ns = 1_000 * figure(&outcome.output, "Avg:");
    // Stamping the stages costs instructions, which are dear here.
    assert!(
        median * 10 >= mean_ns * 9 && median * 10 <= mean_ns * 15,
        "laggard: {median} ns, cyclictest: {mean_ns} ns"
    );
}
