//! Whether a recording's figures can be trusted.

use laggard_model::Losses;
use schemars::JsonSchema;
use serde::Serialize;

/// Fewer latencies than this say nothing of a machine: a command that fails at
/// once still lets a few be measured.
const FEWEST: u64 = 20;

/// More lost activations than one in so many spoil the tail: what is lost is
/// likely to be what was late.
const LOST_IN: u64 = 1_000;

/// Whether the figures can be trusted.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "why")]
pub enum Trust {
    /// Nothing found that speaks against it.
    Good,
    /// They cannot: for these reasons.
    None(Vec<String>),
}

/// Judges a recording of `samples` latencies by what it lost. Caveats leave the figures true; they
/// say what they are true of.
pub fn trust(losses: &Losses, samples: u64) -> Trust {
    let mut reasons = Vec::new();
    if samples == 0 {
        reasons.push("nothing was measured".into());
    } else if samples < FEWEST {
        reasons.push(format!(
            "only {samples} activations were measured; record for longer"
        ));
    }
    let lost = losses.activations();
    if lost > 0 && lost.saturating_mul(LOST_IN) > samples {
        reasons.push(format!(
            "{lost} activations were lost, more than one in {LOST_IN} of {samples}; record with a longer --period or fewer services"
        ));
    }
    if losses.clock_back.saturating_mul(LOST_IN) > samples {
        reasons.push(format!(
            "the clock ran backwards {} times; check the clocksource",
            losses.clock_back
        ));
    }
    if reasons.is_empty() {
        Trust::Good
    } else {
        Trust::None(reasons)
    }
}
