//! Windows interface of a session.

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

/// Clock of all time stamps.
pub(crate) const CLOCK: &str = "QueryPerformanceCounter";

/// Type without values, because CPUs cannot be kept awake on Windows.
#[derive(Debug)]
pub(crate) enum Awake {}

/// Always returns an error.
pub(crate) fn hold_awake() -> io::Result<Awake> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the machine and the warnings about settings that harm latency.
pub(crate) fn identity(_: &CpuList, _: &[Service]) -> (Host, Vec<Caveat>) {
    (windows::identify(), windows::setup_caveats())
}

/// Opens the probe of this machine. There is only one kind.
pub(crate) fn open(request: Request, _: &ProbeChoice) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(WindowsProbe::new(request)?))
}

/// Opening the recorder cannot fail if there are events, which the probe requests.
pub(crate) type FlightRefused = Infallible;

/// Returns whether causes of late wakeups are available.
pub(crate) fn can_explain(probe: &dyn Probe) -> bool {
    probe.record_of_kernel().is_some()
}

/// Returns whether the events cover this service. Windows chooses the CPU of the driver's
/// services.
pub(crate) const fn explains(service: Service) -> bool {
    !service.is_of_driver()
}

/// Starts the flight recorder. Windows determines the interval of samples.
pub(crate) fn flight(
    _: &CpuList,
    _: u32,
    probe: &mut dyn Probe,
) -> Result<(Box<dyn Flight>, Vec<Caveat>), FlightRefused> {
    let events = probe
        .record_of_kernel()
        .expect("only called if there are events");
    Ok((Box::new(EventFlight::new(events)), Vec::new()))
}

/// Source of names for addresses: kernel events, which report its images.
#[derive(Clone, Debug)]
pub(crate) struct SymbolSource(Arc<dyn KernelRecord>);

impl SymbolSource {
    pub(crate) fn of(probe: &dyn Probe) -> Self {
        Self(
            probe
                .record_of_kernel()
                .expect("only called if there are events"),
        )
    }

    pub(crate) fn book(&self, _hurry: Arc<AtomicBool>) -> SymbolBook {
        SymbolBook::new(Arc::clone(&self.0))
    }
}

/// Does nothing, because Windows lacks control groups.
pub(crate) const fn note_competitors(_: &mut SymbolBook, _: &Episode) {}

/// Places the calling thread, which only writes, behind the measuring threads.
pub(crate) fn use_little() {
    give_way();
}

/// Stub, because late threads are not boosted on Windows.
#[derive(Debug)]
pub(crate) struct LateBoost;

impl LateBoost {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) const fn note_wait(&mut self, _: Nanos) {}
}
