//! Reading thread: sets a timer for each expiry, and reports the results.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use laggard_model::{Caveat, CaveatKind, Cpu, Nanos, Service};
use windows_sys::Win32::Foundation::{ERROR_BUSY, ERROR_OPERATION_ABORTED};

use super::device::Device;
use super::layout::{
    ANY_CPU, DPC_ORDINARY, DriverConfig, DriverInfo, DriverSample, FOLLOWER_NONE, FOLLOWER_THREAD,
    IMPORTANCE_MEDIUM, MIN_MAX_DELAY, SOURCE_HIGH_RES, SOURCE_TIMER,
};
use super::series::{Expiries, ExpiryResult};
use super::{MIN_DISTANCE, is_fine};
use crate::thread::EarlyWaits;
use crate::{clock, priority, processors};

/// Minimum time before an expiry: the shortest timer of the driver, and the time to request it.
const MIN_AHEAD: Nanos = Nanos::from_us(150);
/// The timer is set at most this time before an expiry. Below the driver's limit of 1 s. The thread
/// sleeps before that.
const MAX_AHEAD: Nanos = Nanos::from_ms(900);
/// Maximum sleep, so that a sleeping thread notices the end.
const MAX_SLEEP: Duration = Duration::from_millis(50);
const UNIT: Nanos = Nanos::from_ns(100);
const NO_SERVICE: usize = usize::MAX;
/// Priority of an unused thread: the default of the papers.
const ANY_PRIORITY: u32 = 24;

/// Result of an expiry of the service at `place`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadOutcome {
    pub(super) place: usize,
    pub(super) planned: Nanos,
    pub(super) came: ExpiryResult,
}

/// State that the reading thread and the collector share.
#[derive(Debug)]
pub(super) struct ReadsState {
    /// Set to end immediately.
    pub(super) stop: AtomicBool,
    /// Time in ns. Later expiries are not requested.
    pub(super) until: AtomicU64,
    /// Time in ns when the driver refused to continue; 0 if it did not.
    pub(super) failed: AtomicU64,
    pub(super) early: EarlyWaits,
    /// Number of runs on a CPU other than the timer's.
    pub(super) elsewhere: AtomicU64,
    /// Service that is awaited.
    waited_for: AtomicUsize,
    /// Error of the system when the driver refused.
    refusal: AtomicI32,
}

impl Default for ReadsState {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            until: AtomicU64::new(u64::MAX),
            failed: AtomicU64::new(0),
            early: EarlyWaits::default(),
            elsewhere: AtomicU64::new(0),
            waited_for: AtomicUsize::new(NO_SERVICE),
            refusal: AtomicI32::new(0),
        }
    }
}

impl ReadsState {
    /// Returns the place of the awaited service.
    pub(super) fn waited_for(&self) -> Option<usize> {
        Some(self.waited_for.load(Ordering::Acquire)).filter(|&place| place != NO_SERVICE)
    }

    pub(super) fn early_caveat(&self) -> Option<Caveat> {
        let (count, most) = self.early.seen();
        (count > 0).then(|| {
            Caveat::new(
                CaveatKind::TickRate,
                format!("{count} timers of the driver expired early, by at most {most}; their latency counts from the actual expiry"),
                "no action needed: a relative timer may be early by the system's tick",
            )
        })
    }

    /// Returns the warning about runs on other CPUs. `cpu` is the CPU where the timers were set.
    pub(super) fn elsewhere_caveat(&self, cpu: Cpu) -> Option<Caveat> {
        let count = self.elsewhere.load(Ordering::Relaxed);
        (count > 0).then(|| {
            Caveat::new(
                CaveatKind::TimerElsewhere,
                format!("the DPC or its thread ran {count} times on a CPU other than CPU {cpu}, where the timer was set; Windows chooses the CPU, and these runs count"),
                "no action needed",
            )
        })
    }

    /// Returns why reading stopped.
    pub(super) fn failure(&self) -> Option<String> {
        (self.failed.load(Ordering::Relaxed) > 0).then(|| {
            let reason = io::Error::from_raw_os_error(self.refusal.load(Ordering::Relaxed));
            format!("the driver refused to continue: {reason}")
        })
    }

    pub(super) fn failed_caveat(&self) -> Option<Caveat> {
        self.failure().map(|reason| {
            Caveat::new(
                CaveatKind::AbilityAbsent,
                reason,
                "see `laggard driver status`",
            )
        })
    }

    fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// State that is ready to read. The driver keeps its configuration until all handles to it are
/// closed.
#[derive(Debug)]
pub(super) struct Reads {
    device: Device,
    info: DriverInfo,
    cpu: Cpu,
    services: Vec<Service>,
    state: Arc<ReadsState>,
    tell: SyncSender<ReadOutcome>,
}

impl Reads {
    pub(super) fn new(
        device: Device,
        info: DriverInfo,
        cpu: Cpu,
        services: Vec<Service>,
        state: Arc<ReadsState>,
        tell: SyncSender<ReadOutcome>,
    ) -> Self {
        Self {
            device,
            info,
            cpu,
            services,
            state,
            tell,
        }
    }

    /// Starts to read.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started, or if the driver refuses the
    /// configuration.
    pub(super) fn start(self, plans: Vec<Expiries>) -> io::Result<JoinHandle<()>> {
        let first = self.config(self.services[0], Nanos::from_ms(1));
        self.device.configure(&first)?;
        std::thread::Builder::new()
            .name("lag/wdmlat".into())
            .spawn(move || {
                // Pinning and priority make expiries more punctual; late ones are counted.
                let _ = processors::pin(self.cpu);
                let _ = priority::hurry();
                self.run(plans);
            })
    }

    /// Returns the configuration for a read of this service, whose timer expires after `ahead`.
    fn config(&self, service: Service, ahead: Nanos) -> DriverConfig {
        let (follower, priority) = match thread_of(service) {
            Some(priority) => (FOLLOWER_THREAD, u32::from(priority)),
            None => (FOLLOWER_NONE, ANY_PRIORITY),
        };
        let is_fine = is_fine(&self.info);
        DriverConfig {
            delay_100ns: (ahead.ns() / UNIT.ns()).clamp(MIN_MAX_DELAY.0, MIN_MAX_DELAY.1),
            source: if is_fine {
                SOURCE_HIGH_RES
            } else {
                SOURCE_TIMER
            },
            dpc: DPC_ORDINARY,
            importance: IMPORTANCE_MEDIUM,
            // A high-resolution timer expires on the CPU where it is set.
            cpu: if is_fine { ANY_CPU } else { self.cpu.0 },
            follower,
            priority,
        }
    }

    fn run(&self, mut plans: Vec<Expiries>) {
        // Time of the last run of each service.
        let mut ran = vec![Nanos::ZERO; plans.len()];
        while !self.state.ends() {
            let next = plans.iter().enumerate().min_by_key(|(_, plan)| plan.next());
            let Some((place, planned)) = next.map(|(place, plan)| (place, plan.next())) else {
                return;
            };
            if planned.ns() >= self.state.until.load(Ordering::Relaxed) {
                return;
            }
            let ahead = planned.saturating_sub(clock::now());
            if ahead > MAX_AHEAD {
                let sleep = Duration::from(ahead.saturating_sub(MAX_AHEAD));
                std::thread::sleep(sleep.min(MAX_SLEEP));
                continue;
            }
            let came = if ran[place] >= planned {
                ExpiryResult::Missed { ran: ran[place] }
            } else if ahead < MIN_AHEAD {
                ExpiryResult::NotArmed
            } else {
                match self.served(place, planned) {
                    Ok(Some(came)) => came,
                    // The thread ends while the awaited service has not run.
                    Ok(None) => return,
                    Err(error) => {
                        let state = &self.state;
                        // The driver failed, which is not a latency of the machine.
                        state.waited_for.store(NO_SERVICE, Ordering::Release);
                        let code = error.raw_os_error().unwrap_or_default();
                        state.refusal.store(code, Ordering::Relaxed);
                        state.failed.store(clock::now().ns(), Ordering::Relaxed);
                        return;
                    }
                }
            };
            if let ExpiryResult::Served { dpc, thread, .. } = came {
                ran[place] = thread.unwrap_or(dpc);
            }
            // If the channel is full, the collector sees the gap and counts it as lost.
            let _ = self.tell.try_send(ReadOutcome {
                place,
                planned,
                came,
            });
            plans[place].advance();
        }
    }

    /// Returns the result of this expiry; `None` if reading is to end.
    fn served(&self, place: usize, planned: Nanos) -> io::Result<Option<ExpiryResult>> {
        let ahead = planned.saturating_sub(clock::now());
        let config = self.config(self.services[place], ahead);
        match self.device.configure(&config) {
            Err(error) if is_busy(&error) => return Ok(Some(ExpiryResult::NotArmed)),
            configured => configured?,
        }
        self.state.waited_for.store(place, Ordering::Release);
        let sample = match self.device.read(|| !self.state.ends()) {
            Err(error) if is_busy(&error) => {
                self.state.waited_for.store(NO_SERVICE, Ordering::Release);
                return Ok(Some(ExpiryResult::NotArmed));
            }
            read => read?,
        };
        let Some(sample) = sample else {
            return Ok(None);
        };
        self.state.waited_for.store(NO_SERVICE, Ordering::Release);
        Ok(Some(if is_as_asked(&config, &sample) {
            self.came(self.services[place], planned, &sample)
        } else {
            // Another program changed the configuration in between.
            ExpiryResult::NotArmed
        }))
    }

    fn came(&self, service: Service, planned: Nanos, sample: &DriverSample) -> ExpiryResult {
        let Some(times) = Times::of(service, sample) else {
            return ExpiryResult::Inconsistent;
        };
        if times.expiry > planned + MIN_DISTANCE {
            // This thread was delayed before the read: nothing was due at that time.
            return ExpiryResult::NotArmed;
        }
        let cpus = [
            Some(sample.dpc_cpu),
            times.thread.map(|_| sample.follower_cpu),
        ];
        if cpus.into_iter().flatten().any(|cpu| cpu != self.cpu.0) {
            self.state.elsewhere.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(early) = Nanos::between(times.dpc, times.expiry).filter(|&by| by > Nanos::ZERO)
        {
            self.state.early.note(early);
        }
        ExpiryResult::Served {
            expiry: times.expiry.min(times.dpc),
            dpc: times.dpc,
            thread: times.thread,
        }
    }
}

/// Returns the priority of the thread that the DPC wakes for this service, if it wakes one.
const fn thread_of(service: Service) -> Option<u8> {
    if let Service::SystemThread(priority) = service {
        Some(priority)
    } else {
        None
    }
}

/// Returns whether a read was served with its configuration.
fn is_as_asked(config: &DriverConfig, sample: &DriverSample) -> bool {
    let served = [sample.source, sample.dpc, sample.follower, sample.priority].map(u32::from);
    let requested = [config.source, config.dpc, config.follower, config.priority];
    served == requested && sample.delay_100ns == config.delay_100ns
}

/// Returns whether another program reads at the same time, or the request was cancelled.
fn is_busy(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(i32::cast_unsigned);
    matches!(code, Some(ERROR_BUSY | ERROR_OPERATION_ABORTED))
}

#[derive(Debug, Eq, PartialEq)]
struct Times {
    /// Programmed time of the timer: the read plus the delay.
    expiry: Nanos,
    dpc: Nanos,
    thread: Option<Nanos>,
}

impl Times {
    /// Returns the times, or `None` if they are inconsistent.
    fn of(service: Service, sample: &DriverSample) -> Option<Self> {
        let time_of = |qpc: i64| {
            let count = u64::try_from(qpc).ok().filter(|&count| count > 0)?;
            Some(clock::at(count))
        };
        let (read, dpc) = (time_of(sample.read_qpc)?, time_of(sample.dpc_qpc)?);
        let thread = match thread_of(service) {
            Some(_) => Some(time_of(sample.follower_qpc)?),
            None => None,
        };
        let is_in_order = read <= dpc && thread.is_none_or(|thread| dpc <= thread);
        is_in_order.then_some(Self {
            expiry: read + UNIT * sample.delay_100ns,
            dpc,
            thread,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(read_qpc: i64, dpc_qpc: i64, follower_qpc: i64) -> DriverSample {
        DriverSample {
            read_qpc,
            dpc_qpc,
            follower_qpc,
            delay_100ns: 10_000,
            ..DriverSample::default()
        }
    }

    #[test]
    fn read_with_the_configuration_of_another_program_is_discarded() {
        let config = DriverConfig {
            delay_100ns: 10_000,
            source: SOURCE_HIGH_RES,
            follower: FOLLOWER_THREAD,
            priority: 28,
            ..DriverConfig::default()
        };
        let as_asked = DriverSample {
            source: 1,
            priority: 28,
            ..sample(1, 2, 3)
        };

        assert!(is_as_asked(&config, &as_asked));
        for other in [
            DriverSample {
                priority: 24,
                ..as_asked
            },
            DriverSample {
                follower: 2,
                ..as_asked
            },
            DriverSample {
                source: 0,
                ..as_asked
            },
            DriverSample {
                delay_100ns: 9_999,
                ..as_asked
            },
        ] {
            assert!(!is_as_asked(&config, &other), "{other:?}");
        }
    }

    #[test]
    fn expiry_is_the_read_plus_its_delay() {
        let driver_sample = sample(1_000_000, 1_020_000, 1_030_000);

        let thread = Times::of(Service::SystemThread(28), &driver_sample).unwrap();
        let dpc = Times::of(Service::Dpc, &driver_sample).unwrap();

        assert_eq!(thread.expiry, clock::at(1_000_000) + Nanos::from_ms(1));
        assert_eq!(thread.thread, Some(clock::at(1_030_000)));
        assert_eq!((dpc.dpc, dpc.thread), (clock::at(1_020_000), None));
    }

    #[test]
    fn missing_or_unordered_stamps_give_no_times() {
        let thread = Service::SystemThread(28);
        for (service, driver_sample) in [
            (thread, sample(0, 2, 3)),
            (thread, sample(1, 0, 3)),
            (thread, sample(1, 2, 0)),
            (thread, sample(5, 2, 3)),
            (thread, sample(1, 4, 3)),
            (thread, sample(-1, 4, 5)),
            (Service::Dpc, sample(2, 1, 0)),
        ] {
            assert_eq!(
                Times::of(service, &driver_sample),
                None,
                "{service} {driver_sample:?}"
            );
        }
        assert!(Times::of(Service::Dpc, &sample(1, 2, 0)).is_some());
    }
}
