//! Roots by bisection: slow, but reliable.

/// Number of halvings that exhausts the 53 bits of a double, with a reserve for a root
/// much smaller than the bracket.
const HALVINGS: usize = 200;

/// Returns the point between `low` and `high` where `f` changes sign, to the last bit.
///
/// `f(low)` and `f(high)` must differ in sign. Otherwise the result is the end where `f` is nearest
/// to a change, as a confidence limit at the edge of its range requires.
pub(crate) fn root_between(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let negative_below = f(low) < 0.0;
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if (f(middle) < 0.0) == negative_below {
            low = middle;
        } else {
            high = middle;
        }
    }
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_to_the_last_bits() {
        assert!((root_between(|x| x * x - 2.0, 0.0, 2.0) - 2_f64.sqrt()).abs() < 1e-15);
        assert!((root_between(|x| 2.0 - x * x, 0.0, 2.0) - 2_f64.sqrt()).abs() < 1e-15);
    }
}
