//! Endings, limits and memory on Windows: as of every program there.

/// Nothing: none of it is inherited.
pub(crate) const fn become_normal() {}

/// As much as the program's file asks for.
pub(crate) const fn first_stack() -> u64 {
    u64::MAX
}

/// Always: there are no limits on addresses.
///
/// # Errors
/// Never.
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(crate) const fn has_room() -> anyhow::Result<()> {
    Ok(())
}

/// Never.
pub(crate) const fn is_of_memory(_: &anyhow::Error) -> bool {
    false
}

/// Never.
pub(crate) const fn ran_out() -> Option<String> {
    None
}

/// Never.
pub(crate) const fn is_short() -> Option<String> {
    None
}

/// Nothing: there are no limits on files.
pub(crate) const fn survive_file_limit() {}

/// Nothing is measured, so no machine falls short.
pub(crate) const fn is_unmet(_: &anyhow::Error) -> bool {
    false
}

/// Nothing: Ctrl-C and a closed window end the program at once. What it leaves half
/// made has another name than what it was to be, and the next run removes it.
///
/// # Errors
/// Never.
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(crate) fn at_ending<T>(_last: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<()> {
    Ok(())
}
