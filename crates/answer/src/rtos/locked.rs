//! Criterion `locked`: whether locked pages stay in memory while their process is short of
//! memory and other pages are evicted.

use laggard_model::LockedPages;

use super::RtosReason;

/// Returns the reason for the verdict.
pub(super) fn reason(figures: &LockedPages) -> RtosReason {
    let locked = &figures.locked;
    // Faults with another cause can exceed the number of pages.
    let missing = locked.pages - locked.resident_after.min(locked.pages);
    let pages = missing.max(locked.major_faults.min(locked.pages));
    if locked.resident_before < locked.pages {
        RtosReason::LockIncomplete
    } else if pages > 0 {
        RtosReason::LockedPagesEvicted { pages }
    } else if figures.plain.evicted() == 0 {
        RtosReason::NothingEvicted
    } else {
        RtosReason::LockedPagesStayed
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::MappingPages;

    use super::*;

    /// Resident locked pages before and after, major faults of these; resident plain pages
    /// after.
    fn reason_of((before, after, major_faults): (u64, u64, u64), plain_after: u64) -> RtosReason {
        let mapping = |resident_before, resident_after, major_faults| MappingPages {
            pages: 1_024,
            resident_before,
            resident_after,
            major_faults,
            minor_faults: 7,
        };
        reason(&LockedPages {
            locked: mapping(before, after, major_faults),
            plain: mapping(1_024, plain_after, 1_024 - plain_after),
            limit_bytes: 16 << 20,
            limit: "memory.high".into(),
            read_bytes: 640 << 20,
        })
    }

    #[test]
    fn locked_pages_that_stay_while_others_are_evicted_pass() {
        let reason = reason_of((1_024, 1_024, 0), 24);

        assert_eq!(reason, RtosReason::LockedPagesStayed);
    }

    #[test]
    fn a_locked_page_that_is_evicted_or_read_again_fails() {
        for locked in [(1_024, 1_023, 0), (1_024, 1_024, 1)] {
            let reason = reason_of(locked, 0);

            assert_eq!(reason, RtosReason::LockedPagesEvicted { pages: 1 });
        }
    }

    #[test]
    fn pressure_that_evicts_nothing_is_unknown() {
        let reason = reason_of((1_024, 1_024, 0), 1_024);

        assert_eq!(reason, RtosReason::NothingEvicted);
    }

    #[test]
    fn pages_that_were_absent_after_the_lock_are_unknown() {
        let reason = reason_of((1_000, 1_000, 24), 0);

        assert_eq!(reason, RtosReason::LockIncomplete);
    }
}
