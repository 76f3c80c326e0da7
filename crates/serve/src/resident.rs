//! How much memory this process has.

use nix::unistd::{SysconfVar, sysconf};

/// Resident size now, bytes. `None` where the system does not tell.
pub(crate) fn bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    pages_in(&text)?.checked_mul(page)
}

/// Resident pages in the text of `/proc/self/statm`.
fn pages_in(text: &str) -> Option<i64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_what_is_resident() {
        assert_eq!(pages_in("5000 1234 700 1 0 400 0\n"), Some(1234));
        assert_eq!(pages_in(""), None);
        assert!(bytes().unwrap() > 1 << 20);
    }
}
