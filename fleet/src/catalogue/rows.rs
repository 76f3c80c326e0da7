//! From digests to the rows of the catalogue's tables.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use laggard_model::{
    Digest, DigestContent, DigestLine, Histogram, Nanos, RecordingDigest, RefusedBecause, Route,
    Service,
};

/// The tables, that which says what counts last.
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

/// A column while it grows.
#[derive(Debug)]
enum Growing {
    I32(Vec<i32>),
    I64(Vec<Option<i64>>),
    Bool(Vec<bool>),
    Text(Vec<Option<String>>),
}

/// A column's name, and what makes it.
type Column = (&'static str, fn() -> Growing);

/// A table while it grows.
#[derive(Debug)]
struct Grown(Vec<(&'static str, Growing)>);

/// The rows of a batch of recordings.
#[derive(Debug)]
pub struct Tables {
    histograms: Grown,
    hours: Grown,
    minutes: Grown,
    lines: Grown,
    causes: Grown,
    settings: Grown,
    recordings: Grown,
}

/// A value of a row.
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

/// Tables have no unsigned numbers; no count or time of ours is beyond 2^63.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn small(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

impl Growing {
    const fn is_empty(&self) -> bool {
        match self {
            Self::I32(all) => all.is_empty(),
            Self::I64(all) => all.is_empty(),
            Self::Bool(all) => all.is_empty(),
            Self::Text(all) => all.is_empty(),
        }
    }
}

impl Grown {
    fn new(columns: &[Column]) -> Self {
        Self(columns.iter().map(|(name, new)| (*name, new())).collect())
    }

    fn row<const N: usize>(&mut self, row: [Value<'_>; N]) {
        assert_eq!(self.0.len(), N, "a row has a value for each column");
        for ((name, column), value) in self.0.iter_mut().zip(row) {
            match (column, value) {
                (Growing::I32(all), Value::I32(value)) => all.push(value),
                (Growing::I64(all), Value::I64(value)) => all.push(value),
                (Growing::Bool(all), Value::Bool(value)) => all.push(value),
                (Growing::Text(all), Value::Text(value)) => all.push(value.map(Into::into)),
                _ => unreachable!("`{name}` has another type"),
            }
        }
    }

    fn finish(self) -> RecordBatch {
        let columns = self.0.into_iter().map(|(name, column)| {
            let (array, is_null): (ArrayRef, bool) = match column {
                Growing::I32(all) => (Arc::new(Int32Array::from(all)), false),
                Growing::I64(all) => (Arc::new(Int64Array::from(all)), true),
                Growing::Bool(all) => (Arc::new(BooleanArray::from(all)), false),
                Growing::Text(all) => (Arc::new(StringArray::from(all)), true),
            };
            (name, array, is_null)
        });
        RecordBatch::try_from_iter_with_nullable(columns)
            .expect("columns of one table are of one length")
    }
}

const I32: fn() -> Growing = || Growing::I32(Vec::new());
const I64: fn() -> Growing = || Growing::I64(Vec::new());
const BOOL: fn() -> Growing = || Growing::Bool(Vec::new());
const TEXT: fn() -> Growing = || Growing::Text(Vec::new());

impl Default for Tables {
    fn default() -> Self {
        // Whose the row is, in every table of figures: the recording, its machine,
        // its kind (kernel, build and load), its service and route, and the hour
        // (or minute) since 1970.
        Self {
            histograms: Grown::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("at_h", I32),
                ("up_to_ns", I64),
                ("n", I64),
                ("waiting", I64),
            ]),
            hours: Grown::new(&[
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
            minutes: Grown::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("at_m", I32),
                ("max_ns", I64),
            ]),
            lines: Grown::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("kind", I64),
                ("line", I64),
                ("last_h", I32),
                ("service", TEXT),
                ("route", TEXT),
                ("lost", I64),
            ]),
            causes: Grown::new(&[
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
            settings: Grown::new(&[
                ("recording", I64),
                ("host_id", I64),
                ("name", TEXT),
                ("value", TEXT),
            ]),
            recordings: Grown::new(&[
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

/// FNV-1a, 64 bits: a number for a text that is the same in every batch. Of a
/// million texts two have the same once in 37 million catalogues.
fn number_of(parts: &[&str]) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // No text of ours has this byte, so that parts stay apart.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash.cast_signed()
}

/// No recording counts more: 17 million million, of 64 CPUs at 1 kHz 8 years. Sums
/// over half a million of them are within a number of the tables.
const MOST_COUNTED: u64 = 1 << 44;

/// Whether all that is added up over recordings can be.
fn is_countable(read: &RecordingDigest) -> bool {
    let sum = |all: &[(usize, u64)]| {
        all.iter()
            .try_fold(0_u64, |sum, (_, n)| sum.checked_add(*n))
    };
    let is_few = |count: Option<u64>| count.is_some_and(|count| count <= MOST_COUNTED);
    let is_hour = |hour: &laggard_model::DigestHour| {
        [sum(&hour.buckets), sum(&hour.waiting), Some(hour.missed)]
            .into_iter()
            .all(is_few)
    };
    let mut lines = read.lines.iter();
    let mut causes = read.causes.iter();
    is_few(Some(read.surplus))
        && lines.all(|line| is_few(Some(line.lost)) && line.hours.iter().all(is_hour))
        && causes.all(|one| is_few(Some(one.episodes)) && is_few(Some(one.first_in)))
}

/// A service by a route as a number, in the order in which they are shown: first those
/// that laggard asks for, then threads and drivers by a number for their names.
fn line_number(service: Service, route: Route) -> i64 {
    /// Places are below this; those by the deferred route come after all direct ones.
    const DEFERRED: i64 = 1 << 30;
    /// Behind all places.
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
    /// Adds a recording of this path and stamp.
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

    /// Adds a recording that is the same as that in `twin`: it would count twice.
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
        // The tables have it in 1970.
        let undated = "when it began is not known, so that no answer since some time has it";
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
                .filter(|all| !all.is_empty())
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
        for one in &read.causes {
            self.causes.row([
                recording.into(),
                host.into(),
                kind.into(),
                line_number(one.service, one.route).into(),
                at_h(one.hour).into(),
                one.class.words().into(),
                one.who.as_deref().into(),
                one.is_ours.into(),
                one.episodes.into(),
                one.first_in.into(),
                one.total_ns.into(),
                one.largest_ns.into(),
                one.period_ns.map(|period| whole(period.ns())).into(),
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
            let count =
                |all: &[(usize, u64)]| all.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
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
        for one in &line.minutes {
            let at = (start + i64::from(one.minute) * MINUTE_S).div_euclid(MINUTE_S);
            self.minutes.row([
                recording.into(),
                host.into(),
                kind.into(),
                number.into(),
                small(at).into(),
                one.max_ns.into(),
            ]);
        }
    }

    /// Whether no recording was added.
    pub fn is_empty(&self) -> bool {
        self.recordings
            .0
            .iter()
            .all(|(_, column)| column.is_empty())
    }

    /// The tables by name, in the order of [`TABLES`].
    pub fn finish(self) -> [(&'static str, RecordBatch); 7] {
        let all = [
            self.histograms,
            self.hours,
            self.minutes,
            self.lines,
            self.causes,
            self.settings,
            self.recordings,
        ];
        let mut names = TABLES.into_iter();
        all.map(|table| {
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
    fn every_service_by_each_route_has_a_number_of_its_own_direct_ones_first() {
        let all = [
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
        let services: Vec<Service> = all.iter().map(|name| name.parse().unwrap()).collect();
        let of = |route: Route| services.iter().map(move |one| line_number(*one, route));

        let numbers: Vec<i64> = of(Route::Direct).chain(of(Route::Deferred)).collect();
        let others = named.map(|name| line_number(name.parse().unwrap(), Route::Direct));

        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        for (place, number) in others.iter().enumerate() {
            assert!(!others[..place].contains(number), "{}", named[place]);
            assert!(numbers.iter().all(|one| one < number), "{}", named[place]);
        }
    }
}
