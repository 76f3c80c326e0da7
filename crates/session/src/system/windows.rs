//! Windows, as a session sees it.

use std::io;

use laggard_measure::windows::{self, WindowsProbe, give_way};
use laggard_measure::{Probe, ProbeError, Request};
use laggard_model::{Caveat, CpuList, Host, Nanos, Service};

use crate::ProbeChoice;

pub(crate) use laggard_measure::windows::{allowed_cpus as usual_cpus, now};

/// The clock of all time stamps.
pub(crate) const CLOCK: &str = "QueryPerformanceCounter";

/// Nothing holds CPUs awake here.
#[derive(Debug)]
pub(crate) enum Awake {}

/// Always refused.
pub(crate) fn hold_awake() -> io::Result<Awake> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The machine, and what of it spoils latency.
pub(crate) fn identity(_: &CpuList, _: &[Service]) -> (Host, Vec<Caveat>) {
    (windows::identify(), windows::setup_caveats())
}

/// Opens the probe of this machine. There is one sort of it.
pub(crate) fn open(request: Request, _: &ProbeChoice) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(WindowsProbe::new(request)?))
}

/// Puts the calling thread, which only writes, behind those that measure.
pub(crate) fn use_little() {
    give_way();
}

/// Nothing is raised where a thread comes late.
#[derive(Debug)]
pub(crate) struct LateBoost;

impl LateBoost {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) const fn note_wait(&mut self, _: Nanos) {}
}
