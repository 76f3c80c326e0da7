//! Busy processes that compete for a CPU, and services measured next to them (Heubaum,
//! "Windows 95 Interrupt Latency", Vireo White Paper, 1995).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cpu, Nanos, ParseNanosError, Service};

/// Competition for the measured CPU, and the services measured next to it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Contexts {
    /// CPU that all of them compete for.
    pub cpu: Cpu,
    /// Number of processes that compute endlessly there, in addition to the measured
    /// one.
    pub busy: Competitors,
    /// Length of the turns that the processes give each other; absent if the kernel
    /// schedules them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ns: Option<BusyTurns>,
}

impl Contexts {
    /// Thread whose process is boosted for the work: Heubaum's "priority VM event".
    pub const BOOSTED: Service = Service::Fifo(50);

    /// Thread that is boosted for the work alone, by the requesting thread through a PI
    /// futex.
    pub const LENT: Service = Service::Lent(50);

    /// Thread that is boosted by the lowest nice value alone; not next to real-time
    /// processes.
    pub const NICED: Service = Service::Nice(-20);

    /// Thread that is boosted by the shortest slice alone; not next to real-time
    /// processes.
    pub const SLICED: Service = Service::Slice(Service::SLICES.0);

    /// Returns the thread of one of the busy processes: Heubaum's "VM event". By the
    /// direct route it computes as they do, and finds the work in its turn. By the
    /// deferred route it sleeps until it is woken.
    #[must_use]
    pub const fn plain(self) -> Service {
        match self.turn_ns {
            Some(_) => Service::Fifo(BusyTurns::PRIORITY),
            None => Service::Other,
        }
    }

    /// Returns the measured services, most direct first. Work items and niced threads
    /// wait for normal threads alone, and would starve next to real-time processes.
    #[must_use]
    pub fn services(self) -> Vec<Service> {
        let are_normal = self.turn_ns.is_none();
        let worker = are_normal.then_some(Service::Worker);
        let niced = are_normal.then_some(Self::NICED);
        let sliced = are_normal.then_some(Self::SLICED);
        let first = [Service::Irq, Service::Softirq].into_iter();
        first
            .chain(worker)
            .chain([Self::BOOSTED, Self::LENT])
            .chain(niced)
            .chain(sliced)
            .chain([self.plain()])
            .collect()
    }

    /// Returns the period of each service. Expiries are always at the same phase of a
    /// turn, so that waits are whole turns plus the same remainder, and each position
    /// in the queue is equally frequent. `tick` is the tick of the kernel's scheduler,
    /// which ends turns of normal processes.
    #[must_use]
    pub fn period(self, tick: Nanos) -> Nanos {
        let turn = self.turn_ns.map_or(tick, BusyTurns::length);
        turn * self.turns_of_period()
    }

    /// Returns the distance of the possible ends of turns for a period of `period`: the
    /// length of the turns, or the kernel's tick.
    #[must_use]
    pub fn turn(self, period: Nanos) -> Nanos {
        let turn = Nanos::from_ns(period.ns() / self.turns_of_period());
        self.turn_ns.map_or(turn, BusyTurns::length)
    }

    /// Returns the number of turns per period.
    fn turns_of_period(self) -> u64 {
        // A recording can contain any number.
        prime_above(self.busy.0.min(Competitors::MOST) + 1).into()
    }
}

/// Returns the smallest prime number above `least`. With `least` turns in a round, a
/// period of this number of turns covers each position in the round.
fn prime_above(least: u32) -> u32 {
    let is_prime = |number: &u32| (2..*number).all(|divisor| !number.is_multiple_of(divisor));
    (least + 1..).find(is_prime).unwrap_or(least)
}

/// Number of competing busy processes: 1 to [`Competitors::MOST`], or none next to a load.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Competitors(u32);

/// Reason why a text is not a number of busy processes.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` busy processes cannot compete; use a number from 1 to {most}", most = Competitors::MOST)]
pub struct ParseCompetitorsError(String);

impl Competitors {
    /// Maximum number: a round of more processes does not give new information.
    pub const MOST: u32 = 64;
    /// No busy process; the load competes.
    pub const NONE: Self = Self(0);

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Competitors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Competitors {
    type Err = ParseCompetitorsError;

    fn from_str(text: &str) -> Result<Self, ParseCompetitorsError> {
        match text.trim().parse() {
            Ok(number @ 1..=Self::MOST) => Ok(Self(number)),
            _ => Err(ParseCompetitorsError(text.into())),
        }
    }
}

/// Turns of equal length that real-time processes of one priority give each other. Each
/// process ends its turn at the next multiple of that length of `CLOCK_MONOTONIC`, so
/// that turns do not drift.
///
/// The kernel's round robin has turns of whole ticks, the same for the whole machine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
#[schemars(rename = "Turns")]
pub struct BusyTurns(Nanos);

/// Reason why a text is not the length of a turn.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseBusyTurnsError {
    /// Not a duration.
    #[error(transparent)]
    Time(#[from] ParseNanosError),
    /// Too short or too long.
    #[error(
        "turns of {0} cannot be kept; use {shortest} to {longest}",
        shortest = BusyTurns::SHORTEST,
        longest = BusyTurns::LONGEST
    )]
    Range(Nanos),
}

/// Computing time of the processes per second; all sleep for the rest. It is less than 950 ms.
/// After 950 ms the kernel throttles real-time threads, which would also stop the measured ones.
/// The rest leaves enough time for other work there.
const BUSY: Nanos = Nanos::from_ms(900);
const SECOND: Nanos = Nanos::from_secs(1);

impl BusyTurns {
    /// Priority of processes that take turns (`SCHED_FIFO`): below all measured
    /// services except the plain thread.
    pub const PRIORITY: u8 = 10;
    /// Minimum length; shorter turns would be mostly context switches.
    pub const SHORTEST: Nanos = Nanos::from_ms(1);
    /// Maximum length; of longer turns there are too few per second.
    pub const LONGEST: Nanos = Nanos::from_ms(100);
    /// Time per second when all of them sleep.
    pub const REST: Nanos = Nanos::from_ns(SECOND.ns() - BUSY.ns());

    /// Returns the length of a turn.
    #[must_use]
    pub const fn length(self) -> Nanos {
        self.0
    }

    /// Returns the end of the turn that is active at `now`; at most `now` if all sleep.
    #[must_use]
    pub fn end(self, now: Nanos) -> Nanos {
        let next = Nanos::from_ns((now.ns() / self.0.ns() + 1) * self.0.ns());
        let pause = Nanos::from_ns(now.ns() / SECOND.ns() * SECOND.ns()) + BUSY;
        if now < pause { next.min(pause) } else { now }
    }

    /// Returns the end of the sleep if all sleep at `now`.
    #[must_use]
    pub fn pause(now: Nanos) -> Option<Nanos> {
        let begun = Nanos::from_ns(now.ns() / SECOND.ns() * SECOND.ns());
        (now >= begun + BUSY).then(|| begun + SECOND)
    }
}

impl fmt::Display for BusyTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for BusyTurns {
    type Err = ParseBusyTurnsError;

    fn from_str(text: &str) -> Result<Self, ParseBusyTurnsError> {
        let length: Nanos = text.trim().parse()?;
        if length < Self::SHORTEST || length > Self::LONGEST {
            Err(ParseBusyTurnsError::Range(length))
        } else {
            Ok(Self(length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(busy: &str, turn: Option<&str>) -> Contexts {
        Contexts {
            cpu: Cpu(1),
            busy: busy.parse().unwrap(),
            turn_ns: turn.map(|turn| turn.parse().unwrap()),
        }
    }

    #[test]
    fn queue_positions_are_equally_frequent() {
        for busy in 1..=Competitors::MOST {
            let contexts = beside(&busy.to_string(), Some("10ms"));
            let turns = contexts.period(Nanos::from_ms(4)).ns() / Nanos::from_ms(10).ns();
            let round = u64::from(busy) + 1;

            let mut places: Vec<u64> = (0..round).map(|expiry| expiry * turns % round).collect();
            places.sort_unstable();

            assert_eq!(places, (0..round).collect::<Vec<_>>(), "{busy}");
            assert!(turns > round, "the next is asked after the longest wait");
        }
    }

    #[test]
    fn turns_end_at_multiples_of_the_clock_and_at_the_second() {
        let turns: BusyTurns = "7ms".parse().unwrap();
        let second = Nanos::from_secs(100);

        assert_eq!(turns.end(Nanos::from_ms(13)), Nanos::from_ms(14));
        assert_eq!(turns.end(Nanos::from_ms(14)), Nanos::from_ms(21));
        let last = second + Nanos::from_ms(899);
        assert_eq!(turns.end(last), second + Nanos::from_ms(900));
        assert_eq!(BusyTurns::pause(last), None);
        let pause = second + Nanos::from_ms(900);
        assert_eq!(BusyTurns::pause(pause), Some(second + Nanos::from_secs(1)));
        assert_eq!(turns.end(pause), pause);
    }

    #[test]
    fn real_time_turns_exclude_work_items() {
        assert_eq!(
            beside("4", Some("10ms")).services(),
            [
                Service::Irq,
                Service::Softirq,
                Service::Fifo(50),
                Service::Lent(50),
                Service::Fifo(10)
            ]
        );
        assert_eq!(
            beside("4", None).services(),
            [
                Service::Irq,
                Service::Softirq,
                Service::Worker,
                Service::Fifo(50),
                Service::Lent(50),
                Service::Nice(-20),
                Service::Slice(Nanos::from_us(100)),
                Service::Other
            ]
        );
    }

    #[test]
    fn invalid_numbers_and_turns_are_refused_with_the_range() {
        for text in ["0", "10000", "-1", "four"] {
            assert_eq!(
                text.parse::<Competitors>().unwrap_err().to_string(),
                format!("`{text}` busy processes cannot compete; use a number from 1 to 64")
            );
        }
        let error = |text: &str| text.parse::<BusyTurns>().unwrap_err().to_string();
        assert_eq!(
            error("10us"),
            "turns of 10us cannot be kept; use 1ms to 100ms"
        );
        assert!(error("10").contains("has no unit"), "{}", error("10"));
    }
}
