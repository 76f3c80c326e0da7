//! Section of one machine.

use laggard_model::text::{Unit, count};

use super::{Escaped, describe, table};
use crate::answers::{MachineMap, MappedMachine, WorstReport, service_cells};

/// Maximum number of hours that are described in words.
const HOURS: usize = 8;

/// Adds the section of the machine at `place`.
pub(super) fn part(
    html: &mut String,
    worst: &WorstReport,
    map: &MachineMap,
    place: usize,
    machine: &MappedMachine,
) {
    let host = &worst.hosts[place];
    *html += &format!(
        "<section id=m{place} aria-labelledby=h{place}>\n<h2 id=h{place}>{}</h2>\n\
         <p>Kernel {}. <a href=\"#map\">All machines</a></p>\n",
        Escaped(&host.host),
        Escaped(&machine.kernels.join(", then "))
    );
    let rows: Vec<Vec<String>> = machine
        .services
        .iter()
        .map(|service| {
            let mut cells = service_cells(service);
            // The number of machines, which is 1 here.
            cells.remove(1);
            cells
        })
        .collect();
    table(
        html,
        &[
            "", "samples", "missed", "lost", "p50", "p99", "p99.9", "p99.99", "largest",
        ],
        &rows,
    );
    hours(html, worst, map, machine);
    causes(html, machine);
    *html += "</section>\n";
}

/// Lists its worst times, for the service of the question.
fn hours(html: &mut String, worst: &WorstReport, map: &MachineMap, machine: &MappedMachine) {
    let mut cells: Vec<_> = machine
        .cells
        .iter()
        .enumerate()
        .filter_map(|(column, cell)| Some((column, cell.as_ref()?)))
        .collect();
    cells.sort_by_key(|(column, cell)| (std::cmp::Reverse((cell.late, cell.largest_ns)), *column));
    *html += &format!(
        "<h3>Worst {} of {} (UTC)</h3>\n<ol>\n",
        if map.step_h == 1 {
            "hours"
        } else {
            "stretches"
        },
        Escaped(&worst.service)
    );
    for (column, cell) in cells.iter().take(HOURS) {
        *html += &format!("<li>{}</li>\n", describe(map, *column, cell));
    }
    *html += "</ol>\n";
}

fn causes(html: &mut String, machine: &MappedMachine) {
    if machine.causes.is_empty() {
        *html += "<p>No late wakeup has trace data.</p>\n";
        return;
    }
    *html += "<h3>Causes of late wakeups of all services</h3>\n";
    let rows: Vec<Vec<String>> = machine
        .causes
        .iter()
        .map(|cause| {
            vec![
                cause.who.clone(),
                format!("{:.0} %", cause.share * 100.0),
                format!("{} x", count(cause.episodes)),
                Unit::Auto.write_nanos(cause.largest_ns),
            ]
        })
        .collect();
    table(html, &["", "share of latency", "late", "max"], &rows);
}
