//! Locked pages stay in memory: what became of a locked mapping and of one that is
//! not, while their process was short of memory.

use laggard_model::text::{bytes, count};
use laggard_model::{MappingSeen, PagesSeen, RtosCriterion};
use schemars::JsonSchema;
use serde::Serialize;

use super::{RtosRow, RtosVerdict};

/// What was seen of locked pages.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct LockedFigures {
    /// The mapping that was locked with `mlock`.
    pub locked: MappingFigures,
    /// One beside it that was not.
    pub plain: MappingFigures,
    /// The memory that their process might have, bytes.
    pub limit_bytes: u64,
    /// What set that limit: `memory.high`, or `memory.limit_in_bytes`.
    pub limit: String,
    /// What it read of a file meanwhile, bytes.
    pub read_bytes: u64,
}

/// Pages of a file that are mapped.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct MappingFigures {
    /// How many.
    pub pages: u64,
    /// How many were in memory before there was pressure, as `mincore` tells.
    pub resident_before: u64,
    /// How many were after it.
    pub resident_after: u64,
    /// Reading each of them then: page faults for which a page had to be brought in.
    pub major_faults: u64,
    /// The same for which none had.
    pub minor_faults: u64,
}

pub(super) fn figures(seen: &PagesSeen) -> LockedFigures {
    let of = |mapping: &MappingSeen| MappingFigures {
        pages: mapping.pages,
        resident_before: mapping.before,
        resident_after: mapping.after,
        major_faults: mapping.major_faults,
        minor_faults: mapping.minor_faults,
    };
    LockedFigures {
        locked: of(&seen.locked),
        plain: of(&seen.plain),
        limit_bytes: seen.limit_bytes,
        limit: seen.limit.clone(),
        read_bytes: seen.read_bytes,
    }
}

pub(super) fn row(figures: &LockedFigures) -> RtosRow {
    let (verdict, because) = judged(figures);
    RtosRow {
        criterion: RtosCriterion::Locked,
        verdict,
        because,
        absence: None,
    }
}

fn judged(figures: &LockedFigures) -> (RtosVerdict, String) {
    let (locked, plain) = (&figures.locked, &figures.plain);
    let pages = count(locked.pages);
    let pressure = format!(
        "with {} ({}), while {} were read",
        bytes(figures.limit_bytes),
        figures.limit,
        bytes(figures.read_bytes)
    );
    // Never more than there are: a fault that came of something else is none of theirs.
    let lost = (locked.pages - locked.resident_after.min(locked.pages))
        .max(locked.major_faults.min(locked.pages));
    if locked.resident_before >= locked.pages && lost > 0 {
        let because = format!(
            "of {pages} pages that were locked {} were not in memory any more, or had to be brought in again, {pressure}",
            count(lost)
        );
        return (RtosVerdict::Fail, because);
    }
    let gone = plain.resident_before.saturating_sub(plain.resident_after);
    if locked.resident_before < locked.pages {
        let because = format!(
            "of {pages} pages, {} were there after they had been locked",
            count(locked.resident_before)
        );
        return (RtosVerdict::CannotBeTold, because);
    }
    if gone == 0 {
        let because = format!(
            "the pressure moved nothing out of memory, not even pages that were not locked, {pressure}"
        );
        return (RtosVerdict::CannotBeTold, because);
    }
    let because = format!(
        "{pages} pages of a file that were locked stayed in memory, and {} of {} that were not went, {pressure}",
        count(gone),
        count(plain.pages)
    );
    (RtosVerdict::Pass, because)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(locked: (u64, u64, u64), plain_after: u64) -> PagesSeen {
        let (before, after, major_faults) = locked;
        let mapping = |before, after, major_faults| MappingSeen {
            pages: 1_024,
            before,
            after,
            major_faults,
            minor_faults: 7,
        };
        PagesSeen {
            locked: mapping(before, after, major_faults),
            plain: mapping(1_024, plain_after, 1_024 - plain_after),
            limit_bytes: 16 << 20,
            limit: "memory.high".into(),
            read_bytes: 640 << 20,
        }
    }

    fn verdict(seen: &PagesSeen) -> (RtosVerdict, String) {
        judged(&figures(seen))
    }

    #[test]
    fn pages_that_stay_where_others_go_pass() {
        let (told, because) = verdict(&seen((1_024, 1_024, 0), 24));

        assert_eq!(told, RtosVerdict::Pass);
        assert_eq!(
            because,
            "1,024 pages of a file that were locked stayed in memory, and 1,000 of 1,024 that were not went, with 16 MiB (memory.high), while 640 MiB were read"
        );
    }

    #[test]
    fn one_that_goes_or_is_brought_in_again_fails() {
        for locked in [(1_024, 1_023, 0), (1_024, 1_024, 1)] {
            let (told, because) = verdict(&seen(locked, 0));

            assert_eq!(told, RtosVerdict::Fail, "{locked:?}");
            assert!(
                because
                    .starts_with("of 1,024 pages that were locked 1 were not in memory any more"),
                "{because}"
            );
        }
    }

    #[test]
    fn pressure_that_moves_nothing_tells_nothing() {
        let (told, because) = verdict(&seen((1_024, 1_024, 0), 1_024));

        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert!(
            because.starts_with("the pressure moved nothing"),
            "{because}"
        );
        // Nor do pages that were not there to begin with.
        assert_eq!(
            verdict(&seen((1_000, 1_000, 24), 0)).0,
            RtosVerdict::CannotBeTold
        );
    }
}
