//! Blackout envelope: the largest part of any window that is blacked out
//! (docs/method.md 9.5).

use crate::InputError;
use crate::exceedance::{Blackout, check_blackouts};
use crate::input::not_negative;

/// Returns for each of `windows` the longest time that `blackouts` took in any window
/// of that length: the observed maximum, not a return level.
///
/// Time grows with blackouts times windows.
///
/// # Errors
/// If blackouts do not ascend or overlap, or a window is negative.
pub fn blackout_envelope(blackouts: &[Blackout], windows: &[f64]) -> Result<Vec<f64>, InputError> {
    check_blackouts(blackouts)?;
    let mut before = vec![0.0];
    for blackout in blackouts {
        let sum = before.last().copied().unwrap_or(0.0);
        before.push(sum + blackout.end - blackout.start);
    }
    let total = before.last().copied().unwrap_or(0.0);
    let all_fit_into = |window: f64| match blackouts {
        [first, ..] => blackouts
            .last()
            .is_some_and(|last| last.end <= first.start + window),
        [] => true,
    };
    windows
        .iter()
        .map(|&window| {
            not_negative("window", window)?;
            if all_fit_into(window) {
                return Ok(total);
            }
            Ok(longest(blackouts, &before, window))
        })
        .collect()
}

/// Returns the longest blackout time in any window. `before[i]` is the time taken by
/// the blackouts before `blackouts[i]`. The fullest window starts with a blackout.
fn longest(blackouts: &[Blackout], before: &[f64], window: f64) -> f64 {
    let mut next = 0;
    let mut longest = 0.0_f64;
    for (first, blackout) in blackouts.iter().enumerate() {
        let end = blackout.start + window;
        while blackouts.get(next).is_some_and(|b| b.start < end) {
            next += 1;
        }
        // The last blackout of the window may extend beyond it.
        let beyond = next
            .checked_sub(1)
            .map_or(0.0, |last| (blackouts[last].end - end).max(0.0));
        longest = longest.max(before[next.max(first)] - before[first] - beyond);
    }
    longest.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::in_a_row;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn windows_hold_at_most_the_envelope(
            gaps in proptest::collection::vec((0.0..10.0_f64, 0.0..5.0_f64), 1..20),
            start in 0.0..50.0_f64, window in 0.0..30.0_f64,
        ) {
            let (blackouts, _) = in_a_row(gaps);
            let envelope = blackout_envelope(&blackouts, &[window]).unwrap()[0];
            let within: f64 = blackouts
                .iter()
                .map(|b| (b.end.min(start + window) - b.start.max(start)).max(0.0))
                .sum();
            prop_assert!(within <= envelope + 1e-9);
            prop_assert!(envelope <= window + 1e-9);
        }

        #[test]
        fn window_with_all_blackouts_has_bit_for_bit_their_sum(
            gaps in proptest::collection::vec((0.0..10.0_f64, 0.0..5.0_f64), 1..20),
            more in 0.0..9.0_f64,
        ) {
            let (blackouts, _) = in_a_row(gaps);
            let mut before = vec![0.0];
            for blackout in &blackouts {
                before.push(before[before.len() - 1] + blackout.end - blackout.start);
            }
            let span = blackouts[blackouts.len() - 1].end - blackouts[0].start;
            for window in [span.next_down(), span, span.next_up(), span + more] {
                let window = window.max(0.0);
                let envelope = blackout_envelope(&blackouts, &[window]).unwrap()[0];
                prop_assert!(envelope == longest(&blackouts, &before, window));
            }
        }
    }
}
