//! Timers of other programs that are due at exactly the same ns as laggard's.

use std::thread::JoinHandle;

use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_measure::{Probe as _, Request};
use laggard_model::{Activation, Batch, Cpu, LineId, Nanos, Stage};

use super::{PERIOD, TIME, request};

/// Number of threads whose timers expire together with laggard's. They are armed long before, so
/// the kernel runs them first.
const OTHERS: usize = 30;
/// Number of common expiries.
const TIMES: u64 = 20;
/// Number of periods between two of them: all threads have run by then.
const APART: u64 = 20;

/// Sleeps on `cpu` at FIFO 1, below every thread of laggard, until each of `times`. Returns
/// whether the policy was granted.
fn sleep_until(cpu: Cpu, times: Vec<Nanos>) -> JoinHandle<bool> {
    std::thread::spawn(move || {
        super::accounts::pin(0, cpu.0 as usize);
        let priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: `priority` is valid for reads; 0 is the calling thread.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0 {
            return false;
        }
        for time in times {
            let until = libc::timespec {
                tv_sec: (time.ns() / 1_000_000_000).cast_signed(),
                tv_nsec: (time.ns() % 1_000_000_000).cast_signed(),
            };
            let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
            // SAFETY: `until` is valid for reads; the remaining time is not written.
            unsafe {
                libc::clock_nanosleep(clock, flags, &raw const until, std::ptr::null_mut());
            }
        }
        true
    })
}

#[test]
fn foreign_timer_at_the_same_nanosecond_is_not_mistaken_for_laggards() {
    let plan = Request {
        dither: false,
        ..request("fifo:90")
    };
    let mut probe = match LinuxProbe::new(plan, BackendChoice::Bpf) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return;
        }
    };
    let mut batch = Batch::default();
    probe.start().unwrap();
    probe.pause(TIME / 4);
    probe.drain(&mut batch);
    let of_line = |activation: &Activation| activation.line == LineId(0);
    let last = batch.iter().filter(of_line).last().unwrap().expiry;
    let instants: Vec<Nanos> = (1..=TIMES)
        .map(|time| last + PERIOD * (APART * (4 + time)))
        .collect();
    let cpu = probe.lines()[0].cpu;
    let others: Vec<JoinHandle<bool>> = (0..OTHERS)
        .map(|_| sleep_until(cpu, instants.clone()))
        .collect();
    probe.pause(TIME);
    probe.stop();
    probe.drain(&mut batch);
    if !others.into_iter().all(|other| other.join().unwrap()) {
        println!("skipped: this user may not have SCHED_FIFO");
        return;
    }

    // Steps until the callback of the laggard timer, which the other timers delay, and from there
    // to the immediate wakeup of the thread.
    let steps: Vec<[Nanos; 2]> = batch
        .iter()
        .filter(|activation| of_line(activation) && instants.contains(&activation.expiry))
        .filter_map(|activation| {
            let step = |stage: Stage| activation.steps[stage.index()];
            Some([step(Stage::Expire)?, step(Stage::Waking)?])
        })
        .collect();
    let distinguished = steps.iter().filter(|[expire, waking]| expire > waking);
    assert!(steps.len() as u64 > TIMES / 2, "{steps:?}");
    assert!(distinguished.count() * 4 > steps.len() * 3, "{steps:?}");
}
