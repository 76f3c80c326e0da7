//! Guest clock at a time of this machine.

use std::time::Instant;

use laggard_model::Nanos;

/// Prefix of a line with the guest's `CLOCK_MONOTONIC` in ns.
const PREFIX: &str = "testhost: clock ";

/// Readings of the guest's clock, each with its arrival time.
///
/// A reading takes some time to arrive, and the guest's clock has a different rate. Of the
/// readings before the command and of those after it, the fastest counts, and the clock is
/// interpolated between them. The error is the delay of the fastest reading, some tenths of a
/// millisecond.
#[derive(Debug, Default)]
pub(super) struct GuestClock {
    before: Option<Reading>,
    after: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    arrived: Instant,
    guest: Nanos,
}

impl Reading {
    /// Returns whether this reading arrived faster than `other`, which is older.
    fn is_sooner_than(&self, other: &Self) -> bool {
        let passed = Nanos::from(self.arrived.saturating_duration_since(other.arrived));
        self.guest.saturating_sub(other.guest) > passed
    }
}

impl GuestClock {
    /// Processes a line of the console that arrived at `arrived`, if it is a reading.
    /// `command_began`: whether the command had started.
    pub(super) fn take(&mut self, line: &str, arrived: Instant, command_began: bool) -> bool {
        let Some(guest) = line.strip_prefix(PREFIX).and_then(|ns| ns.parse().ok()) else {
            return false;
        };
        let reading = Reading {
            arrived,
            guest: Nanos::from_ns(guest),
        };
        let soonest = if !command_began {
            &mut self.before
        } else {
            &mut self.after
        };
        if soonest.is_none_or(|soonest| reading.is_sooner_than(&soonest)) {
            *soonest = Some(reading);
        }
        true
    }

    /// Returns the guest's clock at `at`, between the start and end of the command; `None` without
    /// a reading before or after.
    pub(super) fn at(&self, at: Instant) -> Option<Nanos> {
        let (before, after) = (self.before?, self.after?);
        let ours = after.arrived.checked_duration_since(before.arrived)?;
        let theirs = Nanos::between(before.guest, after.guest)?;
        let passed = at.checked_duration_since(before.arrived)?;
        let pace = theirs.as_secs_f64() / ours.as_secs_f64();
        let guest = std::time::Duration::try_from_secs_f64(passed.as_secs_f64() * pace).ok()?;
        Some(before.guest + guest.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fastest_readings_set_the_clock() {
        let booted = Instant::now();
        let ms = Duration::from_millis;
        let mut clock = GuestClock::default();
        // The guest's clock is 2 s behind and 1 % slow; readings need 5, 1 and 9 ms, then 7 and 1
        // ms, to arrive.
        for (host_ms, guest, began) in [
            (3_005, 1_000_000_000_u64, false),
            (3_101, 1_099_000_000, false),
            (3_209, 1_198_000_000, false),
            (13_107, 10_999_000_000, true),
            (13_201, 11_098_000_000, true),
        ] {
            assert!(clock.take(&format!("{PREFIX}{guest}"), booted + ms(host_ms), began));
        }

        let middle = clock.at(booted + ms(8_001)).unwrap();

        assert!(middle.ns().abs_diff(5_950_000_000) < 100_000, "{middle}");
        assert_eq!(clock.at(booted), None);
    }

    #[test]
    fn other_lines_are_ignored() {
        let mut clock = GuestClock::default();

        assert!(!clock.take("testhost: command begins", Instant::now(), false));
        assert!(!clock.take("testhost: clock ?", Instant::now(), false));
        assert_eq!(clock.at(Instant::now()), None);
    }
}
