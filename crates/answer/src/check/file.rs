//! Reader for files of requirements.

use std::ops::Range;
use std::path::{Path, PathBuf};

use laggard_model::{Nanos, nearest};
use serde::Deserialize;
use toml::Spanned;

use super::place::Place;
use super::requirement::{Requirement, RequirementRow, Requirements, WhenUnclear};
use super::wrong::{RequirementError, Wrong};
use crate::qos::{CONFIDENCE, by_name};

/// Durations with a name.
const NAMED: [(&str, Nanos); 3] = [
    ("hour", Nanos::from_secs(3_600)),
    ("day", Nanos::from_secs(86_400)),
    ("week", Nanos::from_secs(604_800)),
];
/// Default of `per` for handlers.
const HANDLERS_PER: Nanos = NAMED[0].1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    confidence: Option<Spanned<f64>>,
    when_unclear: Option<Spanned<String>>,
    #[serde(default)]
    require: Vec<Spanned<Entry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    service: Option<Spanned<String>>,
    load: Option<String>,
    at_most: Option<Spanned<String>>,
    share: Option<Spanned<f64>>,
    longest: Option<Spanned<String>>,
    app: Option<Spanned<String>>,
    mttf: Option<Spanned<String>>,
    level: Option<Spanned<String>>,
    per: Option<Spanned<String>>,
    not_worse_than: Option<Spanned<f64>>,
    longest_softirq: Option<Spanned<String>>,
    longest_irq: Option<Spanned<String>>,
}

/// Result whose error has its place in the text.
type Placed<T> = Result<T, Box<(Range<usize>, Wrong)>>;

fn misplaced(place: Range<usize>, wrong: Wrong) -> Box<(Range<usize>, Wrong)> {
    Box::new((place, wrong))
}

/// Reads a file of requirements.
///
/// # Errors
/// When the file cannot be read, or has an error. The error states its place and the likely
/// intention.
pub fn read_requirements(file: &Path) -> Result<Requirements, RequirementError> {
    let text = laggard_files::read_text(file).map_err(|source| RequirementError::Read {
        file: file.into(),
        source,
    })?;
    parse(&text)
        .map(|requirements| Requirements {
            file: file.into(),
            ..requirements
        })
        .map_err(|wrong| RequirementError::At {
            file: file.into(),
            place: Place::from_offset(&text, wrong.0.start),
            source: wrong.1.into(),
        })
}

fn parse(text: &str) -> Placed<Requirements> {
    let file: File = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        misplaced(span, Wrong::from_toml(error.message()))
    })?;
    let confidence = match &file.confidence {
        None => CONFIDENCE,
        Some(given) => match *given.get_ref() {
            share if share > 0.5 && share <= 0.9999 => share,
            share => return Err(misplaced(given.span(), Wrong::Confidence(share))),
        },
    };
    let when_unclear = match &file.when_unclear {
        None => WhenUnclear::default(),
        Some(given) => match given.get_ref().as_str() {
            "fail" => WhenUnclear::Fail,
            "warn" => WhenUnclear::Warn,
            "extend" => WhenUnclear::Extend,
            other => return Err(misplaced(given.span(), Wrong::WhenUnclear(other.into()))),
        },
    };
    let mut rows = Vec::new();
    for entry in file.require {
        let span = entry.span();
        rows.extend(entry.into_inner().rows(text, span)?);
    }
    if rows.is_empty() {
        return Err(misplaced(0..0, Wrong::Empty));
    }
    Ok(Requirements {
        file: PathBuf::new(),
        confidence,
        when_unclear,
        rows,
    })
}

impl Entry {
    /// Returns the requirements: one, or the two for handlers.
    fn rows(self, text: &str, table: Range<usize>) -> Placed<Vec<RequirementRow>> {
        let given = self.given();
        let Some((first, place)) = given.first().cloned() else {
            return Err(misplaced(table, Wrong::Nothing));
        };
        let of_handlers = |name: &str| name.starts_with("longest_");
        let other = given
            .iter()
            .find(|(name, _)| *name != first && !(of_handlers(first) && of_handlers(name)));
        if let Some((other, place)) = other {
            return Err(misplaced(place.clone(), Wrong::Two { first, other }));
        }
        self.partners()?;
        let service = match &self.service {
            None => None,
            Some(name) => Some(
                name.get_ref()
                    .parse()
                    .map_err(|error| misplaced(name.span(), Wrong::Service(error)))?,
            ),
        };
        if let (Some(name), true) = (&self.service, of_handlers(first)) {
            return Err(misplaced(name.span(), Wrong::HandlersHaveNoService(first)));
        }
        let row = |requirement, position: usize| RequirementRow {
            place: Place::from_offset(text, position),
            name: self.name.clone().filter(|name| !name.trim().is_empty()),
            service,
            load: self.load.clone(),
            requirement,
        };
        let requirements = self.requirements()?.into_iter();
        let start = place.start;
        Ok(requirements
            .map(|requirement| row(requirement, start))
            .collect())
    }

    /// Returns the keys that set a limit, with their places.
    fn given(&self) -> Vec<(&'static str, Range<usize>)> {
        fn place<T>(
            name: &'static str,
            field: Option<&Spanned<T>>,
        ) -> Option<(&'static str, Range<usize>)> {
            field.map(|field| (name, field.span()))
        }
        [
            place("at_most", self.at_most.as_ref()),
            place("app", self.app.as_ref()),
            place("level", self.level.as_ref()),
            place("not_worse_than", self.not_worse_than.as_ref()),
            place("longest_softirq", self.longest_softirq.as_ref()),
            place("longest_irq", self.longest_irq.as_ref()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Refuses a key without the key that it needs.
    fn partners(&self) -> Placed<()> {
        let lacks = |key: &'static str, lacks, example| Wrong::Lacks {
            key,
            lacks,
            example,
        };
        let wrong = match self {
            Self {
                at_most: Some(value),
                share: None,
                ..
            } => (value.span(), lacks("at_most", "share", "share = 1e-5")),
            Self {
                at_most: None,
                share: Some(value),
                ..
            } => (
                value.span(),
                lacks("share", "at_most", "at_most = \"250us\""),
            ),
            Self {
                at_most: None,
                longest: Some(value),
                ..
            } => (
                value.span(),
                lacks("longest", "at_most", "at_most = \"250us\""),
            ),
            Self {
                app: Some(value),
                mttf: None,
                ..
            } => (value.span(), lacks("app", "mttf", "mttf = \"1h\"")),
            Self {
                app: None,
                mttf: Some(value),
                ..
            } => (value.span(), lacks("mttf", "app", "app = \"jack-128\"")),
            Self {
                level: Some(value),
                per: None,
                ..
            } => (value.span(), lacks("level", "per", "per = \"week\"")),
            Self {
                level: None,
                per: Some(value),
                longest_softirq: None,
                longest_irq: None,
                ..
            } => (value.span(), lacks("per", "level", "level = \"2ms\"")),
            _ => return Ok(()),
        };
        Err(Box::new(wrong))
    }

    /// Reads the longest stall, which must exceed the latency limit: no wakeup is late
    /// in a shorter one.
    fn longest(&self, at_most: Nanos) -> Placed<Option<Nanos>> {
        let Some(given) = &self.longest else {
            return Ok(None);
        };
        match time(given)? {
            longest if longest > at_most => Ok(Some(longest)),
            longest => Err(misplaced(
                given.span(),
                Wrong::Longest {
                    longest: longest.to_string(),
                    at_most: at_most.to_string(),
                },
            )),
        }
    }

    fn requirements(&self) -> Placed<Vec<Requirement>> {
        let per = match &self.per {
            None => HANDLERS_PER,
            Some(per) => length(per)?,
        };
        let mut rows = Vec::new();
        if let (Some(at_most), Some(share)) = (&self.at_most, &self.share) {
            let part = *share.get_ref();
            if !(part > 0.0 && part < 1.0) {
                return Err(misplaced(share.span(), Wrong::Share(part)));
            }
            let at_most_ns = time(at_most)?;
            rows.push(Requirement::Share {
                at_most_ns,
                share: part,
                longest_ns: self.longest(at_most_ns)?,
            });
        }
        if let (Some(app), Some(mttf)) = (&self.app, &self.mttf) {
            let application = by_name(app.get_ref());
            rows.push(Requirement::Mttf {
                application: application
                    .map_err(|error| misplaced(app.span(), Wrong::Application(error)))?,
                mttf_ns: length(mttf)?,
            });
        }
        if let Some(level) = &self.level {
            rows.push(Requirement::Level {
                level_ns: time(level)?,
                per_ns: per,
            });
        }
        if let Some(given) = &self.not_worse_than {
            let ratio = *given.get_ref();
            if !(ratio > 1.0 && ratio < 1e3) {
                return Err(misplaced(given.span(), Wrong::Ratio(ratio)));
            }
            rows.push(Requirement::NotWorseThan { ratio });
        }
        if let Some(longest) = &self.longest_softirq {
            rows.push(Requirement::LongestSoftirq {
                at_most_ns: time(longest)?,
                per_ns: per,
            });
        }
        if let Some(longest) = &self.longest_irq {
            rows.push(Requirement::LongestIrq {
                at_most_ns: time(longest)?,
                per_ns: per,
            });
        }
        Ok(rows)
    }
}

/// Parses a time above 0.
fn time(given: &Spanned<String>) -> Placed<Nanos> {
    match given.get_ref().parse() {
        Ok(Nanos::ZERO) => {
            let text = given.get_ref().clone();
            Err(misplaced(given.span(), Wrong::NoTime(text)))
        }
        Ok(time) => Ok(time),
        Err(error) => Err(misplaced(given.span(), Wrong::Time(error))),
    }
}

/// Parses a time above 0 or the name of a duration.
fn length(given: &Spanned<String>) -> Placed<Nanos> {
    let text = given.get_ref().as_str();
    if let Some((_, time)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Ok(*time);
    }
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        let meant = nearest(text, &NAMED.map(|(name, _)| name));
        return Err(misplaced(given.span(), Wrong::Length(text.into(), meant)));
    }
    time(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Requirement {
        let file = format!("[[require]]\n{text}\n");
        parse(&file).unwrap().rows.remove(0).requirement
    }

    /// Returns the place and the message of an error.
    fn error(text: &str) -> String {
        let (place, wrong) = *parse(text).unwrap_err();
        format!("{}: {wrong}", Place::from_offset(text, place.start))
    }

    #[test]
    fn two_limits_and_confidences_out_of_range_are_refused() {
        let both = |text: &str| error(&format!("[[require]]\n{text}\n"));
        for text in [
            "longest_softirq = \"100us\"\nnot_worse_than = 1.25",
            "level = \"2ms\"\nper = \"week\"\nlongest_irq = \"25us\"",
        ] {
            let message = both(text);
            assert!(message.contains("longest_"), "{message}");
        }
        let sure = |share: &str| {
            let text = format!("confidence = {share}\n[[require]]\nnot_worse_than = 1.25\n");
            parse(&text).map(|file| file.confidence).ok()
        };
        assert_eq!(sure("0.501"), Some(0.501));
        assert_eq!(sure("0.9999"), Some(0.9999));
        assert_eq!(["0.5", "0.99991", "1.0", "0.0"].map(sure), [None; 4]);
    }

    #[test]
    fn empty_name_is_no_name() {
        for (given, wanted) in [("loop", Some("loop")), ("", None), (" ", None)] {
            let text = format!("[[require]]\nname = \"{given}\"\nlevel = \"1ms\"\nper = \"day\"");
            let read = parse(&text).unwrap();
            assert_eq!(read.rows[0].name.as_deref(), wanted, "`{given}`");
        }
    }

    #[test]
    fn every_kind_of_requirement_is_read() {
        let share = row("service = \"fifo:90\"\nat_most = \"250us\"\nshare = 1e-5");
        assert!(
            matches!(share, Requirement::Share { at_most_ns, share, longest_ns: None }
            if at_most_ns == Nanos::from_us(250) && share == 1e-5)
        );
        let longest = row("at_most = \"250us\"\nshare = 1e-5\nlongest = \"30ms\"");
        assert!(matches!(longest, Requirement::Share { longest_ns, .. }
            if longest_ns == Some(Nanos::from_ms(30))));
        let app = row("app = \"jack-128\"\nmttf = \"1h\"");
        assert!(matches!(app, Requirement::Mttf { mttf_ns, .. } if mttf_ns == NAMED[0].1));
        let level = row("level = \"2ms\"\nper = \"week\"");
        assert!(matches!(level, Requirement::Level { per_ns, .. } if per_ns == NAMED[2].1));
        let ratio = row("not_worse_than = 1.25");
        assert!(matches!(ratio, Requirement::NotWorseThan { ratio } if ratio == 1.25));
        let both = "[[require]]\nlongest_softirq = \"100us\"\nlongest_irq = \"25us\"\n";
        let both = parse(both).unwrap();
        assert_eq!(both.rows.len(), 2);
        assert_eq!(
            (both.confidence, both.when_unclear),
            (0.95, WhenUnclear::Fail)
        );
    }

    #[test]
    fn errors_name_line_column_and_intention() {
        for (text, message) in [
            (
                "[[require]]\nlevel = \"2ms\"\nper = \"weak\"",
                "3:7: `weak` is not a duration; did you mean `week`?",
            ),
            (
                "confidence = 0.95\n\n[[require]]\nservice = \"fifo:90\"\nat_most = \"250\"\nshare = 1e-5",
                "5:11: `250` has no unit; write it as `250us`, `250ms` or `250s`",
            ),
            (
                "[[require]]\nservice = \"softirk\"\nat_most = \"1ms\"\nshare = 0.1",
                "2:11: `softirk` is not a service; use irq, softirq, worker, deadline, fifo:1 to fifo:99, pi:1 to pi:99, other, nice:-20 to nice:19, slice:100us to slice:100ms, kthread, or kthread:32 to kthread:99; on Windows realtime:16 to realtime:31, mmcss, dpc, or kthread:16 to kthread:31; did you mean `softirq`?",
            ),
            (
                "[[require]]\nat_most = \"1ms\"\nsahre = 1e-5",
                "3:1: unknown key `sahre` in [[require]]; did you mean `share`?",
            ),
            (
                "[[require]]\nat_most = \"1ms\"",
                "2:11: `at_most` needs `share`, such as share = 1e-5",
            ),
            (
                "[[require]]\nat_most = \"1ms\"\nshare = 0.1\nlongest = \"1ms\"",
                "4:11: `longest` is 1ms, but no wakeup is later than `at_most` (1ms) in a stall that short; write a longer time",
            ),
            (
                "[[require]]\nlevel = \"1ms\"\nper = \"day\"\nlongest = \"1s\"",
                "4:11: `longest` needs `at_most`, such as at_most = \"250us\"",
            ),
            (
                "[[require]]\nat_most = \"1ms\"\nshare = 1.5",
                "3:9: `share` is 1.5; write a number above 0 and below 1, such as 1e-5 for one in 100,000",
            ),
            (
                "[[require]]\nat_most = \"1ms\"\nshare = 0.1\nlevel = \"1ms\"\nper = \"day\"",
                "4:9: `level` and `at_most` are two requirements; write a [[require]] for each",
            ),
            (
                "[[require]]\nservice = \"fifo:90\"",
                "1:1: [[require]] has no limit; write at_most and share, app and mttf, level and per, \
                 not_worse_than, longest_softirq or longest_irq",
            ),
            (
                "confidence = 95\n[[require]]\nnot_worse_than = 1.25",
                "1:14: `confidence` is 95; write a number above 0.5 and at most 0.9999, such as 0.95",
            ),
            (
                "[[require]]\napp = \"jack-129\"\nmttf = \"1h\"",
                "2:7: `jack-129` is not in the catalogue; see `laggard qos --list`, or give a TOML file; did you mean `jack-128`?",
            ),
            (
                "[[require]]\nat_most = 250\nshare = 0.1",
                "2:11: invalid type: integer `250`, expected a string",
            ),
            (
                "",
                "1:1: the file has no requirement; write at least one [[require]]",
            ),
            (
                "when_unclear = \"pass\"\n[[require]]\nnot_worse_than = 2",
                "1:16: `when_unclear` is `pass`; use fail, warn or extend",
            ),
            (
                "[[require]]\nnot_worse_than = 0.9",
                "2:18: `not_worse_than` is 0.9; write a number above 1 and below 1000, such as 1.25 for 25 % more late wakeups",
            ),
            (
                "service = \"fifo:90\"",
                "1:1: unknown key `service` at top level; requirements start with [[require]] (is this a task set? use `laggard sched --tasks`)",
            ),
            (
                "at_most = \"1ms\"\nshare = 0.1",
                "1:1: unknown key `at_most` at top level; requirements start with [[require]]",
            ),
            (
                "confidense = 0.95",
                "1:1: unknown key `confidense` at top level; did you mean `confidence`?",
            ),
            (
                "[[require]]\nlevel = \"0us\"\nper = \"day\"",
                "2:9: `0us` is not a limit; write a time above 0",
            ),
            (
                "[[require]]\nservice = \"fifo:90\"\nlongest_irq = \"25us\"",
                "2:11: `longest_irq` applies to a CPU and not to a service; remove `service`",
            ),
        ] {
            assert_eq!(error(text), message, "{text}");
        }
    }
}
