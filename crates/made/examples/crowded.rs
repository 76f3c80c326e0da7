//! Makes a recording whose late wakeups have many events, for `make bench`.
//!
//! Usage: `crowded DIR EPISODES EVENTS [CPUS]`: EPISODES late wakeups with about EVENTS
//! events each, on CPUS CPUs [1].

use std::path::Path;

use laggard_made::crowded;

const USAGE: &str = "usage: crowded DIR EPISODES EVENTS [CPUS]";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).map(|text| text.parse().expect(USAGE));
    let dir = Path::new(arguments.first().expect(USAGE));
    let episodes: u64 = number(1).expect(USAGE);
    let events: u64 = number(2).expect(USAGE);
    let cpus = u32::try_from(number(3).unwrap_or(1)).expect(USAGE);
    let late: Vec<_> = (1..=episodes)
        .map(|number| crowded::episode(number, cpus, events))
        .collect();
    crowded::recording(cpus).record_with(dir, &late, &crowded::notes());
}
