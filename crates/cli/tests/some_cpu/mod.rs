//! A CPU on which this thread may run.

use std::fs;

/// On which CPU this thread may run, the last of them.
pub(crate) fn some_cpu() -> u32 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let last = list.trim().rsplit([',', '-']).next().unwrap();
    last.parse().unwrap()
}
