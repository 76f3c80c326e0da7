//! Context switch times compared with other programs, in virtual time.

use std::fs;
use std::path::{Path, PathBuf};

use laggard_testkit::host::Architecture;
use serde_json::Value;

use super::on_each_kernel;
use crate::hosts::{DEADLINE, architecture, laggard, skip};

/// Two processes on the only CPU, as in both other programs.
const OURS: &str = "laggard bench switch --via pipe --processes --policy fifo:80 --threads 2 \
    --duration 4s --json >/result/ours";

/// Among `SCHED_OTHER` processes, a woken process may preempt at once or wait until the other
/// sleeps, depending on their shares. Each program has a different mixture of both, so this uses
/// a real-time policy without throttling. Round-robin, because the processes of `lat_ctx` spin
/// while they wait for each other.
const ALIKE: &str = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us && chrt -r 80";

/// Maximum relative difference.
const MAX_DIFFERENCE: f64 = 0.15;

/// Returns laggard's median of unobserved context switches in us.
fn ours_us(files: &Path) -> f64 {
    let text = fs::read(files.join("ours")).unwrap();
    let report: Value = serde_json::from_slice(&text).unwrap();
    report["rows"][0]["untraced_median_ns"].as_f64().unwrap() / 1e3
}

/// Runs `theirs` and laggard on each kernel; `told_us` parses the time of one switch from the
/// other program's output.
fn compare(program: &Path, theirs: &str, told_us: impl Fn(&str) -> f64) {
    if architecture() != Architecture::Amd64 {
        return skip("the other program, of this machine, does not run on arm64");
    }
    let Some(laggard) = laggard() else { return };
    let outcomes = on_each_kernel(|host| {
        host.program(&laggard)
            .program(program)
            .deadline(DEADLINE)
            .memory_mib(1024)
            .command(&format!("{ALIKE} {theirs} 2>&1 && {OURS}"))
    });
    for (name, outcome) in outcomes {
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.output);

        let (ours, theirs_us) = (ours_us(&outcome.files), told_us(&outcome.output));
        eprintln!("{name}: laggard {ours:.2} us, {theirs} {theirs_us:.2} us");
        assert!(
            (ours / theirs_us - 1.0).abs() <= MAX_DIFFERENCE,
            "{name}: {ours} {theirs_us}"
        );
    }
}

#[test]
#[ignore = "boots kernels"]
fn a_hand_over_by_pipe_takes_as_long_as_half_an_operation_of_perf() {
    const OPERATIONS: f64 = 20_000.0;
    let perf = Path::new("/usr/bin/perf");
    if !perf.exists() {
        return skip("there is no perf (Debian: linux-perf)");
    }
    // Seconds, of operations that consist of two switches.
    let parse = |output: &str| {
        let seconds = output.lines().find_map(|line| line.parse::<f64>().ok());
        seconds.unwrap_or_else(|| panic!("{output}")) / OPERATIONS / 2.0 * 1e6
    };
    compare(perf, "perf bench -f simple sched pipe -l 20000", parse);
}

/// Returns Debian's path of `lat_ctx`, or `LAT_CTX`: it is not in Debian's main archive.
fn lat_ctx() -> Option<PathBuf> {
    let variable = std::env::var_os("LAT_CTX").map(PathBuf::from);
    let path = variable
        .unwrap_or_else(|| PathBuf::from("/usr/lib/lmbench/bin/x86_64-linux-gnu").join("lat_ctx"));
    path.exists().then_some(path)
}

#[test]
#[ignore = "boots kernels"]
fn a_hand_over_by_pipe_takes_as_long_as_lat_ctx_finds_before_it_takes_its_pipes_off() {
    let Some(lat_ctx) = lat_ctx() else {
        return skip("there is no lat_ctx (Debian: lmbench, of non-free, or LAT_CTX=PATH)");
    };
    // `"size=0k ovr=0.50`, then `2 1.75`: overhead of its pipes, and the rest, in us.
    let parse = |output: &str| {
        let (_, rest) = output.split_once("ovr=").expect(output);
        let words: Vec<&str> = rest.split_whitespace().take(3).collect();
        let us = |word: &str| -> f64 { word.parse().unwrap_or_else(|_| panic!("{output}")) };
        us(words[0]) + us(words[2])
    };
    compare(&lat_ctx, "lat_ctx -s 0 -N 3 2", parse);
}
