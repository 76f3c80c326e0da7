//! Sizes on disk.

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

/// Parses a limit in bytes, written with a unit.
///
/// # Errors
///
/// Returns an error for a size without a unit, or one too small for a recording.
pub fn size_limit(text: &str) -> Result<u64, String> {
    let bytes = UNITS.iter().find_map(|(unit, bytes)| {
        let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        number.checked_mul(*bytes)
    });
    bytes.filter(|&bytes| bytes >= MIN_BYTES).ok_or_else(|| {
        format!("`{text}` is not a size of at least 1MiB; write it as 500MB or 1GiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_needs_a_unit_and_room_for_a_recording() {
        assert_eq!(size_limit("1GiB"), Ok(1 << 30));
        assert_eq!(size_limit("500 MB"), Ok(500_000_000));
        for wrong in ["", "5", "1KiB", "-1GiB", "GiB", "99999999999999GiB", "1TB"] {
            assert!(size_limit(wrong).is_err(), "{wrong}");
        }
    }
}
