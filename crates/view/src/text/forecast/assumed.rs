//! What horizons stay below that the ranks do not bound, by an assumption.

use laggard_answer::forecast::{Cell, LoadForecast, StaysBelow};
use laggard_answer::show::at_least;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, mean_time};

use super::super::grid::Grid;

/// Where the assumption comes from.
pub(super) const EXPLAINED: &str = "Assumed means: not seen, and not fitted. Ranks bound 9 of 10 \
    horizons of up to a ninth of the recordings, by the largest seen. A horizon n times as long is \
    taken to stay within n^shape times that. The shape was chosen by back-tests, which reached 150 \
    times the recordings; beyond, nothing is told. docs/validation/forecasts.md has how often it held.";

/// A bound of latencies that were all 0 ns: finer ones were not resolved.
pub(super) const UNKNOWN: &str = "unknown";

/// The assumption, and by service what nine of ten of each horizon stay below if
/// the tail is no heavier.
pub(super) fn of_load(load: &LoadForecast) -> Option<(String, Grid)> {
    let first = load.services.first()?;
    let heads = first
        .cells
        .iter()
        .map(|cell| format!("9 of 10 {}s", cell.horizon.name()));
    let heads: Vec<String> = ["if so, within".into()].into_iter().chain(heads).collect();
    let mut rows = Grid::new(heads);
    for service in &load.services {
        let name = line_name(service.service, service.route);
        let cells = service.cells.iter().map(of_cell);
        rows.add_row([name].into_iter().chain(cells).collect::<Vec<_>>());
    }
    let shape = asked(&first.cells[0]).assumed_shape;
    let most = 10_f64.powf(shape);
    let text = format!(
        "Assumed, not seen: in ten times the time the largest is at most {most:.1} times as large \
         (a tail of shape {shape} or lighter). If so:"
    );
    Some((text, rows))
}

fn of_cell(cell: &Cell) -> String {
    let asked = asked(cell);
    let write = |is_at_least, ns| at_least(is_at_least, &Unit::Auto.write(ns));
    if asked.is_unresolved {
        return UNKNOWN.into();
    }
    match (asked.bound_ns, asked.assumed_ns) {
        // By ranks nothing is assumed.
        (Some(bound), _) => write(asked.is_at_least, bound),
        (None, Some(assumed)) => write(cell.ahead.is_at_least, assumed),
        (None, None) => format!("record {}", mean_time(asked.assumed_record_ns)),
    }
}

/// The highest share that is asked: nine of ten.
fn asked(cell: &Cell) -> &StaysBelow {
    let all = cell.ahead.stays_below.iter();
    all.max_by(|a, b| a.share.total_cmp(&b.share))
        .expect("shares are a constant, not empty")
}
