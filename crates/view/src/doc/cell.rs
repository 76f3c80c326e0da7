//! Values of a table, each formatted by its type.

use std::fmt::{self, Display, Formatter};

use laggard_model::text::{Unit, count, rough_time};
use laggard_model::{Nanos, whole};
use schemars::JsonSchema;
use serde::Serialize;

use super::CellJson;
use crate::text::Tone;

/// Digits of a time that is estimated and not measured.
const ESTIMATE_DIGITS: i32 = 2;

/// One value.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(into = "CellJson")]
#[schemars(with = "CellJson")]
pub enum Cell {
    /// No value, because a cell to the left or above says it all.
    Empty,
    /// A name or a sentence.
    Text(String),
    /// A word that is good or bad news, such as `PASS`.
    Status(Tone, String),
    /// A measured time.
    Time(Nanos),
    /// An estimated time in nanoseconds, such as the time between two xruns.
    MeanTime(f64),
    /// A number of things.
    Count(u64),
    /// A mean number of things, which need not be whole.
    MeanCount(f64),
    /// A share of a whole, 0 to 1.
    Share(f64),
    /// A quotient of two figures.
    Ratio(f64),
    /// A range from the first to the second.
    Interval(Box<Self>, Box<Self>),
    /// A value with its confidence interval.
    Estimate(Box<Self>, Box<(Self, Self)>),
    /// A lower bound.
    AtLeast(Box<Self>),
    /// An upper bound.
    AtMost(Box<Self>),
    /// A value that is not known.
    Unknown(Reason),
}

/// Reason for an unknown value.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The test was not run, or the value was not recorded.
    NotMeasured,
    /// There are too few samples.
    TooFewSamples,
    /// The recording is too coarse.
    TooCoarse,
    /// The recording is too short.
    TooShort,
    /// The service was still waiting when measuring ended.
    StillWaiting,
    /// The clock that counts the time of the hypervisor cannot be read.
    NoStealClock,
    /// The row has no such value.
    NotApplicable,
}

impl Reason {
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::NotMeasured => "not measured",
            Self::TooFewSamples => "too few samples",
            Self::TooCoarse => "the recording is too coarse",
            Self::TooShort => "the recording is too short",
            Self::StillWaiting => "still waiting when measuring ended",
            Self::NoStealClock => "the steal clock cannot be read",
            Self::NotApplicable => "does not apply",
        }
    }
}

impl Cell {
    /// Returns the text of the cell, with measured times in `unit`.
    pub fn text(&self, unit: Unit) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) | Self::Status(_, text) => text.clone(),
            Self::Time(time) => unit.write_nanos(*time),
            Self::MeanTime(ns) => rough_time(*ns, ESTIMATE_DIGITS),
            Self::Count(number) => count(*number),
            Self::MeanCount(mean) => mean_count(*mean),
            Self::Share(share) => percentage(*share),
            Self::Ratio(ratio) => format!("{} x", quotient(*ratio)),
            Self::Interval(low, high) => format!("{} to {}", low.text(unit), high.text(unit)),
            Self::Estimate(value, interval) => {
                let (low, high) = &**interval;
                let [value, low, high] = [value, low, high].map(|cell| cell.text(unit));
                // The unit of ratios is given once.
                let [low, high] = [&low, &high].map(|limit| limit.trim_end_matches(" x"));
                format!("{value} ({low} to {high})")
            }
            Self::AtLeast(bound) => format!(">= {}", bound.text(unit)),
            Self::AtMost(bound) => format!("<= {}", bound.text(unit)),
            Self::Unknown(_) => "-".into(),
        }
    }

    /// Returns the number behind the text, in ns, counts or shares, by which a page can
    /// sort.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Time(time) => Some(time.as_f64()),
            Self::MeanTime(value)
            | Self::MeanCount(value)
            | Self::Share(value)
            | Self::Ratio(value) => Some(*value),
            #[expect(clippy::cast_precision_loss, reason = "only the order matters")]
            Self::Count(number) => Some(*number as f64),
            Self::Interval(value, _)
            | Self::Estimate(value, _)
            | Self::AtLeast(value)
            | Self::AtMost(value) => value.value(),
            Self::Empty | Self::Text(_) | Self::Status(..) | Self::Unknown(_) => None,
        }
    }

    /// Returns whether the value is good or bad news.
    pub const fn tone(&self) -> Tone {
        if let Self::Status(tone, _) = self {
            *tone
        } else {
            Tone::Plain
        }
    }

    /// Returns the reason for an unknown value.
    pub const fn reason(&self) -> Option<Reason> {
        if let Self::Unknown(reason) = self {
            Some(*reason)
        } else {
            None
        }
    }

    /// Returns a cell with the time, or with the reason why it is not known.
    pub fn time_or(time: Option<Nanos>, reason: Reason) -> Self {
        time.map_or(Self::Unknown(reason), Self::Time)
    }

    /// Returns a cell with a value and its confidence interval.
    pub fn estimate(value: Self, low: Self, high: Self) -> Self {
        Self::Estimate(Box::new(value), Box::new((low, high)))
    }
}

/// The text of a cell within a sentence: each time in the unit that suits it.
impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.text(Unit::Auto))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Writes a share so that neither a small one looks like none nor a large one like all.
fn percentage(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p <= 0.0 => "0 %".into(),
        p if p < 0.1 => "< 0.1 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p if p < 99.0 => format!("{p:.0} %"),
        p if p < 99.95 => format!("{p:.1} %"),
        p if p < 100.0 => "> 99.9 %".into(),
        p => format!("{p:.0} %"),
    }
}

/// Writes a mean number so that a value below 1 looks neither like 0 nor like 1.
fn mean_count(mean: f64) -> String {
    match mean {
        mean if mean.fract() == 0.0 => count(whole(mean)),
        ..1.0 => ((100.0 * mean).floor().max(1.0) / 100.0).to_string(),
        ..10.0 => format!("{mean:.1}"),
        _ => count(whole(mean.round())),
    }
}

/// Writes a quotient with two digits.
fn quotient(ratio: f64) -> String {
    match ratio {
        1e4.. => "> 10000".into(),
        9.95..1e4 => format!("{ratio:.0}"),
        0.995..9.95 => format!("{ratio:.1}"),
        _ => format!("{ratio:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(us: u64) -> Box<Cell> {
        Box::new(Cell::Time(Nanos::from_us(us)))
    }

    #[test]
    fn each_type_of_value_has_one_format() {
        for (cell, text) in [
            (Cell::Empty, ""),
            ("idle".into(), "idle"),
            (Cell::Status(Tone::Bad, "FAIL".into()), "FAIL"),
            (*time(1_240), "1.24 ms"),
            (Cell::MeanTime(84.6e9), "1.4 min"),
            (Cell::Count(1_234_567), "1,234,567"),
            (Cell::Share(0.0), "0 %"),
            (Cell::Share(0.000_4), "< 0.1 %"),
            (Cell::Share(0.032), "3.2 %"),
            (Cell::Share(0.52), "52 %"),
            (Cell::Share(0.994), "99.4 %"),
            (Cell::Share(0.999_9), "> 99.9 %"),
            (Cell::Share(1.0), "100 %"),
            (Cell::Ratio(0.5), "0.50 x"),
            (Cell::Ratio(2.84), "2.8 x"),
            (Cell::Ratio(36.2), "36 x"),
            (Cell::Interval(time(30), time(4_000)), "30.0 us to 4.00 ms"),
            (
                Cell::estimate(Cell::Ratio(2.84), Cell::Ratio(2.1), Cell::Ratio(3.4)),
                "2.8 x (2.1 to 3.4)",
            ),
            (Cell::AtLeast(time(10)), ">= 10.0 us"),
            (Cell::AtMost(time(10)), "<= 10.0 us"),
            (Cell::MeanCount(0.0), "0"),
            (Cell::MeanCount(0.001), "0.01"),
            (Cell::MeanCount(0.0625), "0.06"),
            (Cell::MeanCount(0.4), "0.4"),
            (Cell::MeanCount(0.999), "0.99"),
            (Cell::MeanCount(1.0), "1"),
            (Cell::MeanCount(1.25), "1.2"),
            (Cell::MeanCount(16.6), "17"),
            (Cell::MeanCount(1_116.9), "1,117"),
            (Cell::MeanCount(13_491.0), "13,491"),
            (Cell::Unknown(Reason::TooFewSamples), "-"),
        ] {
            assert_eq!(cell.to_string(), text);
        }
        assert_eq!(time(1_240).text(Unit::Us), "1240.0 us");
    }
}
