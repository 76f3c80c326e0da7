//! The thread that reads: sets a timer for each expiry, and tells what came.

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
    ANY_CPU, DELAYS, DPC_ORDINARY, DriverConfig, DriverInfo, DriverSample, FOLLOWER_NONE,
    FOLLOWER_THREAD, IMPORTANCE_MEDIUM, SOURCE_HIGH_RES, SOURCE_TIMER,
};
use super::series::{Came, Expiries};
use super::{APART, is_fine};
use crate::thread::Early;
use crate::{clock, priority, processors};

/// Before an expiry: the shortest that the driver sets a timer for, and what it takes to
/// ask.
const LEAST_AHEAD: Nanos = Nanos::from_us(150);
/// What the driver sets a timer for at most is 1 s: the rest is slept before.
const MOST_AHEAD: Nanos = Nanos::from_ms(900);
/// In which a sleeping thread sees that it is to end.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
const UNIT: Nanos = Nanos::from_ns(100);
/// Of no service.
const NOBODY: usize = usize::MAX;
/// The priority of a thread that nobody asked for: the papers' default.
const ANY_PRIORITY: u32 = 24;

/// What came of an expiry of the service at `place`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadOutcome {
    pub(super) place: usize,
    pub(super) planned: Nanos,
    pub(super) came: Came,
}

/// What the reading thread and the collector share.
#[derive(Debug)]
pub(super) struct ReadsState {
    /// Set when it is to end at once.
    pub(super) stop: AtomicBool,
    /// Nothing that is due from then on is asked for, ns.
    pub(super) until: AtomicU64,
    /// When the driver refused to go on, ns; 0: it did not.
    pub(super) failed: AtomicU64,
    pub(super) early: Early,
    /// How many ran on another CPU than the timer was set on.
    pub(super) elsewhere: AtomicU64,
    /// Which service is waited for.
    waited_for: AtomicUsize,
    /// What the system said when the driver refused.
    refusal: AtomicI32,
}

impl Default for ReadsState {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            until: AtomicU64::new(u64::MAX),
            failed: AtomicU64::new(0),
            early: Early::default(),
            elsewhere: AtomicU64::new(0),
            waited_for: AtomicUsize::new(NOBODY),
            refusal: AtomicI32::new(0),
        }
    }
}

impl ReadsState {
    /// The place of the service that is waited for.
    pub(super) fn waited_for(&self) -> Option<usize> {
        Some(self.waited_for.load(Ordering::Acquire)).filter(|&place| place != NOBODY)
    }

    pub(super) fn early_caveat(&self) -> Option<Caveat> {
        let (count, most) = self.early.seen();
        (count > 0).then(|| {
            Caveat::new(
                CaveatKind::TickRate,
                format!("{count} timers of the driver were over before their time, by {most} at most: their expiry counts as when they were"),
                "nothing to do: a timer that is set to a time from now on may be early by the system's tick",
            )
        })
    }

    /// `cpu`: on which the timers were set.
    pub(super) fn elsewhere_caveat(&self, cpu: Cpu) -> Option<Caveat> {
        let count = self.elsewhere.load(Ordering::Relaxed);
        (count > 0).then(|| {
            Caveat::new(
                CaveatKind::TimerElsewhere,
                format!("{count} times the DPC or its thread ran on another CPU than CPU {cpu}, where the timer was set: Windows chooses it, and they count all the same"),
                "nothing to do",
            )
        })
    }

    /// Why nothing is read any more.
    pub(super) fn failure(&self) -> Option<String> {
        (self.failed.load(Ordering::Relaxed) > 0).then(|| {
            let said = io::Error::from_raw_os_error(self.refusal.load(Ordering::Relaxed));
            format!("the driver refused to go on: {said}")
        })
    }

    pub(super) fn failed_caveat(&self) -> Option<Caveat> {
        self.failure().map(|said| {
            Caveat::new(
                CaveatKind::AbilityAbsent,
                said,
                "`laggard driver status` says what there is of it",
            )
        })
    }

    fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What is ready to read. How it configures the driver lasts until nobody has that open:
/// the driver sees to it.
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

    /// Lets it read.
    ///
    /// # Errors
    /// When there is no thread, or the driver takes no configuration.
    pub(super) fn start(self, plans: Vec<Expiries>) -> io::Result<JoinHandle<()>> {
        let first = self.config(self.services[0], Nanos::from_ms(1));
        self.device.configure(&first)?;
        std::thread::Builder::new()
            .name("lag/wdmlat".into())
            .spawn(move || {
                // Both make it serve in time more often; what is not in time is counted.
                let _ = processors::pin(self.cpu);
                let _ = priority::hurry();
                self.run(plans);
            })
    }

    /// How a read of this service is served, whose timer is to expire so much later.
    fn config(&self, service: Service, ahead: Nanos) -> DriverConfig {
        let (follower, priority) = match thread_of(service) {
            Some(priority) => (FOLLOWER_THREAD, u32::from(priority)),
            None => (FOLLOWER_NONE, ANY_PRIORITY),
        };
        let is_fine = is_fine(&self.info);
        DriverConfig {
            delay_100ns: (ahead.ns() / UNIT.ns()).clamp(DELAYS.0, DELAYS.1),
            source: if is_fine {
                SOURCE_HIGH_RES
            } else {
                SOURCE_TIMER
            },
            dpc: DPC_ORDINARY,
            importance: IMPORTANCE_MEDIUM,
            // A timer of high resolution chooses its own: that on which it is set.
            cpu: if is_fine { ANY_CPU } else { self.cpu.0 },
            follower,
            priority,
        }
    }

    fn run(&self, mut plans: Vec<Expiries>) {
        // When each ran last.
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
            if ahead > MOST_AHEAD {
                let sleep = Duration::from(ahead.saturating_sub(MOST_AHEAD));
                std::thread::sleep(sleep.min(LONGEST_SLEEP));
                continue;
            }
            let came = if ran[place] >= planned {
                Came::Missed { ran: ran[place] }
            } else if ahead < LEAST_AHEAD {
                Came::NotArmed
            } else {
                match self.served(place, planned) {
                    Ok(Some(came)) => came,
                    // It is to end, and whoever was waited for stays so.
                    Ok(None) => return,
                    Err(error) => {
                        let state = &self.state;
                        // It did not come, which is no lateness of the machine's.
                        state.waited_for.store(NOBODY, Ordering::Release);
                        let code = error.raw_os_error().unwrap_or_default();
                        state.refusal.store(code, Ordering::Relaxed);
                        state.failed.store(clock::now().ns(), Ordering::Relaxed);
                        return;
                    }
                }
            };
            if let Came::Served { dpc, thread, .. } = came {
                ran[place] = thread.unwrap_or(dpc);
            }
            // Full: the collector sees the gap, and counts it as lost.
            let _ = self.tell.try_send(ReadOutcome {
                place,
                planned,
                came,
            });
            plans[place].advance();
        }
    }

    /// What came of this expiry; `None`: reading is to end.
    fn served(&self, place: usize, planned: Nanos) -> io::Result<Option<Came>> {
        let ahead = planned.saturating_sub(clock::now());
        let config = self.config(self.services[place], ahead);
        match self.device.configure(&config) {
            Err(error) if is_busy(&error) => return Ok(Some(Came::NotArmed)),
            configured => configured?,
        }
        self.state.waited_for.store(place, Ordering::Release);
        let sample = match self.device.read(|| !self.state.ends()) {
            Err(error) if is_busy(&error) => {
                self.state.waited_for.store(NOBODY, Ordering::Release);
                return Ok(Some(Came::NotArmed));
            }
            read => read?,
        };
        let Some(sample) = sample else {
            return Ok(None);
        };
        self.state.waited_for.store(NOBODY, Ordering::Release);
        Ok(Some(match is_as_asked(&config, &sample) {
            true => self.came(self.services[place], planned, &sample),
            // Another program configured it in between.
            false => Came::NotArmed,
        }))
    }

    fn came(&self, service: Service, planned: Nanos, sample: &DriverSample) -> Came {
        let Some(times) = Times::of(service, sample) else {
            return Came::Nonsense;
        };
        if times.expiry > planned + APART {
            // This thread was held up before it read: nothing was due at that time.
            return Came::NotArmed;
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
        Came::Served {
            expiry: times.expiry.min(times.dpc),
            dpc: times.dpc,
            thread: times.thread,
        }
    }
}

/// The priority of the thread that the DPC wakes for this service, where it wakes one.
const fn thread_of(service: Service) -> Option<u8> {
    if let Service::SystemThread(priority) = service {
        Some(priority)
    } else {
        None
    }
}

/// Whether a read was served as it was configured.
fn is_as_asked(config: &DriverConfig, sample: &DriverSample) -> bool {
    let served = [sample.source, sample.dpc, sample.follower, sample.priority].map(u32::from);
    let asked = [config.source, config.dpc, config.follower, config.priority];
    served == asked && sample.delay_100ns == config.delay_100ns
}

/// Another program reads meanwhile, or what it asked for was ended.
fn is_busy(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(i32::cast_unsigned);
    matches!(code, Some(ERROR_BUSY | ERROR_OPERATION_ABORTED))
}

/// The instants of a read.
#[derive(Debug, Eq, PartialEq)]
struct Times {
    /// What the timer was set to: the read, and the delay.
    expiry: Nanos,
    dpc: Nanos,
    thread: Option<Nanos>,
}

impl Times {
    /// `None`: they cannot be, in this order or at all.
    fn of(service: Service, sample: &DriverSample) -> Option<Self> {
        let at = |qpc: i64| {
            let count = u64::try_from(qpc).ok().filter(|&count| count > 0)?;
            Some(clock::at(count))
        };
        let (read, dpc) = (at(sample.read_qpc)?, at(sample.dpc_qpc)?);
        let thread = match thread_of(service) {
            Some(_) => Some(at(sample.follower_qpc)?),
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
    fn a_read_that_was_served_as_another_program_configured_it_is_none_of_ours() {
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
    fn an_expiry_is_the_read_and_its_delay() {
        let of = sample(1_000_000, 1_020_000, 1_030_000);

        let thread = Times::of(Service::SystemThread(28), &of).unwrap();
        let dpc = Times::of(Service::Dpc, &of).unwrap();

        assert_eq!(thread.expiry, clock::at(1_000_000) + Nanos::from_ms(1));
        assert_eq!(thread.thread, Some(clock::at(1_030_000)));
        assert_eq!((dpc.dpc, dpc.thread), (clock::at(1_020_000), None));
    }

    #[test]
    fn stamps_that_are_missing_or_in_the_wrong_order_are_no_times() {
        let thread = Service::SystemThread(28);
        for (service, of) in [
            (thread, sample(0, 2, 3)),
            (thread, sample(1, 0, 3)),
            (thread, sample(1, 2, 0)),
            (thread, sample(5, 2, 3)),
            (thread, sample(1, 4, 3)),
            (thread, sample(-1, 4, 5)),
            (Service::Dpc, sample(2, 1, 0)),
        ] {
            assert_eq!(Times::of(service, &of), None, "{service} {of:?}");
        }
        assert!(Times::of(Service::Dpc, &sample(1, 2, 0)).is_some());
    }
}
