//! Coverage of the printed intervals, by simulation of processes with known truth. Takes
//! minutes: `make test-statistics`. Writes docs/validation/coverage.md.

#[path = "../processes/mod.rs"]
mod processes;

mod page;

use page::Page;
use processes::{PROCESSES, mean_time};

/// Number of recordings of each process.
const RUNS: u64 = 1_000;

#[test]
fn intervals_have_the_documented_coverage() {
    let mut page = Page::default();
    xruns(&mut page);
    page.write();
}

fn xruns(page: &mut Page) {
    page.section(
        "`qos`: mean time between xruns",
        "95 % interval. Stalls of 1.2 ms, each one xrun. `events` is the expected number of xruns.",
    );
    for process in PROCESSES {
        let coverage = mean_time(process, RUNS);
        page.row(&process, &coverage);
        assert!(
            coverage.share() >= process.least - 0.02,
            "{process:?}: {}",
            coverage.share()
        );
    }
}
