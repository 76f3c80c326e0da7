//! Conversion of digests into the rows of the catalogue's tables.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use laggard_model::{
    Digest, DigestContent, DigestLine, Histogram, Nanos, RecordingDigest, RefusedBecause, Route,
    Service,
};

/// Names of the tables. The last one makes a batch valid.
pub const TABLES: [&str; 7] = [
    "histograms",
    "hours",
    "minutes",
    "lines",
    "causes",
    "settings",
    "recordings",
];

const HOUR_S: i64 = 3_600;
const MINUTE_S: i64 = 60;

/// Column under construction.
#[derive(Debug)]
enum ColumnBuilder {
    I32(Vec<i32>),
    I64(Vec<Option<i64>>),
    Bool(Vec<bool>),
    Text(Vec<Option<String>>),
}

/// Name of a column, and the constructor of its type.
type Column = (&'static str, fn() -> ColumnBuilder);

/// Table under construction.
#[derive(Debug)]
struct TableBuilder(Vec<(&'static str, ColumnBuilder)>);

/// Rows of a batch of recordings.
#[derive(Debug)]
pub struct Tables {
    histograms: TableBuilder,
    hours: TableBuilder,
    minutes: TableBuilder,
    lines: TableBuilder,
    causes: TableBuilder,
    settings: TableBuilder,
    recordings: TableBuilder,
}

/// Value of a row.
enum Value<'a> {
    I32(i32),
    I64(Option<i64>),
    Bool(bool),
    Text(Option<&'a str>),
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Self::I32(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::I64(Some(value))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::I64(value)
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::I64(Some(whole(value)))
    }
}

impl From<Nanos> for Value<'_> {
    fn from(value: Nanos) -> Self {
        value.ns().into()
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

/// The tables do not have unsigned numbers. Counts and times of laggard are below 2^63.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn small(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

impl ColumnBuilder {
    const fn is_empty(&self) -> bool {
        match self {
            Self::I32(values) => values.is_empty(),
            Self::I64(values) => values.is_empty(),
            Self::Bool(values) => values.is_empty(),
            Self::Text(values) => values.is_empty(),
        }
    }
}

impl TableBuilder {
    fn new(columns: &[Column]) -> Self {
        Self(columns.iter().map(|(name, new)| (*name, new())).collect())
    }

    fn row<const N: usize>(&mut self, row: [Value<'_>; N]) {
        assert_eq!(self.0.len(), N, "a row has a value for each column");
        for ((name, column), value) in self.0.iter_mut().zip(row) {
            match (column, value) {
                (ColumnBuilder::I32(values), Value::I32(value)) => values.push(value),
                (ColumnBuilder::I64(values), Value::I64(value)) => values.push(value),
                (ColumnBuilder::Bool(values), Value::Bool(value)) => values.push(value),
                (ColumnBuilder::Text(values), Value::Text(value)) => {
                    values.push(value.map(Into::into))
                }
                _ => unreachable!("`{name}` has another type"),
            }
        }
    }

    fn finish(self) -> RecordBatch {
        let columns = self.0.into_iter().map(|(name, column)| {
            let (array, is_null): (ArrayRef, bool) = match column {
                ColumnBuilder::I32(values) => (Arc::new(Int32Array::from(values)), false),
                ColumnBuilder::I64(values) => (Arc::new(Int64Array::from(values)), true),
                ColumnBuilder::Bool(values) => (Arc::new(BooleanArray::from(values)), false),
                ColumnBuilder::Text(values) => (Arc::new(StringArray::from(values)), true),
            };
            (name, array, is_null)
        });
        RecordBatch::try_from_iter_with_nullable(columns)
            .expect("columns of one table are of one length")
    }
}

const I32: fn() -> ColumnBuilder = || ColumnBuilder::I32(Vec::new());
const I64: fn() -> ColumnBuilder = || ColumnBuilder::I64(Vec::new());
const BOOL: fn() -> ColumnBuilder = || ColumnBuilder::Bool(Vec::new());
const TEXT: fn() -> ColumnBuilder = || ColumnBuilder::Text(Vec::new());

impl Default for Tables {
    fn default() -> Self {
        // Keys of every table of figures: recording, machine, kind (kernel, build and load),
        // service and route, and hour (or minute) since 1970.
        Self {
            histograms: TableBuilder::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("at_h", I32),
                ("up_to_ns", I64),
                ("n", I64),
                ("waiting", I64),
            ]),
            hours: TableBuilder::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("at_h", I32),
                ("n", I64),
                ("missed", I64),
                ("waiting", I64),
                ("sum_ns", I64),
                ("min_ns", I64),
                ("max_ns", I64),
            ]),
            minutes: TableBuilder::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("at_m", I32),
                ("max_ns", I64),
            ]),
            lines: TableBuilder::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("last_h", I32),
                ("service", TEXT),
                ("route", TEXT),
                ("lost", I64),
            ]),
            causes: TableBuilder::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("at_h", I32),
                ("class", TEXT),
                ("who", TEXT),
                ("ours", BOOL),
                ("episodes", I64),
                ("first_in", I64),
                ("total_ns", I64),
                ("largest_ns", I64),
                ("period_ns", I64),
            ]),
            settings: TableBuilder::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("name", TEXT),
                ("value", TEXT),
            ]),
            recordings: TableBuilder::new(&[
                ("recording", I64),
                ("path", TEXT),
                ("stamp", TEXT),
                ("host", TEXT),
                ("host_id", I64),
                ("kind", I64),
                ("kernel", TEXT),
                ("build", TEXT),
                ("load", TEXT),
                ("start_s", I64),
                ("duration_ns", I64),
                ("ended", BOOL),
                ("scripted", BOOL),
                ("distrust", TEXT),
                ("shortfalls", TEXT),
                ("episodes", I64),
                ("surplus", I64),
                ("because", TEXT),
                ("refused", TEXT),
                ("started", TEXT),
                ("twin", TEXT),
            ]),
        }
    }
}

/// Computes the FNV-1a hash with 64 bits. Equal texts have equal numbers in all batches. For a
/// million texts, a collision occurs in one of 37 million catalogues.
fn number_of(parts: &[&str]) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // UTF-8 text never contains this byte, so that it separates the parts.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash.cast_signed()
}

/// Maximum count of a recording: 17 million million, or 8 years of 64 CPUs at 1 kHz. Sums over half
/// a million recordings with this count fit into a number of the tables.
const MAX_COUNT: u64 = 1 << 44;

/// Returns true if sums of the counts over recordings cannot overflow.
fn is_countable(read: &RecordingDigest) -> bool {
    let sum = |buckets: &[(usize, u64)]| {
        buckets
            .iter()
            .try_fold(0_u64, |sum, (_, n)| sum.checked_add(*n))
    };
    let is_few = |count: Option<u64>| count.is_some_and(|count| count <= MAX_COUNT);
    let is_hour = |hour: &laggard_model::DigestHour| {
        [sum(&hour.buckets), sum(&hour.waiting), Some(hour.missed)]
            .into_iter()
            .all(is_few)
    };
    let mut lines = read.lines.iter();
    let mut causes = read.causes.iter();
    is_few(Some(read.surplus))
        && lines.all(|line| is_few(Some(line.lost)) && line.hours.iter().all(is_hour))
        && causes.all(|cause| is_few(Some(cause.episodes)) && is_few(Some(cause.first_in)))
}

/// Returns the number of a service and route, in display order: first the services that laggard
/// starts, then threads and drivers, numbered by a hash of their names.
fn line_number(service: Service, route: Route) -> i64 {
    /// Direct services have smaller numbers. Deferred ones follow.
    const DEFERRED: i64 = 1 << 30;
    /// Greater than all other numbers.
    const NAMED: u64 = 1 << 62;
    match (service, route) {
        (Service::Task(_) | Service::Traced(_), _) => {
            let name = number_of(&[&service.to_string(), &route.to_string()]);
            whole(NAMED | name.cast_unsigned() >> 2)
        }
        (_, Route::Direct) => whole(service.rank().place()),
        (_, Route::Deferred) => DEFERRED + whole(service.rank().place()),
    }
}

const fn because(because: RefusedBecause) -> &'static str {
    match because {
        RefusedBecause::Newer => "newer",
        RefusedBecause::Unreadable => "unreadable",
        RefusedBecause::NoHistograms => "no_histograms",
    }
}

impl Tables {
    /// Adds a recording with this path and stamp.
    pub fn add(&mut self, path: &str, stamp: &str, digest: &Digest) {
        match &digest.content {
            DigestContent::Refused(refused) => {
                self.refuse(
                    path,
                    stamp,
                    (because(refused.because), &refused.reason),
                    None,
                );
            }
            DigestContent::Read(read) if !is_countable(read) => {
                let reason = "its counts are larger than any measurement's";
                self.refuse(path, stamp, ("unreadable", reason), None);
            }
            DigestContent::Read(read) => self.add_read(path, stamp, number_of(&[path]), read),
        }
    }

    /// Adds a copy of the recording `twin`. It must not count twice.
    pub fn add_twin(&mut self, path: &str, stamp: &str, twin: &str) {
        let reason =
            format!("it is the same recording as `{twin}`, and would count twice; remove one");
        self.refuse(path, stamp, ("twice", &reason), Some(twin));
    }

    fn refuse(
        &mut self,
        path: &str,
        stamp: &str,
        (because, reason): (&str, &str),
        twin: Option<&str>,
    ) {
        let (text, number) = (None::<&str>, None::<i64>);
        self.recordings.row([
            number_of(&[path]).into(),
            path.into(),
            stamp.into(),
            text.into(),
            number.into(),
            number.into(),
            text.into(),
            text.into(),
            text.into(),
            number.into(),
            number.into(),
            true.into(),
            false.into(),
            text.into(),
            text.into(),
            number.into(),
            0_i64.into(),
            because.into(),
            reason.into(),
            text.into(),
            twin.into(),
        ]);
    }

    fn add_read(&mut self, path: &str, stamp: &str, recording: i64, read: &RecordingDigest) {
        let host = number_of(&[&read.host]);
        let kind = number_of(&[&read.kernel, &read.build, &read.load]);
        // The tables date it in 1970.
        let undated = "its start is unknown, so answers with --since leave it out";
        let undated = read.start_s.is_none().then(|| undated.to_owned());
        let shortfalls: Vec<String> = read.shortfalls.iter().cloned().chain(undated).collect();
        let shortfalls = shortfalls.join("; ");
        self.recordings.row([
            recording.into(),
            path.into(),
            stamp.into(),
            read.host.as_str().into(),
            host.into(),
            kind.into(),
            read.kernel.as_str().into(),
            read.build.as_str().into(),
            read.load.as_str().into(),
            read.start_s.into(),
            read.duration_ns.into(),
            read.has_ended.into(),
            read.is_scripted.into(),
            read.distrust.as_deref().into(),
            Some(shortfalls.as_str())
                .filter(|samples| !samples.is_empty())
                .into(),
            read.episodes.map(whole).into(),
            read.surplus.into(),
            None::<&str>.into(),
            None::<&str>.into(),
            read.started.as_str().into(),
            None::<&str>.into(),
        ]);
        for (name, value) in &read.settings {
            self.settings.row([
                recording.into(),
                host.into(),
                name.as_str().into(),
                value.as_str().into(),
            ]);
        }
        let start = read.start_s.unwrap_or_default();
        let at_h = |hour: u32| small((start + i64::from(hour) * HOUR_S).div_euclid(HOUR_S));
        for line in &read.lines {
            self.add_line([recording, host, kind], start, line);
        }
        for cause in &read.causes {
            self.causes.row([
                recording.into(),
                host.into(),
                kind.into(),
                line_number(cause.service, cause.route).into(),
                at_h(cause.hour).into(),
                cause.cause.class.words().into(),
                cause.cause.culprit().as_deref().into(),
                cause.is_ours.into(),
                cause.episodes.into(),
                cause.first_in.into(),
                cause.total_ns.into(),
                cause.largest_ns.into(),
                cause.period_ns.map(|period| whole(period.ns())).into(),
            ]);
        }
    }

    fn add_line(&mut self, [recording, host, kind]: [i64; 3], start: i64, line: &DigestLine) {
        let number = line_number(line.service, line.route);
        let at_h = |hour: u32| small((start + i64::from(hour) * HOUR_S).div_euclid(HOUR_S));
        let last = line.hours.iter().map(|hour| at_h(hour.hour)).max();
        let (service, route) = (line.service.to_string(), line.route.to_string());
        self.lines.row([
            recording.into(),
            host.into(),
            kind.into(),
            number.into(),
            last.unwrap_or_else(|| at_h(0)).into(),
            service.as_str().into(),
            route.as_str().into(),
            line.lost.into(),
        ]);
        for hour in &line.hours {
            let count = |buckets: &[(usize, u64)]| {
                buckets
                    .iter()
                    .fold(0_u64, |sum, (_, n)| sum.saturating_add(*n))
            };
            self.hours.row([
                recording.into(),
                host.into(),
                kind.into(),
                number.into(),
                at_h(hour.hour).into(),
                count(&hour.buckets).into(),
                hour.missed.into(),
                count(&hour.waiting).into(),
                hour.sum_ns.into(),
                hour.min_ns.map(|min| whole(min.ns())).into(),
                hour.max_ns.into(),
            ]);
            let mut waiting = hour.waiting.iter().peekable();
            for &(bucket, n) in &hour.buckets {
                let still = waiting
                    .next_if(|(other, _)| *other <= bucket)
                    .map_or(0, |(_, n)| *n);
                self.histograms.row([
                    recording.into(),
                    host.into(),
                    kind.into(),
                    number.into(),
                    at_h(hour.hour).into(),
                    Histogram::upper_edge(bucket).into(),
                    n.into(),
                    still.into(),
                ]);
            }
        }
        for minute in &line.minutes {
            let minute_number = (start + i64::from(minute.minute) * MINUTE_S).div_euclid(MINUTE_S);
            self.minutes.row([
                recording.into(),
                host.into(),
                kind.into(),
                number.into(),
                small(minute_number).into(),
                minute.max_ns.into(),
            ]);
        }
    }

    /// Returns true if no recording was added.
    pub fn is_empty(&self) -> bool {
        self.recordings
            .0
            .iter()
            .all(|(_, column)| column.is_empty())
    }

    /// Returns the tables with their names, in the order of [`TABLES`].
    pub fn finish(self) -> [(&'static str, RecordBatch); 7] {
        let tables = [
            self.histograms,
            self.hours,
            self.minutes,
            self.lines,
            self.causes,
            self.settings,
            self.recordings,
        ];
        let mut names = TABLES.into_iter();
        tables.map(|table| {
            (
                names.next().expect("as many names as tables"),
                table.finish(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_and_route_numbers_are_unique_with_direct_ones_first() {
        let services = [
            "irq",
            "softirq",
            "fifo:90",
            "slice:100ms",
            "other",
            "nice:19",
            "worker",
        ];
        let named = [
            "task:fast/timer",
            "task:slow/timer",
            "isr:a.sys",
            "dpc:a.sys",
        ];
        let services: Vec<Service> = services.iter().map(|name| name.parse().unwrap()).collect();
        let numbers_of = |route: Route| {
            services
                .iter()
                .map(move |service| line_number(*service, route))
        };

        let numbers: Vec<i64> = numbers_of(Route::Direct)
            .chain(numbers_of(Route::Deferred))
            .collect();
        let others = named.map(|name| line_number(name.parse().unwrap(), Route::Direct));

        assert!(
            numbers.is_sorted_by(|number, next| number < next),
            "{numbers:?}"
        );
        for (place, number) in others.iter().enumerate() {
            assert!(!others[..place].contains(number), "{}", named[place]);
            assert!(
                numbers.iter().all(|earlier| earlier < number),
                "{}",
                named[place]
            );
        }
    }
}
