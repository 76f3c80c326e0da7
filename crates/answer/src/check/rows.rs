//! Requirements on the latency of a service, the misses of an application, and the run time
//! of handlers.

use laggard_analyze::counts::{AgainstLimit, Clusters, LimitVerdict, Tallied, against_limit};
use laggard_model::{Nanos, Route, Service};

use super::checking::{CheckError, Checking, CountAndLimit};
use super::handlers::{HandlerSort, Handlers};
use super::late::LateTally;
use super::{CheckFigure, CheckedRow, FigureOf, RequirementRow, TestVerdict, Undecided};
use crate::load::Load;
use crate::qos::{Application, Fitness, assess_series_at};

/// Limit on the share of late wakeups, and the stalls that it covers.
pub(super) struct WantedShare {
    pub(super) at_most: Nanos,
    pub(super) share: f64,
    pub(super) longest: Nanos,
}

impl Checking<'_> {
    pub(super) fn share(
        &self,
        row: &RequirementRow,
        load: &Load,
        line: (Service, Route),
        wanted: &WantedShare,
    ) -> Result<CheckedRow, CheckError> {
        let &WantedShare {
            at_most,
            share,
            longest,
        } = wanted;
        let late = LateTally::new(load, line, at_most)?;
        let seen_together = late.wakeups.together;
        let longest = Some(longest).filter(|_| load.wakes_up_during_stalls());
        let of_longest = longest.map_or(1.0, |longest| late.stall.wakeups(longest.as_f64()));
        let tallied = &Tallied {
            together: of_longest.max(seen_together),
            ..late.wakeups
        };
        let against = self.against(tallied, late.samples * share)?;
        let mut checked = self.row(row, load, Some(line));
        checked.longest_stall_ns = longest;
        let holds_to = against.holds_to.filter(|_| longest.is_some());
        checked.holds_to_ns = holds_to.map(|size| late.stall.length_ns(size));
        checked.holds_to_burst = holds_to;
        let count = CountAndLimit {
            seen: tallied,
            found: against,
            is_waiting_late: late.waited.map(|waited| waited > at_most),
            is_kept: true,
            together: Some(seen_together),
        };
        self.judge(&mut checked, (row, load), &count)?;
        checked.figure = Some(CheckFigure {
            of: FigureOf::Share,
            value: Some(tallied.least / late.samples),
            low: against.interval.low / late.samples,
            high: Some((against.interval.high / late.samples).min(1.0)),
            limit: share,
            seen: tallied.least,
            unknown: tallied.most - tallied.least,
            samples: Some(late.samples),
            is_counted: true,
        });
        Ok(checked)
    }

    pub(super) fn level(
        &self,
        row: &RequirementRow,
        load: &Load,
        line: (Service, Route),
        (level, per): (Nanos, Nanos),
    ) -> Result<CheckedRow, CheckError> {
        let late = LateTally::new(load, line, level)?;
        let tallied = &late.runs;
        let against = self.against(tallied, late.exposure / per.as_f64())?;
        let mut checked = self.row(row, load, Some(line));
        let count = CountAndLimit {
            seen: tallied,
            found: against,
            is_waiting_late: late.waited.map(|waited| waited > level),
            is_kept: late.is_kept,
            together: None,
        };
        checked.holds_to_burst = against.holds_to;
        self.judge(&mut checked, (row, load), &count)?;
        checked.figure = Some(CheckFigure {
            of: FigureOf::MeanTime,
            value: (tallied.least > 0.0).then(|| late.exposure / tallied.least),
            low: late.exposure / against.interval.high,
            high: (against.interval.low > 0.0).then(|| late.exposure / against.interval.low),
            limit: per.as_f64(),
            seen: tallied.least,
            unknown: tallied.most - tallied.least,
            samples: None,
            is_counted: true,
        });
        Ok(checked)
    }

    pub(super) fn mttf(
        &self,
        row: &RequirementRow,
        load: &Load,
        line: (Service, Route),
        (application, mttf): (&Application, Nanos),
    ) -> Result<CheckedRow, CheckError> {
        // The interval of `qos` has a single confidence. The higher one is used.
        let confidence = self.question.confidence().beyond;
        let outlook = assess_series_at(load, application, line, confidence)?;
        let required = mttf.as_f64();
        // It must hold on the CPUs that miss most often, too.
        let (fitness, figures, worst_cpus) = outlook.against(required);
        let mut checked = self.row(row, load, Some(line));
        let verdict = match fitness {
            Fitness::Fit => LimitVerdict::Within,
            Fitness::NotFit => LimitVerdict::Beyond,
            Fitness::Unknown => LimitVerdict::Unclear,
        };
        let failures = figures.failures.unwrap_or_default();
        let clusters = figures.clusters.filter(|count| *count > 0.0);
        let tallied = Tallied {
            least: failures,
            most: failures,
            clusters: clusters.map(|count| Clusters {
                count,
                variation: 1.0 / count,
                freedom: f64::INFINITY,
                slow: None,
            }),
            together: 1.0,
        };
        // The interval of `qos` is two-sided.
        let each = match clusters {
            Some(_) => f64::midpoint(confidence, 1.0),
            None => confidence,
        };
        let against = against_limit(&tallied, figures.exposure_ns / required, each)?;
        let against = AgainstLimit {
            verdict,
            // Without failures the lower limit grows with the recording.
            times: match against.times {
                Some(_) if clusters.is_none() && figures.mttf_low_ns > 0.0 => {
                    Some((required / figures.mttf_low_ns).max(1.0))
                }
                times => times,
            },
            ..against
        };
        let slack = application.slack_ns;
        let count = CountAndLimit {
            seen: &tallied,
            found: against,
            is_waiting_late: outlook.waited_ns.map(|waited| waited > slack),
            is_kept: true,
            together: None,
        };
        checked.holds_to_burst = against.holds_to.filter(|_| figures.failures.is_some());
        self.judge(&mut checked, (row, load), &count)?;
        // Without a count, 0 does not mean that failures did not occur.
        let is_counted = figures.failures.is_some();
        if !is_counted && checked.why == Some(Undecided::TooShort) {
            checked.why = Some(Undecided::TooCoarse);
            checked.needed_ns = None;
        }
        checked.figure = Some(CheckFigure {
            of: FigureOf::MeanTime,
            value: figures.mttf_ns,
            low: figures.mttf_low_ns,
            high: figures.mttf_high_ns,
            limit: required,
            seen: failures,
            unknown: 0.0,
            samples: None,
            is_counted,
        });
        checked.worst_cpus = worst_cpus.cloned();
        Ok(checked)
    }

    pub(super) fn longest(
        &self,
        row: &RequirementRow,
        load: &Load,
        (sort, limit, per): (HandlerSort, Nanos, Nanos),
    ) -> Result<CheckedRow, CheckError> {
        let mut checked = self.row(row, load, None);
        let Some(handlers) = Handlers::read(load, sort, limit)? else {
            checked.why = Some(Undecided::NotWatched);
            return Ok(checked);
        };
        let none = Tallied {
            least: 0.0,
            most: 0.0,
            clusters: None,
            together: 1.0,
        };
        let watched = handlers.watched_ns.filter(|watched| *watched > 0.0);
        match watched {
            _ if row.is_of_less_than(load) => checked.why = Some(Undecided::LoadEnded),
            _ if handlers.longer > 0 && load.is_trusted() => checked.verdict = TestVerdict::Fail,
            Some(watched) => {
                let against = self.against(&none, watched / per.as_f64())?;
                checked.holds_to_burst = against.holds_to;
                let count = CountAndLimit {
                    seen: &none,
                    found: against,
                    is_waiting_late: None,
                    is_kept: true,
                    together: None,
                };
                self.judge(&mut checked, (row, load), &count)?;
            }
            None if load.is_trusted() => checked.why = Some(Undecided::NotWatched),
            None => checked.why = Some(Undecided::NotTrustworthy),
        }
        let longest = handlers.longest.as_ref();
        let longest = longest.map_or(0.0, |handler| handler.time_ns.as_f64());
        checked.figure = Some(CheckFigure {
            of: FigureOf::Longest,
            value: Some(longest),
            low: longest,
            high: None,
            limit: limit.as_f64(),
            seen: handlers.longer as f64,
            unknown: 0.0,
            samples: None,
            is_counted: true,
        });
        checked.handler = handlers.longest;
        Ok(checked)
    }
}
