//! Measurements on this machine. The tests check order, sums and counts, never a duration.
//!
//! They need root and a kernel with BTF; otherwise each test prints that it is skipped, and why.

mod accounts;
mod cost;
mod foreign_timer;
mod plan;
mod refused;
mod rescheduled;
mod stages;
mod tracepoints;

use std::time::Duration;

use crate::asked::{PERIOD, request};
use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_measure::{Probe, Request};
use laggard_model::{Account, Activation, Backend, Batch, Caveat, Line, Losses, Nanos, OwnCost};

const TIME: Duration = Duration::from_secs(1);
const EVERY_SERVICE: &str = "irq,softirq,worker,fifo:90,fifo:50,other";

struct Measured {
    lines: Vec<Line>,
    batch: Batch,
    losses: Losses,
    accounts: Vec<Account>,
    /// Time from start to end.
    time: Nanos,
    cost: OwnCost,
    backend: Backend,
    caveats: Vec<Caveat>,
}

impl Measured {
    fn of_line(&self, line: usize) -> impl Iterator<Item = Activation> + '_ {
        self.batch
            .iter()
            .filter(move |activation| usize::from(activation.line.0) == line)
    }
}

/// Measures with BPF, or prints why it cannot.
fn measure(services: &str) -> Option<Measured> {
    measure_request(request(services))
}

fn measure_request(request: Request) -> Option<Measured> {
    measure_by(request, BackendChoice::Bpf)
}

/// Measures with this backend, or prints why it cannot.
fn measure_by(request: Request, backend: BackendChoice) -> Option<Measured> {
    measure_for(request, backend, TIME)
}

fn measure_for(request: Request, backend: BackendChoice, time: Duration) -> Option<Measured> {
    let mut probe = match LinuxProbe::new(request, backend) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return None;
        }
    };
    for caveat in probe.caveats() {
        println!("{}", caveat.what);
    }
    let mut batch = Batch::default();
    let start = probe.start().unwrap();
    probe.pause(time);
    probe.drain(&mut batch);
    let end = probe.stop();
    probe.drain(&mut batch);
    Some(Measured {
        lines: probe.lines().to_vec(),
        batch,
        losses: probe.losses(),
        accounts: probe.accounts(),
        time: end.saturating_sub(start),
        cost: probe.cost(),
        backend: probe.backend(),
        caveats: probe.caveats(),
    })
}
