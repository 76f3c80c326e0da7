//! Clock of all time stamps: the performance counter, which all CPUs share.

use std::sync::OnceLock;

use laggard_model::Nanos;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

const NANOS: u64 = 1_000_000_000;

/// Returns the time since boot.
pub fn now() -> Nanos {
    let mut count = 0;
    // SAFETY: `count` is valid for writes. The call cannot fail since Windows XP.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    at(count.cast_unsigned())
}

/// Returns the time of a value of the performance counter.
pub(super) fn at(count: u64) -> Nanos {
    of_count(count, frequency())
}

/// Returns the frequency of the counter in Hz, which is constant until a reboot.
pub(super) fn frequency() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: `frequency` is valid for writes. The call cannot fail, as above.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        frequency.cast_unsigned().max(1)
    })
}

/// Computed in two parts, so that no count overflows.
const fn of_count(count: u64, frequency: u64) -> Nanos {
    let (seconds, rest) = (count / frequency, count % frequency);
    Nanos::from_ns(seconds * NANOS + rest * NANOS / frequency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_years_is_exact() {
        let year = 365 * 24 * 3_600;

        let of_10_mhz = of_count(year * 10_000_000 + 1, 10_000_000);
        let of_3_ghz = of_count(year * 3_000_000_000 + 3, 3_000_000_000);

        assert_eq!(of_10_mhz.ns(), year * NANOS + 100);
        assert_eq!(of_3_ghz.ns(), year * NANOS + 1);
    }
}
