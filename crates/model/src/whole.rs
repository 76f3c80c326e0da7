//! Conversion of floating-point numbers to integers.

/// Returns the integer part of `value`: zero for negative values and NaN, and the
/// maximum beyond the range. The only place for this cast.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` does exactly this"
)]
pub const fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_value_becomes_zero_and_too_large_value_the_maximum() {
        for (value, count) in [
            (2.9, 2),
            (0.0, 0),
            (-1.5, 0),
            (f64::NAN, 0),
            (1e30, u64::MAX),
            (f64::INFINITY, u64::MAX),
        ] {
            assert_eq!(whole(value), count, "for {value}");
        }
    }
}
