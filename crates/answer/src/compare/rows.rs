//! Comparing what does not come by itself: hand-overs of `switch`, waits of `timers`.
//! How often they are late says nothing; how late they are does.

use laggard_model::RowsOf;
use laggard_model::text::{Unit, count, percent};
use laggard_record::Recording;

use super::{QuantileComparison, ServiceComparison};

/// What the rows of all recordings are, where no rates are told of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RowsCompared {
    /// In words: `hand-overs by futex among 10 threads`.
    pub(super) words: String,
    /// Whether they have an instant at which they are due.
    are_waits: bool,
    /// Why no rates are told.
    why: &'static str,
    /// How many of each side came before they were due: those have a latency of 0.
    pub(super) early: [u64; 2],
}

impl RowsCompared {
    /// `None`: one of them, at least, has rates. `first` of `recordings` are the first
    /// side's.
    pub(super) fn of(recordings: &[Recording], first: usize) -> Option<Self> {
        let mut all = recordings.iter().map(|one| &one.manifest().plan);
        let plan = all.next()?;
        let (words, why) = plan.rows.words(plan.period_ns).zip(plan.rows.no_rates())?;
        if all.any(|other| other.rows.no_rates().is_none()) {
            return None;
        }
        let (before, after) = recordings.split_at(first);
        let early = [before, after].map(|side| {
            let each = side.iter().map(|one| one.manifest().plan.rows.early());
            each.sum()
        });
        Some(Self {
            words,
            are_waits: matches!(plan.rows, RowsOf::Waits { .. }),
            why,
            early,
        })
    }

    /// What the quantiles say, in plain words.
    pub(super) fn sentences(&self, services: &[ServiceComparison], is_enough: bool) -> Vec<String> {
        let what = if self.are_waits {
            format!("how late {} were", self.words)
        } else {
            format!("how long {} took", self.words)
        };
        let mut all = vec![format!(
            "Compared is {what}; how often is not told: {}.",
            self.why
        )];
        if self.early != [0, 0] {
            all.push(format!(
                "Early, before they were due, were {} in A and {} in B: they count as not late, and a quantile that lies among them is not compared.",
                count(self.early[0]),
                count(self.early[1])
            ));
        }
        let quantiles: Vec<&QuantileComparison> =
            services.iter().flat_map(|one| &one.quantiles).collect();
        if quantiles.is_empty() {
            all.push("No quantile is left to compare; record for longer.".into());
            return all;
        }
        let differs = |one: &&&QuantileComparison| one.ratio_low > 1.0 || one.ratio_high < 1.0;
        let told = quantiles.iter().filter(differs).filter(|_| is_enough);
        let told: Vec<String> = told.map(|one| of_quantile(one)).collect();
        if told.is_empty() && is_enough {
            all.push("No difference was found; that is no proof that there is none.".into());
        }
        all.extend(told);
        all.push(if is_enough {
            "All intervals hold together with 95 %, by what the recordings of a side differ in."
                .into()
        } else {
            "Each interval is of 95 % by itself, of these recordings alone.".into()
        });
        all
    }
}

/// What a quantile is called.
#[must_use]
pub fn quantile_name(share: f64) -> String {
    match share {
        share if share < 0.6 => "median".into(),
        share => format!("p{}", percent(share)),
    }
}

/// A ratio of two times, to three digits, and to hundredths at most.
#[must_use]
pub fn written_ratio(ratio: f64) -> String {
    match ratio {
        100.0.. => format!("{ratio:.0}"),
        10.0..100.0 => format!("{ratio:.1}"),
        _ => format!("{ratio:.2}"),
    }
}

fn of_quantile(one: &QuantileComparison) -> String {
    let [ratio, low, high] = [one.ratio, one.ratio_low, one.ratio_high].map(written_ratio);
    format!(
        "{}: {} in B against {} in A, {ratio} times [{low}, {high}].",
        quantile_name(one.share),
        Unit::Auto.write(one.second_ns),
        Unit::Auto.write(one.first_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::LatencyCounts;
    use laggard_model::{Route, Service};

    fn service(ratios: &[(f64, f64, f64)]) -> ServiceComparison {
        let none = || LatencyCounts {
            buckets: Vec::new(),
            is_at_least: false,
        };
        let quantile = |&(ratio, ratio_low, ratio_high)| QuantileComparison {
            share: 0.5,
            first_ns: 1_000.0,
            second_ns: 1_000.0 * ratio,
            ratio,
            ratio_low,
            ratio_high,
        };
        ServiceComparison {
            service: Service::Other,
            route: Route::Direct,
            levels: Vec::new(),
            quantiles: ratios.iter().map(quantile).collect(),
            tail: None,
            tail_unknown: None,
            misses: None,
            first: none(),
            second: none(),
        }
    }

    #[test]
    fn a_quantile_is_told_where_its_interval_leaves_one_out_and_recordings_are_enough() {
        let rows = RowsCompared {
            words: "hand-overs".into(),
            are_waits: false,
            why: "they wait for each other",
            early: [0, 0],
        };
        let services = [service(&[(2.0, 1.5, 3.0), (1.2, 0.9, 1.4)])];

        let told = rows.sentences(&services, true);
        let few = rows.sentences(&services, false);
        let alike = rows.sentences(&[service(&[(1.2, 0.9, 1.4)])], true);

        assert_eq!(
            told[1],
            "median: 2.00 us in B against 1.00 us in A, 2.00 times [1.50, 3.00]."
        );
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(
            few[1..],
            ["Each interval is of 95 % by itself, of these recordings alone."]
        );
        assert!(alike[1].starts_with("No difference was found"), "{alike:?}");
        let none = rows.sentences(&[service(&[])], true);
        assert!(none[1].starts_with("No quantile is left"), "{none:?}");
    }
}
