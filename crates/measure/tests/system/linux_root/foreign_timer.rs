//! Timers of somebody else that are due at the very nanosecond of ours.

use std::thread::JoinHandle;

use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_measure::{Probe as _, Request};
use laggard_model::{Activation, Batch, Cpu, LineId, Nanos, Stage};

use super::{PERIOD, TIME, request};

/// Threads whose timers expire together with ours. They are armed long before
/// it, so the kernel takes theirs first.
const OTHERS: usize = 30;
/// How often that happens.
const TIMES: u64 = 20;
/// Periods from one time to the next: all have run by then.
const APART: u64 = 20;

/// Sleeps on `cpu` at FIFO 1, below every thread of ours, until each of
/// `instants`. Whether the policy may be had.
fn sleep_until(cpu: Cpu, instants: Vec<Nanos>) -> JoinHandle<bool> {
    std::thread::spawn(move || {
        super::accounts::pin(0, cpu.0 as usize);
        let priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: `priority` is valid for reads; 0 is the calling thread.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0 {
            return false;
        }
        for at in instants {
            let until = libc::timespec {
                tv_sec: (at.ns() / 1_000_000_000).cast_signed(),
                tv_nsec: (at.ns() % 1_000_000_000).cast_signed(),
            };
            let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
            // SAFETY: `until` is valid for reads; the rest is not written.
            unsafe {
                libc::clock_nanosleep(clock, flags, &raw const until, std::ptr::null_mut());
            }
        }
        true
    })
}

#[test]
fn a_timer_of_somebody_else_at_our_very_nanosecond_is_not_taken_for_ours() {
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
    let of_line = |one: &Activation| one.line == LineId(0);
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

    // By step: until our timer's callback, which theirs delay; from it to our
    // thread's wakeup, which is at once.
    let steps: Vec<[Nanos; 2]> = batch
        .iter()
        .filter(|one| of_line(one) && instants.contains(&one.expiry))
        .filter_map(|one| {
            let step = |stage: Stage| one.steps[stage.index()];
            Some([step(Stage::Expire)?, step(Stage::Waking)?])
        })
        .collect();
    let told = steps.iter().filter(|[expire, waking]| expire > waking);
    assert!(steps.len() as u64 > TIMES / 2, "{steps:?}");
    assert!(told.count() * 4 > steps.len() * 3, "{steps:?}");
}
