//! Validation of the inputs of formulas.

/// Input outside the domain of a formula.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A number is outside its range, or not a number.
    #[error("{name} is {value}; it must be {range}")]
    OutOfRange {
        /// Name of the input.
        name: &'static str,
        /// Given value.
        value: f64,
        /// Accepted range.
        range: &'static str,
    },
    /// A sample is too small for the formula.
    #[error("{name} has {len} values; at least {needed} are needed")]
    TooFew {
        /// Name of the input.
        name: &'static str,
        /// Given number.
        len: usize,
        /// Required number.
        needed: usize,
    },
    /// Two related inputs differ in length.
    #[error("{name} has {len} values; it must have {needed}, one for each of {other}")]
    Unpaired {
        /// Name of the input.
        name: &'static str,
        /// Given number.
        len: usize,
        /// Related input.
        other: &'static str,
        /// Its number.
        needed: usize,
    },
    /// Values that must ascend do not.
    #[error("{name} does not ascend at index {index}; sort it first")]
    Unsorted {
        /// Name of the input.
        name: &'static str,
        /// First index whose value is below the previous one.
        index: usize,
    },
}

fn check(
    holds: bool,
    name: &'static str,
    value: f64,
    range: &'static str,
) -> Result<f64, InputError> {
    if holds {
        Ok(value)
    } else {
        Err(InputError::OutOfRange { name, value, range })
    }
}

pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, InputError> {
    let holds = value > 0.0 && value.is_finite();
    check(holds, name, value, "positive and finite")
}

pub(crate) fn not_negative(name: &'static str, value: f64) -> Result<f64, InputError> {
    let holds = value >= 0.0 && value.is_finite();
    check(holds, name, value, "zero or positive, and finite")
}

/// Checks that a value is above `low` and below `high`, limits excluded.
pub(crate) fn between(
    name: &'static str,
    value: f64,
    (low, high): (f64, f64),
    range: &'static str,
) -> Result<f64, InputError> {
    check(low < value && value < high, name, value, range)
}

/// Checks that a value is a probability other than 0 and 1.
pub(crate) fn probability(name: &'static str, value: f64) -> Result<f64, InputError> {
    between(name, value, (0.0, 1.0), "above 0 and below 1")
}

pub(crate) fn at_least<T>(
    name: &'static str,
    values: &[T],
    needed: usize,
) -> Result<(), InputError> {
    if values.len() < needed {
        let len = values.len();
        return Err(InputError::TooFew { name, len, needed });
    }
    Ok(())
}

pub(crate) fn paired<A, B>(
    name: &'static str,
    values: &[A],
    other: &'static str,
    others: &[B],
) -> Result<(), InputError> {
    if values.len() != others.len() {
        return Err(InputError::Unpaired {
            name,
            len: values.len(),
            other,
            needed: others.len(),
        });
    }
    Ok(())
}

pub(crate) fn finite(name: &'static str, values: &[f64]) -> Result<(), InputError> {
    match values.iter().find(|value| !value.is_finite()) {
        Some(&value) => check(false, name, value, "finite").map(drop),
        None => Ok(()),
    }
}

pub(crate) fn all_positive(name: &'static str, values: &[f64]) -> Result<(), InputError> {
    values
        .iter()
        .try_for_each(|&value| positive(name, value).map(drop))
}

pub(crate) fn ascending(name: &'static str, values: &[f64]) -> Result<(), InputError> {
    match values.windows(2).position(|pair| pair[1] < pair[0]) {
        Some(before) => Err(InputError::Unsorted {
            name,
            index: before + 1,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_input_its_value_and_the_range() {
        assert_eq!(
            positive("exposure", -1.0).unwrap_err().to_string(),
            "exposure is -1; it must be positive and finite"
        );
        assert_eq!(
            at_least("peaks", &[1.0], 5).unwrap_err().to_string(),
            "peaks has 1 values; at least 5 are needed"
        );
        assert_eq!(
            paired("latencies", &[1.0], "activations", &[1, 2])
                .unwrap_err()
                .to_string(),
            "latencies has 1 values; it must have 2, one for each of activations"
        );
        assert_eq!(
            ascending("times", &[1.0, 3.0, 2.0])
                .unwrap_err()
                .to_string(),
            "times does not ascend at index 2; sort it first"
        );
    }

    #[test]
    fn not_a_number_is_refused_everywhere() {
        assert!(positive("x", f64::NAN).is_err());
        assert!(not_negative("x", f64::NAN).is_err());
        assert!(probability("x", f64::NAN).is_err());
        assert!(finite("x", &[0.0, f64::NAN]).is_err());
        assert!(all_positive("x", &[1.0, f64::INFINITY]).is_err());
    }
}
