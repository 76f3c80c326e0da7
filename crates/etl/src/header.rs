//! The first event of a trace (`TRACE_LOGFILE_HEADER`): its clock, the machine,
//! what was lost.

use laggard_model::Nanos;

use crate::bytes::{PointerWidth, i64_at, pointer_at, u32_at, wide_text_at};
use crate::event::{EventName, TraceEvent};

/// Ticks of the system's time in a second: 100 ns each.
const FILETIME_HZ: u64 = 10_000_000;
const NS_OF_TICK: u64 = 100;
/// The system's time (since 1601) at the beginning of 1970, ticks.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;
/// The interval of the timer's interrupt unless a program asks for a shorter one.
const LONGEST_INTERVAL: Nanos = Nanos::from_us(15_625);
/// The length of a time zone in the header, bytes.
const TIME_ZONE: usize = 172;

/// By which clock events are stamped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceClock {
    /// The performance counter (QPC).
    PerformanceCounter,
    /// The system's time: it moves in steps as long as the clock's tick.
    SystemTime,
    /// The CPU's cycle counter.
    CycleCounter,
}

/// What a trace says of itself.
#[derive(Clone, Debug)]
pub struct TraceHeader {
    /// How wide pointers are in this header.
    pub pointers: PointerWidth,
    /// The largest buffer, bytes.
    pub buffer_bytes: u32,
    /// Windows' version, as 10 and 0.
    pub windows: (u8, u8),
    /// Windows' build, as 19041.
    pub build: u32,
    /// CPUs of the machine.
    pub cpus: u32,
    /// By which clock events are stamped.
    pub clock: TraceClock,
    /// Its ticks in a second, never 0.
    pub hz: u64,
    /// Length of the steps in which it moves: of the system's time, the interval of the
    /// timer's interrupt, and otherwise a tick.
    pub step: Nanos,
    /// When the trace began, microseconds since 1970; `None`: it does not say.
    pub began_unix_us: Option<i64>,
    /// How long it took; `None`: it does not say.
    pub length: Option<Nanos>,
    /// Events that found no buffer.
    pub events_lost: u64,
    /// Buffers that were not written.
    pub buffers_lost: u64,
    /// The session's name.
    pub session: String,
}

impl TraceHeader {
    /// Of the first event; `None`: it is not that.
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
        // Two pointers, the time zone, and numbers of 8 bytes, aligned so.
        let after = (56 + 2 * pointers.bytes() + TIME_ZONE).next_multiple_of(8);
        pointer_at(bytes, 56, pointers)?;
        let version = u32_at(bytes, 4)?.to_le_bytes();
        let clock = match u32_at(bytes, after + 24)? {
            2 => TraceClock::SystemTime,
            3 => TraceClock::CycleCounter,
            // 0: what was asked for by nobody in particular.
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

    /// When an event of the system's time was, microseconds since 1970; `None`: the
    /// trace has another clock, or it was before 1970.
    pub fn unix_us(&self, ticks: i64) -> Option<i64> {
        let is_time = self.clock == TraceClock::SystemTime && ticks > UNIX_EPOCH;
        is_time.then(|| (ticks - UNIX_EPOCH) / 10)
    }

    /// From `begin` to `end`, both in ticks; `None` where it ran backwards.
    pub fn between(&self, begin: i64, end: i64) -> Option<Nanos> {
        let ticks = u128::try_from(i128::from(end) - i128::from(begin)).ok()?;
        let ns = ticks * 1_000_000_000 / u128::from(self.hz);
        u64::try_from(ns).ok().map(Nanos::from_ns)
    }
}
