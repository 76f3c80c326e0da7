//! The kernel's events while a measurement runs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use laggard_etl::{KernelLog, LogPlan};
use laggard_model::{Address, Cpu, Evidence, Nanos, Span, Symbol, Tid};
use windows_sys::Win32::System::Diagnostics::Etw::{
    CONTROLTRACE_HANDLE, TRACE_PROFILE_INTERVAL, TraceQueryInformation,
    TraceSampledProfileIntervalInfo,
};
use windows_sys::core::w;

use super::super::processors::group_count;
use super::super::stamper::EventSource;
use super::super::{clock, host, rights};
use super::NoEvents;
use super::consumer::{self, Consumer};
use super::session::EventSession;
use laggard_measure::flight::KernelRecord;

/// Entries that are kept of all CPUs together (100 bytes each, a sample with its chain
/// 350), and bounds on those of one: some seconds of 10,000 switches a second.
const ALL_ENTRIES: usize = 1 << 20;
const ENTRIES: (usize, usize) = (1 << 12, 1 << 16);
/// A buffer that was lost may have held events as old as that: it is flushed more often.
const OLDEST_LOST: Nanos = Nanos::from_secs(1);
/// The timer's source of samples.
const TIMER: u32 = 0;
/// Unless Windows says otherwise.
const USUAL_INTERVAL: Nanos = Nanos::from_ms(1);

/// A session of the kernel's events, read while it runs.
#[derive(Debug)]
pub(in super::super) struct KernelEvents {
    // Ended first: then nothing comes any more that is waited for.
    session: EventSession,
    consumer: Consumer,
    log: Arc<Mutex<KernelLog>>,
    flushes: Mutex<Flushes>,
    samples: bool,
}

/// What the flushes so far told.
#[derive(Debug, Default)]
struct Flushes {
    lost: u64,
    at: Nanos,
}

impl KernelEvents {
    /// From now on. What runs is sampled where this process may ask for it.
    pub(in super::super) fn begin() -> Result<Arc<Self>, NoEvents> {
        if group_count() > 1 {
            return Err(NoEvents::Groups);
        }
        let samples = rights::take(w!("SeSystemProfilePrivilege"));
        let session = EventSession::begin(samples)?;
        // Wine, where this fails, lacks what is asked for below.
        consumer::try_open(&session)?;
        if samples {
            session.have_chains();
        }
        let log = Arc::new(Mutex::new(KernelLog::new(LogPlan {
            entries: (ALL_ENTRIES / host::processors()).clamp(ENTRIES.0, ENTRIES.1),
            sampled: samples.then(interval),
            clock: clock::at,
        })));
        Ok(Arc::new(Self {
            consumer: Consumer::begin(&session, Arc::clone(&log))?,
            session,
            log,
            flushes: Mutex::new(Flushes::default()),
            samples,
        }))
    }

    /// Whether what runs is sampled.
    pub(in super::super) const fn samples(&self) -> bool {
        self.samples
    }

    /// Events that found no room so far, and those that could not be read.
    pub(in super::super) fn lost(&self) -> u64 {
        let flushes = self.flushes.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = flushes.lost;
        drop(flushes);
        lost + self.log().unreadable()
    }
}

impl EventSource for KernelEvents {
    /// Notes what was lost as well.
    fn flush(&self) {
        let Some(lost) = self.session.flush() else {
            return;
        };
        let now = clock::now();
        let mut flushes = self.flushes.lock().unwrap_or_else(PoisonError::into_inner);
        if lost > flushes.lost {
            self.log().lost(Span {
                from_ns: flushes.at.saturating_sub(OLDEST_LOST),
                to_ns: now,
            });
        }
        *flushes = Flushes { lost, at: now };
    }

    fn log(&self) -> MutexGuard<'_, KernelLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.consumer.has_ended()
    }
}

impl KernelRecord for KernelEvents {
    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence {
        // A number that no event has is no CPU's.
        let cpu = u16::try_from(cpu.0).unwrap_or(u16::MAX);
        self.log().evidence(cpu, from, to)
    }

    fn unseen_switches(&self) -> u64 {
        self.log().unseen_switches()
    }

    fn symbol(&self, address: Address) -> Symbol {
        self.log().symbol(address)
    }

    fn own_threads(&self) -> BTreeSet<Tid> {
        self.log().threads_of(std::process::id())
    }
}

/// How far apart samples are: that is the whole system's, and not changed.
fn interval() -> Nanos {
    let mut found = TRACE_PROFILE_INTERVAL {
        Source: TIMER,
        Interval: 0,
    };
    // SAFETY: no session is asked for, `found` is valid for writes of so many bytes, and
    //         how many come nobody needs to know.
    let result = unsafe {
        TraceQueryInformation(
            CONTROLTRACE_HANDLE::default(),
            TraceSampledProfileIntervalInfo,
            (&raw mut found).cast(),
            host::size(size_of::<TRACE_PROFILE_INTERVAL>()),
            std::ptr::null_mut(),
        )
    };
    // In 100 ns.
    match (result, found.Interval) {
        (0, 1..) => Nanos::from_ns(u64::from(found.Interval) * 100),
        _ => USUAL_INTERVAL,
    }
}
