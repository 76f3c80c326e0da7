//! First event of a trace (`TRACE_LOGFILE_HEADER`): its clock, the machine, and losses.

use laggard_model::Nanos;

use crate::bytes::{PointerWidth, i64_at, pointer_at, u32_at, wide_text_at};
use crate::event::{EventName, TraceEvent};

/// Ticks of the system time per second: 100 ns each.
const FILETIME_HZ: u64 = 10_000_000;
const NS_OF_TICK: u64 = 100;
/// System time (since 1601) at the start of 1970, ticks.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;
/// Default interval of the timer interrupt.
const LONGEST_INTERVAL: Nanos = Nanos::from_us(15_625);
/// Length of a time zone in the header, bytes.
const TIME_ZONE: usize = 172;

/// Clock of the timestamps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceClock {
    /// Performance counter (QPC).
    PerformanceCounter,
    /// System time: it advances in steps of the clock tick.
    SystemTime,
    /// Cycle counter of the CPU.
    CycleCounter,
}

#[derive(Clone, Debug)]
pub struct TraceHeader {
    pub pointers: PointerWidth,
    /// Largest buffer, bytes.
    pub buffer_bytes: u32,
    /// Windows version, for example 10 and 0.
    pub windows: (u8, u8),
    /// Windows build, for example 19041.
    pub build: u32,
    pub cpus: u32,
    pub clock: TraceClock,
    /// Ticks of the clock per second, never 0.
    pub hz: u64,
    /// Step of the clock: the interval of the timer interrupt for the system time, otherwise
    /// a tick.
    pub step: Nanos,
    /// Start of the trace, microseconds since 1970; `None` if missing.
    pub began_unix_us: Option<i64>,
    /// Duration of the trace; `None` if missing.
    pub length: Option<Nanos>,
    /// Number of events without a free buffer.
    pub events_lost: u64,
    /// Number of buffers that were not written.
    pub buffers_lost: u64,
    pub session: String,
}

impl TraceHeader {
    /// Parses the first event; `None` if it is another one.
    pub(crate) fn parse(event: &TraceEvent<'_>) -> Option<Self> {
        let name = EventName::Kernel {
            group: 0,
            opcode: 0,
        };
        if event.name != name {
            return None;
        }
        let bytes = event.payload;
        let pointers = match u32_at(bytes, 44)? {
            4 => PointerWidth::Four,
            8 => PointerWidth::Eight,
            _ => return None,
        };
        // Two pointers, the time zone, and numbers of 8 bytes, aligned accordingly.
        let after = (56 + 2 * pointers.bytes() + TIME_ZONE).next_multiple_of(8);
        pointer_at(bytes, 56, pointers)?;
        let version = u32_at(bytes, 4)?.to_le_bytes();
        let clock = match u32_at(bytes, after + 24)? {
            2 => TraceClock::SystemTime,
            3 => TraceClock::CycleCounter,
            // 0: the default clock.
            _ => TraceClock::PerformanceCounter,
        };
        let hz = match clock {
            TraceClock::SystemTime => FILETIME_HZ,
            TraceClock::CycleCounter => u64::from(u32_at(bytes, 52)?) * 1_000_000,
            TraceClock::PerformanceCounter => u64::try_from(i64_at(bytes, after + 8)?).ok()?,
        };
        let began = i64_at(bytes, after + 16)?;
        let step = match (clock, u64::from(u32_at(bytes, 24)?)) {
            (TraceClock::SystemTime, 0) => LONGEST_INTERVAL,
            (TraceClock::SystemTime, interval) => Nanos::from_ns(interval * NS_OF_TICK),
            (TraceClock::PerformanceCounter | TraceClock::CycleCounter, _) => {
                Nanos::from_ns(1_000_000_000_u64.div_ceil(hz.max(1)))
            }
        };
        Some(Self {
            pointers,
            buffer_bytes: u32_at(bytes, 0)?,
            windows: (version[0], version[1]),
            build: u32_at(bytes, 8)?,
            cpus: u32_at(bytes, 12)?,
            clock,
            hz: (hz > 0).then_some(hz)?,
            step,
            began_unix_us: (began > UNIX_EPOCH).then(|| (began - UNIX_EPOCH) / 10),
            length: (began > UNIX_EPOCH)
                .then(|| i64_at(bytes, 16)?.checked_sub(began))
                .flatten()
                .and_then(|ticks| u64::try_from(ticks).ok()?.checked_mul(NS_OF_TICK))
                .map(Nanos::from_ns),
            events_lost: u64::from(u32_at(bytes, 48)?),
            buffers_lost: u64::from(u32_at(bytes, after + 28)?),
            session: wide_text_at(bytes, after + 32).unwrap_or_default(),
        })
    }

    /// Returns the time of an event of the system time, microseconds since 1970; `None`
    /// if the trace has another clock, or for times before 1970.
    pub fn unix_us(&self, ticks: i64) -> Option<i64> {
        let is_time = self.clock == TraceClock::SystemTime && ticks > UNIX_EPOCH;
        is_time.then(|| (ticks - UNIX_EPOCH) / 10)
    }

    /// Returns the duration between two times in ticks; `None` if it is negative.
    pub fn between(&self, begin: i64, end: i64) -> Option<Nanos> {
        let ticks = u128::try_from(i128::from(end) - i128::from(begin)).ok()?;
        let ns = ticks * 1_000_000_000 / u128::from(self.hz);
        u64::try_from(ns).ok().map(Nanos::from_ns)
    }
}
