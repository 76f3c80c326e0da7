//! Times, counts and percentages for display: rounded, each with its unit.

use std::fmt::Write as _;
use std::str::FromStr;

use crate::Nanos;

/// Unit of the times in a table.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Unit {
    /// Suitable unit for each time, shown with it.
    #[default]
    Auto,
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
}

/// Unknown unit.
#[derive(Debug, Eq, PartialEq)]
pub struct UnknownUnit;

impl std::fmt::Display for UnknownUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("use auto, ns, us or ms")
    }
}

impl std::error::Error for UnknownUnit {}

impl FromStr for Unit {
    type Err = UnknownUnit;

    fn from_str(text: &str) -> Result<Self, UnknownUnit> {
        match text {
            "auto" => Ok(Self::Auto),
            "ns" => Ok(Self::Ns),
            "us" => Ok(Self::Us),
            "ms" => Ok(Self::Ms),
            _ => Err(UnknownUnit),
        }
    }
}

impl Unit {
    /// Returns `ns` in this unit, with the unit's name: `13.4 us`.
    pub fn write(self, ns: f64) -> String {
        let (unit, factor) = match self {
            // A value that rounds to 1000 belongs to the next unit.
            Self::Auto if ns < 999.5 => ("ns", 1.0),
            Self::Auto if ns < 999.5e3 => ("us", 1e3),
            Self::Auto if ns < 999.5e6 => ("ms", 1e6),
            Self::Auto => ("s", 1e9),
            Self::Ns => ("ns", 1.0),
            Self::Us => ("us", 1e3),
            Self::Ms => ("ms", 1e6),
        };
        let value = ns / factor;
        let digits = match (unit, value) {
            ("ns", _) => 0,
            ("us" | "ms", value) if value >= 100.0 && self == Self::Auto => 0,
            ("ms", _) if self == Self::Ms => 3,
            (_, value) if value < 10.0 => 2,
            _ => 1,
        };
        format!("{value:.digits$} {unit}")
    }

    /// Returns a whole number of nanoseconds in this unit.
    pub fn write_nanos(self, time: Nanos) -> String {
        self.write(time.as_f64())
    }
}

/// Returns a time in at most five characters, for narrow columns: `9.9us`, `16us`,
/// `1.2ms`, `3.4s`, `999s`; minutes (`17m`) and hours beyond.
pub fn brief(time: Nanos) -> String {
    let ns = time.as_f64();
    let units = [
        (1.0, "ns"),
        (1e3, "us"),
        (1e6, "ms"),
        (1e9, "s"),
        (6e10, "m"),
    ];
    // A value that rounds to 1000 belongs to the next unit.
    let (factor, unit) = units
        .iter()
        .find(|(factor, _)| (ns / factor).round() < 1_000.0)
        .copied()
        .unwrap_or((3.6e12, "h"));
    let value = ns / factor;
    let digits = usize::from(unit != "ns" && (value * 10.0).round() < 100.0);
    format!("{value:.digits$}{unit}")
}

/// Returns a count in at most five characters: `999`, `9.9k`, `297k`, `1.2M`.
pub fn brief_count(number: u64) -> String {
    let whole = number as f64;
    let units = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")];
    let (factor, unit) = units
        .iter()
        .find(|(factor, _)| (whole / factor).round() < 1_000.0)
        .copied()
        .unwrap_or((1e12, "T"));
    let value = whole / factor;
    let digits = usize::from(!unit.is_empty() && (value * 10.0).round() < 100.0);
    format!("{value:.digits$}{unit}")
}

/// Marks a text as a lower bound if it is one.
pub fn at_least(is_at_least: bool, text: &str) -> String {
    if is_at_least {
        format!(">= {text}")
    } else {
        text.into()
    }
}

/// Returns a count with its thousands apart: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns an amount of memory: `64 KiB`, `1 MiB`; in bytes if it is not a multiple of
/// either.
pub fn bytes(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match bytes {
        whole if whole >= MIB && whole % MIB == 0 => format!("{} MiB", whole / MIB),
        whole if whole >= KIB && whole % KIB == 0 => format!("{} KiB", whole / KIB),
        bytes => format!("{} bytes", count(bytes)),
    }
}

/// Returns a rate of work: `2.50 GB/s`, `1,234 frames a second`.
pub fn rate(per_second: f64, unit: &str) -> String {
    if unit != "bytes" {
        // Three significant digits, because work of minutes is done less than once a second.
        let digits = match per_second {
            ..0.000_999_5 => 6,
            ..0.009_995 => 5,
            ..0.099_95 => 4,
            ..0.999_5 => 3,
            ..9.995 => 2,
            ..99.95 => 1,
            _ => 0,
        };
        let digits = if per_second > 0.0 { digits } else { 0 };
        let text = format!("{per_second:.digits$}");
        let number = text.parse().map_or(text, count);
        return format!("{number} {unit} a second");
    }
    // A value that rounds to 1000 belongs to the next unit.
    let units = [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")];
    let (factor, unit) = units
        .into_iter()
        .find(|(factor, _)| per_second / factor < 999.5)
        .unwrap_or((1e12, "TB"));
    let value = per_second / factor;
    let digits = match value {
        _ if factor == 1.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}/s")
}

/// Returns a fraction in percent, with all its digits: 0.9999 as `99.99`.
pub fn percent(q: f64) -> String {
    let text = format!("{:.4}", q * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// Returns a list in the form `a, b and c`.
pub fn listed<T: std::fmt::Display>(items: &[T]) -> String {
    let words = |some: &[T]| -> Vec<String> { some.iter().map(T::to_string).collect() };
    match items {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => format!("{} and {last}", words(first).join(", ")),
    }
}

/// Returns a duration for people: `30 s`, `2 min 40 s`, `2 h 5 min`, `31.0 ms`. Seconds
/// are omitted from 10 minutes.
pub fn span(time: Nanos) -> String {
    let seconds = time.as_secs_f64();
    // A positive time is never shown as 0 s.
    if time > Nanos::ZERO && seconds < 0.1 {
        return Unit::Auto.write_nanos(time);
    }
    if seconds < 120.0 {
        let text = format!("{seconds:.1}");
        return format!("{} s", text.strip_suffix(".0").unwrap_or(&text));
    }
    let minutes = time.ns() / 60_000_000_000;
    let mut text = String::new();
    if minutes >= 60 {
        // Writing to a string cannot fail.
        let _ = write!(text, "{} h ", minutes / 60);
    }
    let _ = write!(text, "{} min", minutes % 60);
    let seconds = time.ns() / 1_000_000_000 % 60;
    if minutes < 10 && seconds > 0 {
        let _ = write!(text, " {seconds} s");
    }
    text
}

/// Returns a mean time of any length, in ns, with two or three digits: `850 us`, `12
/// min`, `3.2 days`.
pub fn mean_time(ns: f64) -> String {
    let seconds = ns / 1e9;
    let (value, unit) = match seconds {
        s if s.is_infinite() => return "no end".into(),
        s if s < 60.0 => return Unit::Auto.write(ns),
        s if s < 3_600.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3_600.0, "h"),
        s if s < 86_400.0 * 730.0 => (s / 86_400.0, "days"),
        s => (s / (86_400.0 * 365.25), "years"),
    };
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// Returns a mean time in ns with at most `digits` significant digits: `30 s`, `1.8 s`,
/// `12 min`.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the power of ten of a finite number is a small one"
)]
pub fn rough_time(ns: f64, digits: i32) -> String {
    // Rounded first to find the unit, then again in it: an hour is not a power of ten.
    let rounded = |value: f64| {
        let unit = 10_f64.powi(value.log10().floor() as i32 + 1 - digits);
        (value / unit).round() * unit
    };
    if !ns.is_finite() || ns <= 0.0 {
        return mean_time(ns);
    }
    let (factor, name) = [
        (1.0, "ns"),
        (1e3, "us"),
        (1e6, "ms"),
        (1e9, "s"),
        (6e10, "min"),
        (3.6e12, "h"),
        (8.64e13, "days"),
        (3.155_76e16, "years"),
    ]
    .into_iter()
    .rfind(|(factor, name)| match *name {
        // As `mean_time` has it.
        "days" => ns >= 2.0 * factor,
        "years" => ns >= 730.0 * 8.64e13,
        _ => rounded(ns / factor) >= 1.0,
    })
    .unwrap_or((1.0, "ns"));
    let value = rounded(ns / factor);
    let behind = (digits - 1 - value.log10().floor() as i32).max(0);
    format!("{value:.0$} {name}", behind.unsigned_abs() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_item_of_a_list_follows_and() {
        let texts = [&[][..], &[4], &[4, 6], &[4, 6, 8]].map(listed);

        assert_eq!(texts, ["", "4", "4 and 6", "4, 6 and 8"]);
    }

    #[test]
    fn brief_time_has_at_most_five_characters_with_its_unit() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.0us"),
            (9_949, "9.9us"),
            (9_960, "10us"),
            (999_600, "1.0ms"),
            (94_100_000, "94ms"),
            (3_400_000_000, "3.4s"),
            (1_000_000_000_000, "17m"),
            (360_000_000_000_000, "100h"),
        ] {
            assert_eq!(brief(Nanos::from_ns(ns)), text, "for {ns} ns");
        }
    }

    #[test]
    fn brief_count_keeps_at_least_two_digits() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0k"),
            (9_960, "10k"),
            (297_147, "297k"),
            (999_600, "1.0M"),
            (12_000_000_000, "12G"),
        ] {
            assert_eq!(brief_count(number), text, "for {number}");
        }
    }

    #[test]
    fn time_has_three_digits_and_its_unit() {
        for (ns, text) in [
            (250.0, "250 ns"),
            (1_340.0, "1.34 us"),
            (13_400.0, "13.4 us"),
            (134_000.0, "134 us"),
            (999_499.0, "999 us"),
            (999_600.0, "1.00 ms"),
            (4_200_000.0, "4.20 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(Unit::Auto.write(ns), text);
        }
        assert_eq!(Unit::Us.write(134_000.0), "134.0 us");
        assert_eq!(Unit::Ms.write(134_000.0), "0.134 ms");
    }

    #[test]
    fn mean_time_has_a_suitable_unit() {
        for (seconds, text) in [
            (0.5, "500 ms"),
            (42.0, "42.0 s"),
            (150.0, "2.5 min"),
            (3_600.0, "1.0 h"),
            (864_000.0, "10 days"),
            (f64::INFINITY, "no end"),
        ] {
            assert_eq!(mean_time(seconds * 1e9), text);
        }
    }

    #[test]
    fn rough_time_has_only_known_digits() {
        for (seconds, digits, text) in [
            (1.7654, 1, "2 s"),
            (1.7654, 2, "1.8 s"),
            (0.996, 2, "1.0 s"),
            (0.0274, 2, "27 ms"),
            (0.274, 1, "300 ms"),
            (59.9, 2, "1.0 min"),
            (754.0, 2, "13 min"),
            (754.0, 1, "10 min"),
            (100_000.0, 2, "28 h"),
            (864_000.0, 2, "10 days"),
            (1e9, 2, "32 years"),
            (f64::INFINITY, 2, "no end"),
        ] {
            assert_eq!(rough_time(seconds * 1e9, digits), text, "for {seconds}");
        }
    }

    #[test]
    fn rate_has_three_digits_and_a_suitable_unit() {
        for (per_second, unit, text) in [
            (2_496_269_114.0, "bytes", "2.50 GB/s"),
            (999.4, "bytes", "999 B/s"),
            (999.6, "bytes", "1.00 kB/s"),
            (99_960.0, "bytes", "100 kB/s"),
            (12_340_000.0, "bytes", "12.3 MB/s"),
            (3.2e13, "bytes", "32.0 TB/s"),
            (0.0, "bytes", "0 B/s"),
            (0.0, "steps", "0 steps a second"),
            (0.000_123_4, "steps", "0.000123 steps a second"),
            (0.001_234, "steps", "0.00123 steps a second"),
            (0.012_34, "steps", "0.0123 steps a second"),
            (0.123_4, "steps", "0.123 steps a second"),
            (0.999_6, "steps", "1.00 steps a second"),
            (2.345, "frames", "2.35 frames a second"),
            (9.996, "frames", "10.0 frames a second"),
            (12.34, "frames", "12.3 frames a second"),
            (99.96, "frames", "100 frames a second"),
            (1_234.4, "steps", "1,234 steps a second"),
        ] {
            assert_eq!(rate(per_second, unit), text, "for {per_second} {unit}");
        }
    }

    #[test]
    fn counts_and_spans_have_separators_and_units() {
        assert_eq!(
            (count(0), count(1_234_567)),
            ("0".into(), "1,234,567".into())
        );
        assert_eq!(span(Nanos::from_secs(30)), "30 s");
        assert_eq!(span(Nanos::from_ms(100)), "0.1 s");
        assert_eq!(span(Nanos::from_ms(31)), "31.0 ms");
        assert_eq!(span(Nanos::ZERO), "0 s");
        assert_eq!(span(Nanos::from_secs(120)), "2 min");
        assert_eq!(span(Nanos::from_secs(160)), "2 min 40 s");
        assert_eq!(span(Nanos::from_secs(659)), "10 min");
        assert_eq!(span(Nanos::from_secs(7_500)), "2 h 5 min");
    }
}
