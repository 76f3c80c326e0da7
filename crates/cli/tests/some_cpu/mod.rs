//! A CPU on which this thread may run.

use std::fs;

/// Returns the last CPU on which this thread may run.
pub(crate) fn some_cpu() -> u32 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let last = list.trim().rsplit([',', '-']).next().unwrap();
    last.parse().unwrap()
}
