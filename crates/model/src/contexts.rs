//! Busy processes that compete for one CPU, and who is asked for work beside
//! them (Heubaum, "Windows 95 Interrupt Latency", Vireo White Paper, 1995).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cpu, Nanos, ParseNanosError, Service};

/// Who competes for the CPU that is measured, and who is measured beside them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Contexts {
    /// The CPU for which all of them compete.
    pub cpu: Cpu,
    /// How many processes compute without end there, besides the one that is
    /// asked.
    pub busy: Competitors,
    /// For how long each runs before it gives way to the next, where they see to
    /// that themselves; absent: as the kernel's scheduler likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ns: Option<BusyTurns>,
}

impl Contexts {
    /// The thread whose process is raised for the work: Heubaum's "priority VM
    /// event".
    pub const BOOSTED: Service = Service::Fifo(50);

    /// The same, raised for that work alone: by who asks for it, through a PI futex.
    pub const LENT: Service = Service::Lent(50);

    /// The same, raised by the least nice value alone; not where those that are busy
    /// are real-time ones.
    pub const NICED: Service = Service::Nice(-20);

    /// The same, raised by the shortest slice alone; likewise.
    pub const SLICED: Service = Service::Slice(Service::SLICES.0);

    /// The thread of a process that is one of the busy ones: Heubaum's "VM
    /// event". By the direct route it computes as they do, and finds the work when
    /// its turn comes; by the deferred route it sleeps until it is woken.
    #[must_use]
    pub const fn plain(self) -> Service {
        match self.turn_ns {
            Some(_) => Service::Fifo(BusyTurns::PRIORITY),
            None => Service::Other,
        }
    }

    /// What is measured beside them, the most direct first. Work items and niced
    /// threads wait for normal threads alone, and would starve beside real-time ones.
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

    /// How often each is asked: always at the same instant of a turn, so that what
    /// is waited is so many whole turns and the same part of one, and in so many
    /// turns that each place in the queue has its share. `tick`: of the kernel's
    /// scheduler, at which it ends turns where they do not themselves.
    #[must_use]
    pub fn period(self, tick: Nanos) -> Nanos {
        let turn = self.turn_ns.map_or(tick, BusyTurns::length);
        turn * self.turns_of_period()
    }

    /// How far the instants are apart at which turns can end, where each is asked
    /// once in `period`: the length of the turns, or the kernel's tick.
    #[must_use]
    pub fn turn(self, period: Nanos) -> Nanos {
        let turn = Nanos::from_ns(period.ns() / self.turns_of_period());
        self.turn_ns.map_or(turn, BusyTurns::length)
    }

    /// So many turns are from one time that each is asked to the next.
    fn turns_of_period(self) -> u64 {
        // A recording can say anything.
        prime_above(self.busy.0.min(Competitors::MOST) + 1).into()
    }
}

/// The least prime number above `least`. With `least` in a round of turns, so
/// many turns lead to each place of the round in its time.
fn prime_above(least: u32) -> u32 {
    let is_prime = |number: &u32| (2..*number).all(|one| !number.is_multiple_of(one));
    (least + 1..).find(is_prime).unwrap_or(least)
}

/// How many busy processes compete: 1 to [`Competitors::MOST`].
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Competitors(u32);

/// Why a text is not a number of busy processes.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` busy processes cannot compete; use a number from 1 to {most}", most = Competitors::MOST)]
pub struct ParseCompetitorsError(String);

impl Competitors {
    /// More are not started: the wait for one round of them says nothing new.
    pub const MOST: u32 = 64;

    /// How many.
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

/// Turns that real-time processes of one priority give each other, all of one
/// length: each ends its own at the next multiple of that length by
/// `CLOCK_MONOTONIC`, so that turns do not drift against it.
///
/// The kernel's own round robin has turns of whole ticks, the same for the whole
/// machine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
#[schemars(rename = "Turns")]
pub struct BusyTurns(Nanos);

/// Why a text is not the length of a turn.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseBusyTurnsError {
    /// It is no time.
    #[error(transparent)]
    Time(#[from] ParseNanosError),
    /// It is too short or too long.
    #[error(
        "turns of {0} cannot be kept; use {shortest} to {longest}",
        shortest = BusyTurns::SHORTEST,
        longest = BusyTurns::LONGEST
    )]
    Range(Nanos),
}

/// In each second processes that take turns compute for so long, and all sleep
/// for the rest: less than the 950 ms after which the kernel takes the CPU from
/// real-time threads, which would stop those that are measured too, and enough
/// for whatever else has to run there.
const BUSY: Nanos = Nanos::from_ms(900);
const SECOND: Nanos = Nanos::from_secs(1);

impl BusyTurns {
    /// The priority of those that take turns (`SCHED_FIFO`): below all that is
    /// measured but the plain thread.
    pub const PRIORITY: u8 = 10;
    /// Shorter ones would be mostly switches.
    pub const SHORTEST: Nanos = Nanos::from_ms(1);
    /// Of longer ones there are too few in a second.
    pub const LONGEST: Nanos = Nanos::from_ms(100);
    /// For how long of each second all of them sleep.
    pub const REST: Nanos = Nanos::from_ns(SECOND.ns() - BUSY.ns());

    /// How long each is.
    #[must_use]
    pub const fn length(self) -> Nanos {
        self.0
    }

    /// Until when who runs at `now` may compute; no longer than `now` where all
    /// sleep.
    #[must_use]
    pub fn end(self, now: Nanos) -> Nanos {
        let next = Nanos::from_ns((now.ns() / self.0.ns() + 1) * self.0.ns());
        let pause = Nanos::from_ns(now.ns() / SECOND.ns() * SECOND.ns()) + BUSY;
        if now < pause { next.min(pause) } else { now }
    }

    /// Until when all sleep, where they do at `now`.
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
    fn each_place_in_the_queue_has_its_share() {
        for busy in 1..=Competitors::MOST {
            let contexts = beside(&busy.to_string(), Some("10ms"));
            let turns = contexts.period(Nanos::from_ms(4)).ns() / Nanos::from_ms(10).ns();
            let round = u64::from(busy) + 1;

            let mut places: Vec<u64> = (0..round).map(|asked| asked * turns % round).collect();
            places.sort_unstable();

            assert_eq!(places, (0..round).collect::<Vec<_>>(), "{busy}");
            assert!(turns > round, "the next is asked after the longest wait");
        }
    }

    #[test]
    fn turns_end_together_with_those_of_the_clock_and_with_the_second() {
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
    fn who_takes_turns_by_priority_leaves_no_time_to_work_items() {
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
    fn what_is_no_number_of_processes_or_no_turn_says_what_is() {
        for text in ["0", "10000", "-1", "four"] {
            assert_eq!(
                text.parse::<Competitors>().unwrap_err().to_string(),
                format!("`{text}` busy processes cannot compete; use a number from 1 to 64")
            );
        }
        let said = |text: &str| text.parse::<BusyTurns>().unwrap_err().to_string();
        assert_eq!(
            said("10us"),
            "turns of 10us cannot be kept; use 1ms to 100ms"
        );
        assert!(said("10").contains("has no unit"), "{}", said("10"));
    }
}
