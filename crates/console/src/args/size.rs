//! Sizes on disk.

/// Limit in bytes, written with a unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SizeLimitArg(pub u64);

/// Longest first, because `MiB` also ends in `B`.
const UNITS: [(&str, u64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Minimum size of a recording in bytes.
const MIN_BYTES: u64 = 1 << 20;

impl std::str::FromStr for SizeLimitArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a size of at least 1MiB; write it as 500MB or 1GiB");
        let read = UNITS.iter().find_map(|(unit, bytes)| {
            let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
            number.checked_mul(*bytes)
        });
        let bytes = read.ok_or_else(wrong)?;
        (bytes >= MIN_BYTES)
            .then_some(Self(bytes))
            .ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_needs_a_unit_and_room_for_a_recording() {
        assert_eq!("1GiB".parse(), Ok(SizeLimitArg(1 << 30)));
        assert_eq!("500 MB".parse(), Ok(SizeLimitArg(500_000_000)));
        for wrong in ["", "5", "1KiB", "-1GiB", "GiB", "99999999999999GiB", "1TB"] {
            assert!(wrong.parse::<SizeLimitArg>().is_err(), "{wrong}");
        }
    }
}
