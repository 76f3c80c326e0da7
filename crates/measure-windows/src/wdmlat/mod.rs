//! Services of the driver `wdmlat.sys`: a timer's DPC, and system threads that it wakes
//! (Cota-Robles and Held, OSDI 1999, 2.2).
//!
//! The driver serves one read at a time, so services take turns. A measuring thread sets the timer
//! for the next expiry of any service, and waits for the result. During this wait no timer is set
//! for the other services. Their expiries are lost, and counted.

mod device;
mod layout;
mod reads;
mod series;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, Cpu, Line, LineId, Nanos, ProbePlan, Route,
    Service,
};
use windows_sys::Win32::Foundation::{ERROR_ACCESS_DENIED, ERROR_FILE_NOT_FOUND};

use self::device::Device;
use self::layout::{CAN_HIGH_RES, DriverInfo, VERSION};
use self::reads::{ReadOutcome, Reads, ReadsState};
use self::series::{DriverSeries, Expiries};
use super::clock;
use super::processors::group_count;
use super::usage::cpu_of;
use laggard_measure::board::Timeline;
use laggard_measure::probe::{ProbeError, Request};
use laggard_measure::source::Source;

/// Time between the expiries of two services: twice the minimum that the driver needs.
const MIN_DISTANCE: Nanos = Nanos::from_us(500);
/// Maximum time for the driver to return a cancelled read: its timers last at most 1 s.
const MAX_CANCEL_TIME: Nanos = Nanos::from_secs(3);
/// Interval of the checks whether the thread has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum number of results that have not been collected: some seconds.
const MAX_RESULTS: usize = 1 << 14;

/// Source of the driver's services.
#[derive(Debug)]
pub(super) struct DriverSource {
    lines: Vec<Line>,
    series: Vec<DriverSeries>,
    state: Arc<ReadsState>,
    /// Present until the start.
    ready: Option<Reads>,
    reading: Option<JoinHandle<()>>,
    told: Receiver<ReadOutcome>,
    request: Request,
    is_fine: bool,
    settled_at: Option<Nanos>,
}

impl DriverSource {
    /// Opens the driver for the services of `request` that it provides.
    pub(super) fn new(request: Request) -> Result<Self, ProbeError> {
        let services: Vec<Service> = request.services.clone();
        let least = MIN_DISTANCE * services.len() as u64;
        if request.period < least {
            return Err(ProbeError::Period(
                request.period,
                least,
                ProbePlan::PERIODS.1,
            ));
        }
        let refused = |reason: String, remedy: &str| ProbeError::Service {
            service: services[0],
            reason,
            remedy: remedy.into(),
        };
        let device = Device::open().map_err(|error| not_opened(services[0], &error))?;
        let info = device
            .info()
            .map_err(|error| refused(format!("cannot query the driver: {error}"), REINSTALL))?;
        if group_count() > 1 {
            return Err(refused(
                "this machine has several groups of CPUs, and the driver numbers the CPUs of all groups".into(),
                "measure threads, which stay within one group",
            ));
        }
        if info.version == VERSION && info.qpc_per_s != clock::frequency() {
            return Err(refused(
                "its performance counter differs from the counter of programs".into(),
                REINSTALL,
            ));
        }
        if info.version != VERSION {
            return Err(refused(
                format!(
                    "the driver has interface version {}, and this program needs {VERSION}",
                    info.version
                ),
                REINSTALL,
            ));
        }
        let cpu = *request.cpus.as_slice().first().unwrap_or(&Cpu(0));
        let line = |&service: &Service| Line::new(cpu, service, Route::Direct);
        let (tell, told) = sync_channel(MAX_RESULTS);
        let state = Arc::new(ReadsState::default());
        let is_fine = is_fine(&info);
        Ok(Self {
            lines: services.iter().map(line).collect(),
            series: services
                .iter()
                .map(|service| DriverSeries::new(service.last_stage()))
                .collect(),
            ready: Some(Reads::new(
                device,
                info,
                cpu,
                services,
                Arc::clone(&state),
                tell,
            )),
            state,
            reading: None,
            told,
            request,
            is_fine,
            settled_at: None,
        })
    }

    /// Returns the expiries of the service at `place`.
    fn plan(&self, place: usize, start: Nanos) -> Expiries {
        let services = &self.request.services;
        let stride = u64::from(self.request.every.of(services[place]));
        let number = |place| u32::try_from(place).expect("there are few services");
        let timeline = Timeline::new(
            self.request.seed,
            self.request.period,
            self.request.dither,
            number(place),
            number(services.len()),
            start,
        );
        Expiries::new(timeline, place as u64 % stride, stride)
    }

    fn take_in(&mut self) {
        while let Ok(result) = self.told.try_recv() {
            self.series[result.place].add(result.planned, result.came);
        }
    }

    /// Ends the thread and waits until it has ended. The driver is free then.
    fn end(&self) {
        self.state.stop.store(true, Ordering::Relaxed);
        let until = clock::now() + MAX_CANCEL_TIME;
        while !self.has_left() && clock::now() < until {
            std::thread::sleep(CHECK_INTERVAL);
        }
    }

    fn has_left(&self) -> bool {
        self.reading.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

const REINSTALL: &str = "run `laggard driver remove`, then `laggard driver install` with the wdmlat.sys of this version";

/// Returns whether its timers have high resolution.
const fn is_fine(info: &DriverInfo) -> bool {
    info.abilities & CAN_HIGH_RES != 0
}

fn not_opened(service: Service, error: &io::Error) -> ProbeError {
    let code = error.raw_os_error().map(i32::cast_unsigned);
    let (reason, remedy) = match code {
        Some(ERROR_FILE_NOT_FOUND) => (
            "the driver wdmlat.sys is not loaded".to_owned(),
            "to load it, run `laggard driver install wdmlat.sys` (windows/driver/README.md)",
        ),
        Some(ERROR_ACCESS_DENIED) => (
            "only administrators may open the driver".to_owned(),
            "run as administrator",
        ),
        _ => (
            format!("cannot open the driver: {error}"),
            "see `laggard driver status`",
        ),
    };
    ProbeError::Service {
        service,
        reason,
        remedy: remedy.into(),
    }
}

impl Source for DriverSource {
    fn backend(&self) -> Backend {
        Backend::Driver
    }

    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn start(&mut self, now: Nanos, first: LineId) -> Result<(), ProbeError> {
        let plans: Vec<Expiries> = (0..self.lines.len())
            .map(|place| self.plan(place, now))
            .collect();
        for (place, (series, plan)) in self.series.iter_mut().zip(&plans).enumerate() {
            let line = LineId::at(usize::from(first.0) + place);
            series.start(line.expect("more lines are refused before"), *plan);
        }
        let Some(reads) = self.ready.take() else {
            return Ok(());
        };
        self.reading = Some(reads.start(plans).map_err(|error| ProbeError::System {
            action: "start reads of the driver".into(),
            remedy: "another program may use it; see `laggard driver status`".into(),
            said: Some(error),
        })?);
        Ok(())
    }

    fn begin(&mut self, from: Nanos) {
        for series in &mut self.series {
            series.settled.begin(from);
        }
        self.state.early.begin();
        self.state.elsewhere.store(0, Ordering::Relaxed);
    }

    fn drain(&mut self, into: &mut Batch) {
        self.take_in();
        if let Some(given_up) = self.settled_at.take() {
            let waited = self.state.waited_for();
            for (place, series) in self.series.iter_mut().enumerate() {
                series.close(waited == Some(place), given_up);
            }
        }
        for series in &mut self.series {
            series.settled.drain(into);
        }
    }

    fn end_at(&mut self, until: Nanos) {
        for series in &mut self.series {
            series.settled.until = until;
        }
        self.state.until.store(until.ns(), Ordering::Relaxed);
        // Not started: the driver is free now.
        self.ready = None;
    }

    fn is_at_rest(&mut self) -> bool {
        self.has_left()
    }

    fn settle(&mut self, given_up: Nanos) {
        self.end();
        self.settled_at = Some(given_up);
    }

    fn accounts(&self) -> Vec<Account> {
        self.series
            .iter()
            .map(|series| series.settled.account())
            .collect()
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = vec![Caveat::new(
            CaveatKind::AbilityAbsent,
            "the driver's services have no trace data; only the latency of the DPC and of the thread is measured",
            "for causes, record a Windows trace and run `laggard import FILE.etl`",
        )];
        if !self.is_fine {
            caveats.push(Caveat::new(
                CaveatKind::TickRate,
                "the driver's timers have no high resolution on this machine, so a DPC runs at the system's tick: up to one tick late or early",
                "use Windows 8.1 or later",
            ));
        }
        caveats.extend(self.state.early_caveat());
        caveats.extend(self.state.elsewhere_caveat(self.lines[0].cpu));
        caveats.extend(self.state.failed_caveat());
        caveats
    }

    fn given_up(&self) -> Option<Nanos> {
        let failed = self.state.failed.load(Ordering::Relaxed);
        (failed > 0).then(|| Nanos::from_ns(failed))
    }

    fn failure(&self) -> Option<String> {
        self.state.failure()
    }

    fn measuring_cpu(&self) -> Nanos {
        self.reading.as_ref().map_or(Nanos::ZERO, cpu_of)
    }
}

impl Drop for DriverSource {
    fn drop(&mut self) {
        self.ready = None;
        self.end();
    }
}
