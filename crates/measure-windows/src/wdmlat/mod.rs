//! The services of the driver `wdmlat.sys`: a timer's DPC, and system threads that it
//! wakes (Cota-Robles and Held, OSDI 1999, 2.2).
//!
//! The driver serves one read at a time, so services take turns: one thread of ours sets
//! the timer for whatever is due next, and waits for what came. While one is waited for,
//! no timer is set for the others: what they would have had is lost, and counted.

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

/// Between the expiries of two services: what the driver takes at least, and as much
/// again.
const APART: Nanos = Nanos::from_us(500);
/// How long the driver has to give a read back that is ended: what is armed lasts 1 s at
/// most.
const ENDS: Nanos = Nanos::from_secs(3);
/// How often that is looked for.
const LOOK: Duration = Duration::from_millis(2);
/// What is told and not yet taken, at most: of seconds.
const ROOM: usize = 1 << 14;

/// The driver, and what it told.
#[derive(Debug)]
pub(super) struct DriverSource {
    lines: Vec<Line>,
    series: Vec<DriverSeries>,
    state: Arc<ReadsState>,
    /// Until it is started.
    ready: Option<Reads>,
    reading: Option<JoinHandle<()>>,
    told: Receiver<ReadOutcome>,
    request: Request,
    is_fine: bool,
    settled_at: Option<Nanos>,
}

impl DriverSource {
    /// Opens the driver, for the services of `request` that it gives.
    pub(super) fn new(request: Request) -> Result<Self, ProbeError> {
        let services: Vec<Service> = request.services.clone();
        let least = APART * services.len() as u64;
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
        let info = device.info().map_err(|error| {
            refused(
                format!("the driver tells nothing of itself: {error}"),
                INSTALL_ANEW,
            )
        })?;
        if group_count() > 1 {
            return Err(refused(
                "this machine has several groups of CPUs, and the driver counts CPUs of all".into(),
                "measure threads, which stay in one group",
            ));
        }
        if info.version == VERSION && info.qpc_per_s != clock::frequency() {
            return Err(refused(
                "its performance counter is not the one that programs read".into(),
                INSTALL_ANEW,
            ));
        }
        if info.version != VERSION {
            return Err(refused(
                format!(
                    "the driver has version {}, and this program reads {VERSION}",
                    info.version
                ),
                INSTALL_ANEW,
            ));
        }
        let cpu = *request.cpus.as_slice().first().unwrap_or(&Cpu(0));
        let line = |&service: &Service| Line {
            cpu,
            service,
            route: Route::Direct,
        };
        let (tell, told) = sync_channel(ROOM);
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

    /// The expiries of the service at `place`.
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
        while let Ok(one) = self.told.try_recv() {
            self.series[one.place].add(one.planned, one.came);
        }
    }

    /// Has the thread end, and waits until it has: the driver is free then.
    fn end(&self) {
        self.state.stop.store(true, Ordering::Relaxed);
        let until = clock::now() + ENDS;
        while !self.has_left() && clock::now() < until {
            std::thread::sleep(LOOK);
        }
    }

    fn has_left(&self) -> bool {
        self.reading.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

const INSTALL_ANEW: &str =
    "`laggard driver remove`, then `laggard driver install` with the wdmlat.sys of this version";

/// Whether its timers are of high resolution.
const fn is_fine(info: &DriverInfo) -> bool {
    info.abilities & CAN_HIGH_RES != 0
}

fn not_opened(service: Service, error: &io::Error) -> ProbeError {
    let code = error.raw_os_error().map(i32::cast_unsigned);
    let (reason, remedy) = match code {
        Some(ERROR_FILE_NOT_FOUND) => (
            "the driver wdmlat.sys is not loaded".to_owned(),
            "`laggard driver install wdmlat.sys` loads it (windows/driver/README.md)",
        ),
        Some(ERROR_ACCESS_DENIED) => (
            "the driver lets administrators in alone".to_owned(),
            "run as administrator",
        ),
        _ => (
            format!("the driver cannot be opened: {error}"),
            "`laggard driver status` says what there is of it",
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

    fn start(&mut self, at: Nanos, first: LineId) -> Result<(), ProbeError> {
        let plans: Vec<Expiries> = (0..self.lines.len())
            .map(|place| self.plan(place, at))
            .collect();
        for (place, (series, plan)) in self.series.iter_mut().zip(&plans).enumerate() {
            let line = LineId::at(usize::from(first.0) + place);
            series.start(line.expect("more lines are refused before"), *plan);
        }
        let Some(reads) = self.ready.take() else {
            return Ok(());
        };
        self.reading = Some(reads.start(plans).map_err(|error| {
            ProbeError::System {
                action: "have the driver serve reads".into(),
                remedy:
                    "another program may use it: `laggard driver status` says what there is of it"
                        .into(),
                said: Some(error),
            }
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
            .map(|one| one.settled.account())
            .collect()
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = vec![Caveat::new(
            CaveatKind::AbilityAbsent,
            "of the driver's services DPC and thread alone are measured; what came between has no evidence here",
            "a trace of Windows' own recorder tells it: `laggard import FILE.etl`",
        )];
        if !self.is_fine {
            caveats.push(Caveat::new(
                CaveatKind::TickRate,
                "the driver's timers have no high resolution here, so a DPC comes with the system's tick: up to one tick late, or early",
                "Windows has such timers since 8.1",
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
