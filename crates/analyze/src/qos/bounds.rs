//! Blackouts as an open-loop probe sees them (docs/method.md 6.3).

use crate::InputError;
use crate::input::{ascending, finite, not_negative, paired, positive};

/// From `start` to `end` the observed thread could not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blackout {
    /// When it began.
    pub start: f64,
    /// When it ended; never before `start`.
    pub end: f64,
}

/// Blackouts that certainly were, and that at most were.
#[derive(Clone, Debug, PartialEq)]
pub struct BlackoutBounds {
    /// Each begins at the first activation that felt it.
    pub inner: Vec<Blackout>,
    /// Each begins one period earlier, where the activation before did not
    /// feel it yet.
    pub outer: Vec<Blackout>,
}

/// The blackouts that `latencies` above `floor` prove, merged where they touch.
///
/// # Errors
/// When `activations` do not ascend, the two differ in length, or a latency is
/// negative.
pub fn blackouts_of(
    activations: &[f64],
    latencies: &[f64],
    floor: f64,
) -> Result<Vec<Blackout>, InputError> {
    paired("latencies", latencies, "activations", activations)?;
    finite("activations", activations)?;
    ascending("activations", activations)?;
    not_negative("floor", floor)?;
    let mut blackouts: Vec<Blackout> = Vec::new();
    for (&start, &latency) in activations.iter().zip(latencies) {
        if not_negative("latency", latency)? <= floor {
            continue;
        }
        let end = start + latency;
        match blackouts.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => blackouts.push(Blackout { start, end }),
        }
    }
    Ok(blackouts)
}

/// Bounds on the blackouts behind an open-loop probe of period `period`: its
/// failures replayed over the inner ones bound the true count from below, over
/// the outer ones from above. A period of 1/20 of the slack or less keeps the
/// two within a few per cent. Blackouts no longer than `period` and `floor`
/// together can fall between two activations; they are in neither.
///
/// # Errors
/// As [`blackouts_of`], or when `period` is not positive.
pub fn blackout_bounds(
    activations: &[f64],
    latencies: &[f64],
    period: f64,
    floor: f64,
) -> Result<BlackoutBounds, InputError> {
    positive("period", period)?;
    let inner = blackouts_of(activations, latencies, floor)?;
    let mut outer: Vec<Blackout> = Vec::with_capacity(inner.len());
    for blackout in &inner {
        let start = blackout.start - period;
        match outer.last_mut() {
            Some(last) if start <= last.end => last.end = blackout.end,
            _ => outer.push(Blackout {
                start,
                end: blackout.end,
            }),
        }
    }
    Ok(BlackoutBounds { inner, outer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::{Buffering, replay_blackouts};
    use proptest::prelude::{prop_assert, proptest};

    /// What an open-loop probe of period 0.5 would measure.
    fn probed(truth: &[Blackout], until: f64) -> (Vec<f64>, Vec<f64>) {
        let activations: Vec<f64> = (0..)
            .map(|k| f64::from(k) * 0.5)
            .take_while(|&a| a < until)
            .collect();
        let latencies = activations
            .iter()
            .map(|&a| {
                let hit = truth.iter().find(|b| b.start <= a && a < b.end);
                hit.map_or(0.0, |b| b.end - a)
            })
            .collect();
        (activations, latencies)
    }

    proptest! {
        #[test]
        fn the_true_number_of_misses_lies_between_the_bounds(
            gaps in proptest::collection::vec((1.0..60.0_f64, 0.52..25.0_f64), 1..20),
        ) {
            let mut truth = Vec::new();
            let mut now = 1.0;
            for (gap, length) in gaps {
                truth.push(Blackout { start: now + gap, end: now + gap + length });
                now += gap + length;
            }
            let until = now + 50.0;
            let (activations, latencies) = probed(&truth, until);
            let bounds = blackout_bounds(&activations, &latencies, 0.5, 0.01).unwrap();
            let buffering = Buffering::new(3, 6.0, 1.5).unwrap();
            let misses = |blackouts: &[Blackout]| {
                replay_blackouts(blackouts, until, buffering, 0.3, 0.0).unwrap().misses
            };
            let count = misses(&truth);
            prop_assert!(misses(&bounds.inner) <= count);
            prop_assert!(count <= misses(&bounds.outer));
        }
    }

    #[test]
    fn unpaired_and_unsorted_input_is_refused() {
        assert!(blackouts_of(&[0.0, 1.0], &[0.0], 0.1).is_err());
        assert!(blackouts_of(&[1.0, 0.0], &[0.0, 0.0], 0.1).is_err());
        assert!(blackouts_of(&[0.0], &[-1.0], 0.1).is_err());
    }
}
