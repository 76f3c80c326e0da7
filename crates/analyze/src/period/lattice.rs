//! Test whether random events on the teeth of a finer comb explain a comb.

use statrs::function::factorial::ln_binomial;

use super::{Comb, CombSearch};

/// Minimum fraction of hit teeth for a period of one second or a unit fraction of it:
/// events at random whole seconds hit fewer.
const MIN_FILL_OF_SECOND: f64 = 0.8;
/// Minimum distance of the teeth of the finest compared lattice, in tolerances.
const MIN_STEP: f64 = 10.0;
/// Relative error of a step that counts as a part of a second.
const ABOUT: f64 = 0.01;
/// Parts of a second that timers are rounded to or that programs choose as periods.
const PARTS_OF_SECOND: [f64; 5] = [1.0, 2.0, 4.0, 5.0, 10.0];
/// Maximum probability that events on a lattice coarser than a second give a comb.
const MAX_CHANCE: f64 = 0.05;
/// Minimum number of teeth of a comb that coarse lattices can explain: fewer teeth
/// never exclude the comb of half the period.
const MIN_TEETH: usize = 4;

/// Comb compared with lattices: combs of a half, a third, ... of its period, with the
/// same teeth and more between them. Under the null hypothesis, the hit teeth of a
/// lattice are random. Given their number, the number on the comb is hypergeometric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lattices {
    /// Largest probability, log 10, for lattices with a step of at most a second, for
    /// all combs on them together.
    plausible: f64,
    /// Largest probability for coarser lattices. No kernel rounds to them, but an
    /// unseen periodic source with only some large events is such a lattice.
    coarse: f64,
    /// Whether the period is a second or a part of it and too few teeth are hit.
    is_thin_second: bool,
}

impl Lattices {
    /// Compares a `comb` among `times` with its lattices. `second` is the length of a
    /// second in the unit of `times`.
    pub(super) fn new(times: &[f64], comb: &Comb, search: &CombSearch, second: f64) -> Self {
        let mut lattices = Self {
            plausible: f64::NEG_INFINITY,
            coarse: f64::NEG_INFINITY,
            is_thin_second: is_thin_second(comb, search, second),
        };
        let step = |parts: f64| comb.period / parts;
        for parts in PARTS_OF_SECOND {
            let steps = (comb.period * parts / second).round();
            let is_part = (step(steps) * parts / second - 1.0).abs() < ABOUT;
            if steps >= 2.0 && is_part && step(steps) >= MIN_STEP * search.tolerance {
                let chance = chance(times, comb, search, step(steps));
                lattices.plausible = lattices.plausible.max(chance);
            }
        }
        if comb.teeth >= MIN_TEETH {
            let coarse = (2_u32..).map(|parts| step(f64::from(parts)));
            for step in coarse.take_while(|&step| step > second * (1.0 + ABOUT)) {
                lattices.coarse = lattices.coarse.max(chance(times, comb, search, step));
            }
        }
        lattices
    }

    /// Returns the logarithm (base 10) of the largest probability for a lattice that the kernel may
    /// round timers to.
    pub(super) fn log_p_if_plausible(&self) -> f64 {
        self.plausible
    }

    /// Returns whether another lattice explains the comb.
    pub(super) fn explain(&self) -> bool {
        self.is_thin_second || self.coarse > MAX_CHANCE.log10()
    }
}

/// Returns whether the period divides a second and events at random whole parts of it
/// would hit the same number of teeth.
fn is_thin_second(comb: &Comb, search: &CombSearch, second: f64) -> bool {
    let parts = (second / comb.period).round();
    let off = (parts * comb.period - second).abs();
    let is_part = parts >= 1.0 && off <= 2.0 * search.tolerance * parts;
    is_part && (comb.hits as f64) < MIN_FILL_OF_SECOND * comb.teeth as f64
}

/// Returns the logarithm (base 10) of the probability that any comb on the lattice of
/// this `step` has at least the hits of `comb`, if the events are on random teeth.
fn chance(times: &[f64], comb: &Comb, search: &CombSearch, step: f64) -> f64 {
    let number = |time: f64| ((time - comb.phase) / step).round();
    let first = ((-comb.phase - search.tolerance) / step).ceil();
    let last = ((search.exposure - comb.phase + search.tolerance) / step).floor();
    let mut before = f64::NAN;
    let mut occupied = 0_u64;
    for &time in times {
        let tooth = number(time);
        if (time - comb.phase - tooth * step).abs() <= search.tolerance && tooth != before {
            occupied += 1;
            before = tooth;
        }
    }
    let teeth = crate::sample::index(last - first + 1.0) as u64;
    let teeth = teeth.max(comb.teeth as u64).max(occupied);
    // Periods of 2, 3, ... steps that have three teeth, each at every phase.
    let longest = (teeth / 3) as f64;
    let combs = (longest * (longest + 1.0) / 2.0 - 1.0).max(1.0);
    let hits = comb.hits as u64;
    log_tail(teeth, occupied.max(hits), comb.teeth as u64, hits) + combs.log10()
}

/// Returns the logarithm (base 10) of the probability of at least `hits` special items
/// among `drawn` of `total`. `special` of them are special (hypergeometric).
fn log_tail(total: u64, special: u64, drawn: u64, hits: u64) -> f64 {
    let most = drawn.min(special);
    if hits > most {
        return f64::NEG_INFINITY;
    }
    let ln = |hits: u64| {
        let rest = drawn - hits;
        if rest > total - special {
            return f64::NEG_INFINITY;
        }
        ln_binomial(special, hits) + ln_binomial(total - special, rest) - ln_binomial(total, drawn)
    };
    let terms: Vec<f64> = (hits..=most).map(ln).collect();
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let sum: f64 = terms.iter().map(|term| (term - largest).exp()).sum();
    ((largest + sum.ln()) / std::f64::consts::LN_10).min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_is_hypergeometric() {
        // 6 of 12 teeth hit, and all 6 on one of two combs: 1 / C(12, 6).
        assert!((log_tail(12, 6, 6, 6) + 924_f64.log10()).abs() < 1e-9);
        assert!(log_tail(60, 30, 12, 0).abs() < 1e-9);
        // Sum computed with Python's `math.comb`.
        let tail = 10_f64.powf(log_tail(60, 20, 12, 5));
        assert!((tail - 0.358_847_869).abs() < 1e-8, "{tail}");
    }
}
