//! Exported data that other programs read.

use std::io::Cursor;
use std::process::Output;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::DataType;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, ask, must_record, script, stalled};

fn export(dir: &TempDir, args: &[&str]) -> Output {
    ask(dir, &[&["export", "r.laggard"], args].concat())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    output.text()
}

#[test]
fn csv_has_a_row_per_activation_and_marks_missed_ones() {
    let dir = stalled();

    let csv = text(&export(&dir, &["--format=csv"]));

    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1_999);
    let place = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let stages = place("irq_ns")..=place("kthread_ns");
    let ns = |text: &str| text.parse::<u64>().unwrap_or_default();
    for row in &rows {
        assert_eq!(row.len(), header.len());
        assert_eq!(
            &row[place("service")..=place("route")],
            ["fifo:90", "direct"]
        );
        let sum: u64 = stages.clone().map(|stage| ns(row[stage])).sum();
        assert_eq!(ns(row[place("latency_ns")]), sum, "{row:?}");
    }
    let is_missed = |row: &&Vec<&str>| row[place("missed")] == "true";
    assert_eq!(rows.iter().filter(is_missed).count(), 19);
    assert!(rows.iter().all(|row| row[place("censored")] == "false"));
}

/// Formats an Arrow table as CSV.
fn as_csv(batches: impl Iterator<Item = RecordBatch>) -> Vec<Vec<String>> {
    let cell = |column: &ArrayRef, row: usize| {
        if column.is_null(row) {
            String::new()
        } else {
            match column.data_type() {
                DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
                DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
                DataType::Boolean => column.as_boolean().value(row).to_string(),
                _ => column.as_string::<i32>().value(row).to_owned(),
            }
        }
    };
    batches
        .flat_map(|batch| {
            let row = |row| {
                batch
                    .columns()
                    .iter()
                    .map(|column| cell(column, row))
                    .collect()
            };
            (0..batch.num_rows()).map(row).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn an_arrow_table_has_the_rows_and_columns_of_the_csv() {
    let dir = stalled();
    let csv = text(&export(&dir, &["--format=csv"]));
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned));
    let header: Vec<String> = lines.next().unwrap().collect();
    let rows: Vec<Vec<String>> = lines.map(Iterator::collect).collect();

    let file = export(&dir, &["--format=arrow", "--output=-"]).stdout;
    let stream = export(&dir, &["--format=arrow-stream", "--output=-"]).stdout;

    let file = FileReader::try_new(Cursor::new(file), None).unwrap();
    let stream = StreamReader::try_new(Cursor::new(stream), None).unwrap();
    for schema in [file.schema(), stream.schema()] {
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, header.iter().collect::<Vec<_>>());
    }
    assert_eq!(rows.len(), 1_999);
    assert!(as_csv(file.map(Result::unwrap)) == rows);
    assert!(as_csv(stream.map(Result::unwrap)) == rows);
    let no_file = export(&dir, &["--format=arrow"]);
    no_file.assert_fails(2, "Arrow is a binary format");
}

/// A batch has 65,536 rows, so the rows are in several batches.
#[test]
fn rows_of_several_batches_are_all_there_in_their_order() {
    let dir = TempDir::new().unwrap();
    must_record(
        &dir.path().join("r.laggard"),
        &script(1_000_000, ""),
        &["--duration=70s"],
    );
    let csv = text(&export(&dir, &["--format=csv"]));
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert!(rows.len() > 65_536, "{}", rows.len());

    let file = export(&dir, &["--format=arrow", "--output=-"]).stdout;
    let stream = export(&dir, &["--format=arrow-stream", "--output=-"]).stdout;

    let file = FileReader::try_new(Cursor::new(file), None).unwrap();
    let stream = StreamReader::try_new(Cursor::new(stream), None).unwrap();
    assert_eq!(file.num_batches(), 2);
    for read in [
        as_csv(file.map(Result::unwrap)),
        as_csv(stream.map(Result::unwrap)),
    ] {
        let read: Vec<String> = read.iter().map(|row| row.join(",")).collect();
        assert!(read == rows, "{} rows for {}", read.len(), rows.len());
    }
}

#[test]
fn a_file_is_replaced_only_when_that_is_asked_for() {
    let dir = stalled();
    let file = dir.path().join("out.parquet");
    std::fs::write(&file, "precious").unwrap();
    let words = ["--format=parquet", "--output=out.parquet"];

    let refused = export(&dir, &words);
    refused.assert_fails(2, "`out.parquet` exists; give another name");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");

    text(&export(&dir, &[&words[..], &["--force"]].concat()));
    let parquet = std::fs::read(&file).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    assert!(!dir.path().join("out.parquet.part").exists());
    let no_file = export(&dir, &["--format=parquet"]);
    no_file.assert_fails(2, "name a file with `--output`");
}

#[test]
fn openmetrics_describes_each_family_and_has_an_end() {
    let dir = stalled();

    let metrics = text(&export(&dir, &["--format=openmetrics"]));

    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for part in [
        "# TYPE laggard_latency_seconds histogram\n# UNIT laggard_latency_seconds seconds\n# HELP laggard_latency_seconds ",
        "laggard_latency_seconds_count{service=\"fifo:90\",route=\"direct\"} 1999\n",
        "laggard_latency_seconds_bucket{service=\"fifo:90\",route=\"direct\",le=\"+Inf\"} 1999\n",
        "laggard_missed_activations_total{service=\"fifo:90\",route=\"direct\"} 19\n",
        "laggard_losses_total{reason=\"ring_full\"} 0\n",
    ] {
        metrics.assert_has(part);
    }
    // Buckets are cumulative.
    let counts: Vec<u64> = metrics
        .lines()
        .filter(|line| line.contains("_bucket{service=\"fifo:90\""))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(counts.len() > 5 && counts.is_sorted(), "{counts:?}");
}

#[test]
fn a_log_of_hdrhistogram_gives_the_distribution_back() {
    let dir = stalled();

    let log = text(&export(&dir, &["--format=hdr"]));

    let fifo = IntervalLogIterator::new(log.as_bytes())
        .filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        })
        .find(|interval| interval.tag().is_some_and(|tag| tag.as_str() == "fifo:90"))
        .unwrap();
    let bytes = decoded(fifo.encoded_histogram());
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
    assert_eq!(histogram.len(), 1_999);
    let median = histogram.value_at_quantile(0.5);
    assert!((18_851..=19_100).contains(&median), "{median}");
    let largest = histogram.max();
    assert!((19_400_000..=19_600_000).contains(&largest), "{largest}");
}

/// Base64, as RFC 4648 has it.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(digit)
        .collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let whole = four
            .iter()
            .chain(&[0, 0, 0])
            .take(4)
            .fold(0_u32, |sum, digit| sum << 6 | u32::from(*digit));
        let three = &whole.to_be_bytes()[1..];
        bytes.extend(&three[..four.len() - 1]);
    }
    bytes
}
