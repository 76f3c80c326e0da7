//! Kernel events during a measurement.

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

/// Maximum number of entries of all CPUs together (100 bytes each, 350 for a sample with its
/// chain), and minimum and maximum per CPU: some seconds at 10,000 switches per second.
const MAX_ENTRIES: usize = 1 << 20;
const MIN_MAX_ENTRIES_PER_CPU: (usize, usize) = (1 << 12, 1 << 16);
/// Maximum age of events in a lost buffer. Buffers are flushed more often.
const MAX_BUFFER_AGE: Nanos = Nanos::from_secs(1);
/// Timer source of samples.
const TIMER: u32 = 0;
/// Default interval of samples.
const USUAL_INTERVAL: Nanos = Nanos::from_ms(1);

/// Session of kernel events, read while it runs.
#[derive(Debug)]
pub(in super::super) struct KernelEvents {
    // Dropped first, so that no further events arrive.
    session: EventSession,
    consumer: Consumer,
    log: Arc<Mutex<KernelLog>>,
    flushes: Mutex<Flushes>,
    samples: bool,
}

/// Losses reported by the flushes so far.
#[derive(Debug, Default)]
struct Flushes {
    lost: u64,
    at: Nanos,
}

impl KernelEvents {
    /// Starts a session. Running code is sampled if this process has the right.
    pub(in super::super) fn begin() -> Result<Arc<Self>, NoEvents> {
        if group_count() > 1 {
            return Err(NoEvents::Groups);
        }
        let samples = rights::take(w!("SeSystemProfilePrivilege"));
        let session = EventSession::begin(samples)?;
        // Wine fails here. It lacks the functions that are called below.
        consumer::try_open(&session)?;
        if samples {
            session.have_chains();
        }
        let log = Arc::new(Mutex::new(KernelLog::new(LogPlan {
            entries: (MAX_ENTRIES / host::processors())
                .clamp(MIN_MAX_ENTRIES_PER_CPU.0, MIN_MAX_ENTRIES_PER_CPU.1),
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

    /// Returns whether running code is sampled.
    pub(in super::super) const fn samples(&self) -> bool {
        self.samples
    }

    /// Returns the number of events that were lost or unreadable so far.
    pub(in super::super) fn lost(&self) -> u64 {
        let flushes = self.flushes.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = flushes.lost;
        drop(flushes);
        lost + self.log().unreadable()
    }
}

impl EventSource for KernelEvents {
    /// Also records the losses.
    fn flush(&self) {
        let Some(lost) = self.session.flush() else {
            return;
        };
        let now = clock::now();
        let mut flushes = self.flushes.lock().unwrap_or_else(PoisonError::into_inner);
        if lost > flushes.lost {
            self.log()
                .lost(Span::new(flushes.at.saturating_sub(MAX_BUFFER_AGE), now));
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
        // A number that does not fit is not a CPU of an event.
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

/// Returns the interval of samples. It is a setting of the whole system, and laggard does not
/// change it.
fn interval() -> Nanos {
    let mut interval = TRACE_PROFILE_INTERVAL {
        Source: TIMER,
        Interval: 0,
    };
    // SAFETY: no session is given, `interval` is valid for writes of this number of bytes, and
    // the returned length is not needed.
    let result = unsafe {
        TraceQueryInformation(
            CONTROLTRACE_HANDLE::default(),
            TraceSampledProfileIntervalInfo,
            (&raw mut interval).cast(),
            host::size(size_of::<TRACE_PROFILE_INTERVAL>()),
            std::ptr::null_mut(),
        )
    };
    // In units of 100 ns.
    match (result, interval.Interval) {
        (0, 1..) => Nanos::from_ns(u64::from(interval.Interval) * 100),
        _ => USUAL_INTERVAL,
    }
}
