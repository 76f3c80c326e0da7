//! A CPU that this thread may use.

use std::fs;

/// Returns the last CPU that this thread may use.
pub(crate) fn some_cpu() -> u32 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let last = list.trim().rsplit([',', '-']).next().unwrap();
    last.parse().unwrap()
}
