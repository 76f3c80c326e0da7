//! Recordings of earlier versions are readable.

use std::path::Path;

use crate::fixture::all_rows;
use laggard_model::{Nanos, Stage};
use laggard_record::Recording;

#[test]
fn recording_from_before_two_stages_is_read_without_them() {
    let directory = Path::new("tests/recordings/nine-stages");

    let rows = all_rows(&Recording::open(directory).unwrap());

    assert_eq!(rows.len(), 99);
    for row in rows {
        assert_eq!(row.until(Stage::Waking), Some(Nanos::from_us(8)));
        assert_eq!(row.latency(), Nanos::from_us(20));
        assert_eq!(row.until(Stage::IrqThread), None);
        assert_eq!(row.until(Stage::Kthread), None);
        assert_eq!(row.until(Stage::IrqElsewhere), None);
    }
}
