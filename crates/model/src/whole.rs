//! From a number with a fraction to a whole one.

/// The whole part of `value`: none of what is below zero or not a number, and
/// the end of the range of what is beyond it. The one place for this cast.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` does just what is said above"
)]
pub const fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_count_is_none_and_what_is_too_much_is_the_most() {
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
