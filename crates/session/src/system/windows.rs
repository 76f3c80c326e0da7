//! Windows, as a session sees it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use laggard_measure::flight::KernelRecord;
use laggard_measure::{Flight, Probe, ProbeError, Request};
use laggard_measure_windows::{self as windows, EventFlight, WindowsProbe, give_way};
use laggard_model::{Caveat, CpuList, Episode, Host, Nanos, Service};

use crate::ProbeChoice;

pub(crate) use laggard_measure_windows::{
    ImageBook as SymbolBook, allowed_cpus as usual_cpus, now,
};

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

/// There is always one where there are events, which the probe asks for.
pub(crate) type FlightRefused = Infallible;

/// Whether what is late can be explained.
pub(crate) fn can_explain(probe: &dyn Probe) -> bool {
    probe.record_of_kernel().is_some()
}

/// Whether it tells who made this service late: on which CPU those of the driver run
/// Windows chooses.
pub(crate) const fn explains(service: Service) -> bool {
    !service.is_of_driver()
}

/// The flight recorder: samples are as far apart as Windows has them.
pub(crate) fn flight(
    _: &CpuList,
    _: u32,
    probe: &dyn Probe,
) -> Result<(Box<dyn Flight>, Vec<Caveat>), FlightRefused> {
    let events = probe
        .record_of_kernel()
        .expect("asked for where there are events");
    Ok((Box::new(EventFlight::new(events)), Vec::new()))
}

/// Whoever knows the names of addresses: the kernel, whose events tell its images.
#[derive(Clone, Debug)]
pub(crate) struct SymbolSource(Arc<dyn KernelRecord>);

impl SymbolSource {
    pub(crate) fn of(probe: &dyn Probe) -> Self {
        Self(
            probe
                .record_of_kernel()
                .expect("asked for where there are events"),
        )
    }

    pub(crate) fn book(&self, _hurry: Arc<AtomicBool>) -> SymbolBook {
        SymbolBook::new(Arc::clone(&self.0))
    }
}

/// Nothing: Windows has no control groups.
pub(crate) const fn note_competitors(_: &mut SymbolBook, _: &Episode) {}

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
