//! Served, missed and lost expiries add up to the plan, also if a CPU is unavailable.

use std::time::Duration;

use laggard_measure::Probe as _;
use laggard_measure::linux::{BackendChoice, LinuxProbe, online_cpus};
use laggard_model::{Activation, Batch, Line, LineId, Route, Service};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::{EVERY_SERVICE, Measured, PERIOD, TIME, measure, request};

#[test]
fn every_gap_in_the_numbers_of_a_line_is_a_loss() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    let mut gaps = 0;
    for line in 0..measured.lines.len() {
        let numbers: Vec<u64> = measured
            .of_line(line)
            .map(|activation| activation.seq)
            .collect();
        assert!(
            !numbers.is_empty(),
            "{:?} was never served",
            measured.lines[line]
        );
        assert!(
            numbers.windows(2).all(|two| two[0] < two[1]),
            "{:?}",
            measured.lines[line]
        );
        gaps += numbers.last().unwrap() + 1 - numbers.len() as u64;
    }
    // Losses after the last activation do not leave a gap.
    let losses = measured.losses;
    let lost: u64 = measured.accounts.iter().map(|account| account.lost).sum();
    assert!(gaps <= lost, "{gaps} gaps, {losses:?}");
    assert_eq!(losses.activations(), lost, "{losses:?}");
}

/// Checks that each line's activations and losses match its plan.
fn assert_all_is_accounted_for(measured: &Measured) {
    for (index, line) in measured.lines.iter().enumerate() {
        let (account, served) = (
            measured.accounts[index],
            measured.of_line(index).count() as u64,
        );
        assert_eq!(
            account.planned,
            Some(served + account.lost),
            "{line:?}: {account:?}"
        );
        // Two expiries are between half a period and one and a half periods apart, times the
        // number of turns of a line that is requested in turn.
        let turns = match line.route {
            Route::Direct => 1,
            Route::Deferred => {
                let same = |other: &&Line| other.cpu == line.cpu && other.route == Route::Deferred;
                measured.lines.iter().filter(same).count() as u64
            }
        };
        let periods = measured.time.ns() / PERIOD.ns() / turns;
        let planned = served + account.lost;
        assert!(
            planned >= periods / 2 && planned <= periods * 2 + 1,
            "{line:?}: {planned} in {periods} periods"
        );
    }
}

#[test]
fn served_missed_and_lost_add_up_to_the_plan() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    assert_all_is_accounted_for(&measured);
}

/// Longer than the end waits for a service that has not run.
const SPIN: Duration = Duration::from_millis(4_500);

/// Restricts thread `tid` (0: the calling one) to `cpu`.
pub(super) fn pin(tid: i32, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(tid), &set).unwrap();
}

/// Computes at FIFO 97 on `cpu` for [`SPIN`], starting after `delay`, so that no thread of
/// laggard runs there. Returns whether the policy was granted.
fn spin_above_everything(cpu: usize, delay: Duration) -> std::thread::JoinHandle<bool> {
    std::thread::spawn(move || {
        pin(0, cpu);
        std::thread::sleep(delay);
        let priority = libc::sched_param { sched_priority: 97 };
        // SAFETY: `priority` is valid for reads; 0 is the calling thread.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0 {
            return false;
        }
        let end = std::time::Instant::now() + SPIN;
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        true
    })
}

#[test]
fn cpu_unavailable_at_the_end_leaves_expiries_that_waited_until_they_were_given_up() {
    let cpus = online_cpus();
    let Some(cpu) = cpus.as_slice().last().filter(|cpu| cpu.0 > 0) else {
        println!("skipped: there is one CPU only");
        return;
    };
    let runtime = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    let is_throttled = runtime.is_ok_and(|text| text.trim() != "-1");
    let mut probe = match LinuxProbe::new(request("softirq,fifo:90,other"), BackendChoice::Bpf) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return;
        }
    };
    let mut batch = Batch::default();
    let start = probe.start().unwrap();
    probe.pause(TIME / 2);
    probe.drain(&mut batch);
    let spinner = spin_above_everything(cpu.0 as usize, Duration::ZERO);
    probe.pause(TIME / 2);
    let end = probe.stop();
    probe.drain(&mut batch);
    assert!(spinner.join().unwrap());

    let measured = Measured {
        lines: probe.lines().to_vec(),
        batch,
        losses: probe.losses(),
        accounts: probe.accounts(),
        time: end.saturating_sub(start),
        cost: probe.cost(),
        backend: probe.backend(),
        caveats: probe.caveats(),
    };
    assert_all_is_accounted_for(&measured);
    let censored: Vec<Activation> = measured
        .batch
        .iter()
        .filter(|activation| activation.censored)
        .collect();
    for activation in &censored {
        let line = measured.lines[usize::from(activation.line.0)];
        assert_eq!(line.cpu, *cpu, "{line:?}");
        assert!(
            activation.missed
                && activation.expiry < end
                && activation.expiry + activation.latency() >= end
        );
    }
    // If the kernel leaves SCHED_OTHER threads a share, `other` is served in this time.
    let direct = |service| {
        let own = censored
            .iter()
            .map(|activation| measured.lines[usize::from(activation.line.0)]);
        own.filter(|line| line.service == service && line.route == Route::Direct)
            .count()
    };
    assert!(direct(Service::Fifo(90)) > 0);
    assert!(is_throttled || direct(Service::Other) > 0);
}

#[test]
fn starvation_on_another_cpu_at_the_end_is_no_latency_of_the_line() {
    let cpus = online_cpus();
    let (Some(home), Some(away)) = (cpus.as_slice().last(), cpus.as_slice().first()) else {
        return;
    };
    if home == away {
        println!("skipped: there is one CPU only");
        return;
    }
    let mut probe = match LinuxProbe::new(request("fifo:90"), BackendChoice::Bpf) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return;
        }
    };
    let lines = probe.lines().to_vec();
    let place = lines.iter().position(|line| line.cpu == *home).unwrap();
    let thread = probe.thread_of(LineId(u16::try_from(place).unwrap()));
    let mut batch = Batch::default();
    let start = probe.start().unwrap();
    probe.pause(TIME / 2);
    let spinner = spin_above_everything(away.0 as usize, Duration::ZERO);
    probe.pause(TIME / 10);
    pin(thread.unwrap().0.cast_signed(), away.0 as usize);
    probe.pause(TIME / 2);
    let end = probe.stop();
    probe.drain(&mut batch);
    assert!(spinner.join().unwrap());

    let measured = Measured {
        lines,
        batch,
        losses: probe.losses(),
        accounts: probe.accounts(),
        time: end.saturating_sub(start),
        cost: probe.cost(),
        backend: probe.backend(),
        caveats: probe.caveats(),
    };
    assert_all_is_accounted_for(&measured);
    let foreign = measured.accounts[place].losses.foreign;
    assert!(foreign > 0, "{:?}", measured.accounts[place]);
    assert_eq!(
        measured
            .of_line(place)
            .find(|activation| activation.censored),
        None
    );
    // A thread that stayed on the other CPU did wait for it.
    let mut stayed = measured.batch.iter();
    assert!(stayed.any(|activation| activation.censored
        && measured.lines[usize::from(activation.line.0)].cpu == *away));
}
