//! Coverage of the mean time to failure if the rate varies slowly, by simulation with
//! fixed seeds. `make test-statistics` has more recordings of each process.

use crate::processes::{PROCESSES, mean_time};

/// Clusters alone, with a steady rate, had .47 for a rate that changes every minute in two
/// minutes and .61 in five.
#[test]
fn mean_time_holds_if_the_rate_varies_slowly() {
    for process in PROCESSES
        .into_iter()
        .filter(|process| process.events < 150.0)
    {
        let coverage = mean_time(process, 60);
        println!("{}: {:.3}", process.name(), coverage.share());
        // Three standard errors of 60 recordings.
        let error = 3.0 * (process.least * (1.0 - process.least) / 60.0).sqrt();
        assert!(coverage.share() >= process.least - error, "{process:?}");
    }
}
