//! What limits the answer of these recordings, and what lifts it.

use laggard_model::text::{Unit, mean_time};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Ahead, Horizon, ServiceForecast};

/// What limits the answer of these recordings, and what lifts it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ForecastAdvice {
    /// The limit.
    #[serde(flatten)]
    pub limit: ForecastLimit,
    /// Limit and remedy in a sentence, without a full stop.
    pub words: String,
}

/// What limits what is told without a model.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "limit")]
pub enum ForecastLimit {
    /// The recordings cannot be trusted.
    Trust,
    /// Something was still waiting when measuring ended: no bound is one.
    Waiting {
        /// The longest that one had waited, ns.
        at_least_ns: f64,
    },
    /// Activations were lost.
    Losses {
        /// How many, of the service that lost most.
        lost: u64,
    },
    /// The largest latencies of neighbouring blocks depend on each other.
    Changing {
        /// So long are the longest blocks of which that could be seen, ns.
        block_ns: f64,
        /// In so many services.
        services: usize,
    },
    /// The recordings are too short.
    Length {
        /// For this horizon, the shortest that is not bounded.
        horizon: Horizon,
        /// So much more recording, ns.
        more_ns: f64,
        /// The chance of a new largest that this much more halves; absent where
        /// it bounds nine of ten horizons.
        halves: Option<f64>,
    },
}

impl ForecastAdvice {
    pub(super) fn of(
        is_trusted: bool,
        waited: Option<f64>,
        services: &[ServiceForecast],
    ) -> Vec<Self> {
        let limits = ForecastLimit::of(is_trusted, waited, services).into_iter();
        limits
            .map(|limit| Self {
                words: limit.words(),
                limit,
            })
            .collect()
    }
}

impl ForecastLimit {
    fn of(is_trusted: bool, waited: Option<f64>, services: &[ServiceForecast]) -> Vec<Self> {
        let mut all = Vec::new();
        if !is_trusted {
            all.push(Self::Trust);
        }
        all.extend(waited.map(|at_least_ns| Self::Waiting { at_least_ns }));
        let lost = services.iter().map(|one| one.lost).max().unwrap_or(0);
        if lost > 0 {
            all.push(Self::Losses { lost });
        }
        let changing = || services.iter().filter(|one| one.blocks.is_dependent);
        let longest = changing().map(|one| one.blocks.least_ns).reduce(f64::max);
        all.extend(longest.map(|block_ns| Self::Changing {
            block_ns,
            services: changing().count(),
        }));
        all.extend(too_short(services));
        all
    }

    fn words(&self) -> String {
        match self {
            Self::Trust => "the measurement is not trustworthy: record again".into(),
            Self::Waiting { at_least_ns } => format!(
                "a peak of at least {} had not ended when measuring did; record until it has",
                Unit::Auto.write(*at_least_ns)
            ),
            Self::Losses { lost: 1 } => {
                "1 activation was lost and may have been late; record without losses".into()
            }
            Self::Losses { lost } => {
                format!(
                    "{lost} activations were lost and may have been late; record without losses"
                )
            }
            Self::Changing { block_ns, services } => format!(
                "the load changed: in {services} {} even spans of {} depend on the one before; \
                 record longer than it takes to change",
                if *services == 1 {
                    "service"
                } else {
                    "services"
                },
                mean_time(*block_ns)
            ),
            Self::Length {
                horizon,
                more_ns,
                halves,
            } => {
                let (more, name) = (mean_time(*more_ns), horizon.name());
                match halves {
                    Some(chance) => format!(
                        "record {more} more: halves the {} chance of a new largest in the next {name}",
                        percent(*chance)
                    ),
                    None => format!("record {more} more: bounds 9 of 10 such {name}s"),
                }
            }
        }
    }
}

/// The shortest horizon of which nine of ten are not bounded, and what is missing.
fn too_short(services: &[ServiceForecast]) -> Option<ForecastLimit> {
    let cells = services.iter().flat_map(|one| &one.cells);
    let open = cells.filter(|cell| cell.ahead.is_open());
    let (horizon, ahead) = open
        .map(|cell| (cell.horizon, &cell.ahead))
        .min_by(|a, b| {
            let by_length = a.1.horizon_ns.total_cmp(&b.1.horizon_ns);
            by_length.then(b.1.new_largest.total_cmp(&a.1.new_largest))
        })?;
    let chance = ahead.new_largest;
    // h / (T + h) = p, so T + h = h / p: what must be doubled to halve p.
    let halving = ahead.horizon_ns / chance;
    let exposure = halving - ahead.horizon_ns;
    let bounding = ahead.stays_below.iter().map(|one| one.record_ns);
    let missing = bounding.fold(0.0, f64::max) - exposure;
    Some(if chance > 0.5 {
        ForecastLimit::Length {
            horizon,
            more_ns: halving,
            halves: Some(chance),
        }
    } else {
        ForecastLimit::Length {
            horizon,
            more_ns: missing.max(0.0),
            halves: None,
        }
    })
}

impl Ahead {
    /// Whether a bound that was asked cannot be told.
    fn is_open(&self) -> bool {
        self.stays_below.iter().any(|one| one.bound_ns.is_none())
    }
}

/// Whether a chance is told as `> 99.9 %`, which is a lower limit by itself.
pub fn is_almost_sure(chance: f64) -> bool {
    100.0 * chance > 99.9
}

/// A chance, with as many digits as tell it from certainty.
pub fn percent(chance: f64) -> String {
    let percent = 100.0 * chance;
    match percent {
        _ if is_almost_sure(chance) => "> 99.9 %".into(),
        p if p >= 99.0 => format!("{p:.1} %"),
        p if p >= 1.0 => format!("{p:.0} %"),
        p if p >= 0.1 => format!("{p:.1} %"),
        _ => "< 0.1 %".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_spoils_the_recordings_themselves_limits_first() {
        let said = |is_trusted, waited| {
            let all = ForecastAdvice::of(is_trusted, waited, &[]);
            all.into_iter().map(|one| one.words).collect::<Vec<_>>()
        };

        assert_eq!(said(true, None), [""; 0]);
        assert_eq!(
            said(false, Some(3e6)),
            [
                "the measurement is not trustworthy: record again",
                "a peak of at least 3.00 ms had not ended when measuring did; record until it has",
            ]
        );
    }

    #[test]
    fn one_activation_is_told_as_one() {
        let said = |lost| ForecastLimit::Losses { lost }.words();

        assert!(said(1).starts_with("1 activation was lost and may"));
        assert!(said(2).starts_with("2 activations were lost and may"));
    }

    #[test]
    fn a_chance_is_never_rounded_to_certainty_or_to_nothing() {
        for (chance, told) in [
            (0.0004, "< 0.1 %"),
            (0.001, "0.1 %"),
            (0.0099, "1.0 %"),
            (0.01, "1 %"),
            (0.5, "50 %"),
            (0.989, "99 %"),
            (0.9912, "99.1 %"),
            (0.9994, "> 99.9 %"),
            (1.0, "> 99.9 %"),
        ] {
            assert_eq!(percent(chance), told, "{chance}");
        }
    }
}
