//! Services that are drawn by default.

use laggard_model::{Route, Service};

use super::{RecordingReport, ServiceRow};

/// Curves that an eye can follow.
const MOST: usize = 3;

/// Returns the services that a figure shows by default, in the order of the report: the interrupt,
/// the most urgent thread and a normal thread. The interrupt wakes all of them. A missing one is
/// replaced by the most direct of the others.
pub fn leading(report: &RecordingReport) -> Vec<(Service, Route)> {
    let series: Vec<(Service, Route)> = report
        .services
        .iter()
        .filter(|row| row.latency.samples > 0)
        .map(|row| (row.service, row.route))
        .collect();
    let first = |is_wanted: &dyn Fn(Service) -> bool| {
        let woken_by = |route| {
            series
                .iter()
                .position(|series_row| is_wanted(series_row.0) && series_row.1 == route)
        };
        woken_by(Route::Direct).or_else(|| woken_by(Route::Deferred))
    };
    let mut chosen: Vec<usize> = [
        first(&|service| service == Service::Irq),
        first(&|service| matches!(service, Service::Fifo(_) | Service::Realtime(_))),
        first(&Service::is_normal_thread),
    ]
    .into_iter()
    .flatten()
    .collect();
    for index in 0..series.len() {
        if chosen.len() < MOST && !chosen.contains(&index) {
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|index| series[index]).collect()
}

/// Returns the series that represents a recording. `None`: nothing ran.
pub fn foremost(report: &RecordingReport) -> Option<(Service, Route)> {
    representative_row(report).map(|row| (row.service, row.route))
}

/// Returns the row that represents a recording: the most urgent thread that ran, otherwise the
/// watched thread with the most samples, otherwise the first row that ran.
pub(crate) fn representative_row(report: &RecordingReport) -> Option<&ServiceRow> {
    let ran = |row: &&ServiceRow| row.latency.samples > row.still_waiting;
    let threads = report
        .services
        .iter()
        .filter(ran)
        .filter(|row| row.service.is_thread() && row.route == Route::Direct);
    threads
        .max_by_key(|row| (row.service.urgency(), row.latency.largest_ns))
        .or_else(|| {
            let rows = report.services.iter().filter(ran);
            rows.filter(|row| matches!(row.service, Service::Task(_)))
                .max_by_key(|row| row.latency.samples)
        })
        .or_else(|| report.services.iter().find(ran))
}
