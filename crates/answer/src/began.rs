//! Order of recordings in time.

use jiff::Timestamp;
use laggard_model::Manifest;

/// Returns the start of a recording, for comparison with others. The same time is written
/// differently in another time zone, and when clocks change. An unreadable time comes first.
pub(crate) fn began(manifest: &Manifest) -> (Option<Timestamp>, &str) {
    let wall = manifest.clock.start_wall.as_str();
    (wall.parse().ok(), wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{Backend, Clock, Nanos, ProbePlan};

    #[test]
    fn recordings_are_in_the_order_of_time_not_of_how_it_is_written() {
        // The last hour of summer time, and the first after it.
        let in_order = [
            "when it began",
            "2026-10-25T02:50:00.000+02:00",
            "2026-10-25T02:10:00.000+01:00[Europe/Berlin]",
            "2026-10-25T01:20:00.000Z",
        ];
        let manifest = |wall: &str| {
            let clock = Clock::monotonic(Nanos::ZERO, wall);
            Manifest::new(Backend::Fake, ProbePlan::default(), clock, Vec::new())
        };
        let mut manifests = in_order.map(manifest);
        manifests.reverse();

        manifests.sort_by(|first, second| began(first).cmp(&began(second)));

        assert_eq!(
            manifests.map(|manifest| manifest.clock.start_wall),
            in_order
        );
    }
}
