//! Content of a page.

use laggard_model::Nanos;

use super::*;
use crate::answers::{MappedMachine, Order, StoreView, WorstHost};

fn store() -> StoreView {
    StoreView {
        store: "/srv".into(),
        since: None,
        recordings: 4,
        hosts: 2,
        refused: Vec::new(),
        damaged: Vec::new(),
        untrustworthy: Vec::new(),
        scripted: 0,
        overlapping: Vec::new(),
    }
}

fn host(name: &str) -> WorstHost {
    WorstHost {
        host: name.into(),
        minutes: 120,
        late_minutes: 3,
        counted_per_hour: 1.5,
        per_hour: Some(1.4),
        low_per_hour: Some(0.5),
        high_per_hour: Some(3.0),
        p999: None,
        largest_ns: Nanos::from_ms(7),
        cause: None,
        cause_share: None,
    }
}

fn worst(hosts: Vec<WorstHost>) -> WorstReport {
    WorstReport {
        schema: 1,
        of: store(),
        service: "fifo:90".into(),
        limit_ns: Nanos::from_ms(1),
        order: Order::Rate,
        measured: hosts.len() as u64,
        hosts,
        more: 0,
    }
}

fn cell(late: u64, minutes: u64) -> MapCell {
    MapCell {
        minutes,
        late,
        largest_ns: Nanos::from_ms(7),
    }
}

fn map(machines: Vec<Vec<Option<MapCell>>>) -> MachineMap {
    MachineMap {
        first_h: 498_000,
        step_h: 1,
        columns: machines.first().map_or(0, Vec::len),
        machines: machines
            .into_iter()
            .map(|cells| MappedMachine {
                kernels: vec!["6.12".into()],
                cells,
                ..MappedMachine::default()
            })
            .collect(),
    }
}

#[test]
fn markup_in_a_name_is_escaped() {
    let name = "</pre><script>alert(1)</script>\"'&\u{1b}[31m";

    let html = page(
        &worst(vec![host(name)]),
        &map(vec![vec![Some(cell(1, 60))]]),
    );

    assert!(!html.contains("<script"), "{html}");
    assert!(!html.contains('\u{1b}'), "{html}");
    let shown = "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;";
    assert!(html.contains(shown), "{html}");
    assert_eq!(html.matches("</pre>").count(), 2, "its own");
}

#[test]
fn cell_shows_its_minutes_and_is_empty_without_any() {
    let cells = vec![
        Some(cell(0, 60)),
        None,
        Some(cell(3, 60)),
        Some(cell(60, 60)),
    ];

    let html = page(&worst(vec![host("a")]), &map(vec![cells]));

    assert!(html.contains("<td class=l0 title=\"2026-10-24 00:00: 0 of 60 minutes late, largest 7.00 ms\"><td><td class=l1"), "{html}");
    assert!(
        html.contains("<td class=l5 title=\"2026-10-24 03:00: 60 of 60 minutes late"),
        "{html}"
    );
}

#[test]
fn levels_are_shares_of_the_measured_minutes() {
    let levels = [
        (0, 60),
        (3, 60),
        (4, 60),
        (13, 60),
        (31, 60),
        (60, 60),
        (1, 1),
        (0, 0),
    ];

    let found_levels = levels.map(|(late, minutes)| level(&cell(late, minutes)));

    assert_eq!(found_levels, [0, 1, 2, 3, 4, 5, 5, 0]);
}

#[test]
fn worst_hours_of_a_machine_come_first_without_empty_ones() {
    let cells = vec![Some(cell(1, 60)), None, Some(cell(9, 60))];

    let html = page(&worst(vec![host("a")]), &map(vec![cells]));

    let list = &html[html.find("<ol>").unwrap()..html.find("</ol>").unwrap()];
    let first = list.find("9 of 60").unwrap();
    assert!(first < list.find("1 of 60").unwrap(), "{list}");
    assert_eq!(list.matches("<li>").count(), 2, "{list}");
}

#[test]
fn page_of_an_empty_store_states_that_nothing_was_measured() {
    let html = page(&worst(Vec::new()), &map(Vec::new()));

    assert!(html.contains("Nothing was measured of fifo:90"), "{html}");
    assert!(!html.contains("<table"), "{html}");
}
