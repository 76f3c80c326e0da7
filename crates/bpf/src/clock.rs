//! Offset of this process's `CLOCK_MONOTONIC` from the kernel's.
//!
//! In a time namespace (`unshare --time`, a restored container) the clocks of user space are
//! shifted. The clocks of BPF programs and kernel timers are not. To compare the two, convert to
//! the kernel's time.

use std::fs;
use std::sync::OnceLock;

static AHEAD_NS: OnceLock<i64> = OnceLock::new();

/// Returns the offset in ns; 0 outside a time namespace. The first call reads a file.
pub fn ahead_ns() -> i64 {
    *AHEAD_NS.get_or_init(|| {
        let link = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
        // The file describes the namespace of future children.
        if link("time") != link("time_for_children") {
            return 0;
        }
        fs::read_to_string("/proc/self/timens_offsets")
            .ok()
            .and_then(|text| monotonic(&text))
            .unwrap_or(0)
    })
}

/// Converts a time of this process's clock to the kernel's time.
pub fn of_kernel(own_ns: u64) -> u64 {
    own_ns.wrapping_add_signed(ahead_ns().wrapping_neg())
}

/// Converts the kernel's time to a time of this process's clock.
pub fn of_process(kernel_ns: u64) -> u64 {
    kernel_ns.wrapping_add_signed(ahead_ns())
}

/// Parses the line `monotonic SECONDS NS` of `/proc/PID/timens_offsets`, in ns.
fn monotonic(text: &str) -> Option<i64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_that_of_the_monotonic_clock_in_ns() {
        for (text, shift) in [
            (
                "monotonic           5000         7\nboottime            9 0\n",
                Some(5_000_000_000_007),
            ),
            ("monotonic  -3  500000000\n", Some(-2_500_000_000)),
            ("boottime  5 0\n", None),
            ("monotonic  x 0\n", None),
            ("", None),
        ] {
            assert_eq!(monotonic(text), shift, "for {text:?}");
        }
    }

    #[test]
    fn conversion_and_back_gives_the_same_time() {
        assert_eq!(of_process(of_kernel(1_234_567)), 1_234_567);
    }
}
