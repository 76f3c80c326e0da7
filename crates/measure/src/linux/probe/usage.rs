//! What this process has used so far.

/// CPU time of all threads of this process so far.
pub(super) fn process_cpu_ns() -> u64 {
    let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) else {
        return 0;
    };
    let ns = |time: nix::sys::time::TimeVal| {
        time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_usec().cast_unsigned() * 1_000
    };
    ns(usage.user_time()) + ns(usage.system_time())
}

/// Largest resident size of this process so far.
pub(super) fn resident_bytes() -> u64 {
    nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
        .map_or(0, |usage| usage.max_rss().cast_unsigned() * 1024)
}
