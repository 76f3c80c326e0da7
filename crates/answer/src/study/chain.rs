//! Worst cases of the parts of the way from a timer to a thread (OSDI'99 Table 3).

use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Fold, Split};
use laggard_model::{Activation, Batch, Gather, Keep, Line, Nanos, Route, Service, Stage};
use laggard_record::Columns;

use super::plan::{HIGH, MEDIUM};
use super::{MissingReason, Piece, StudyCell, StudyError};
use crate::floors::Floors;
use crate::scan;

/// Part of the way, from an earlier stage or the expiry to a later one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) row: &'static str,
    /// Service whose wakeups are measured.
    service: Service,
    /// Start of the part, and route of the wakeups.
    kind: Kind,
}

/// Start of a part, and route of its wakeups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// From the expiry, via softirq if the service was recorded so.
    Whole,
    /// From the stage before.
    Increment,
    /// From the expiry, without the softirq.
    Direct,
}

/// Rows of Table 3.
pub(super) const PARTS: [Part; 11] = [
    Part::new("expiry_irq", Service::Irq, Kind::Whole),
    Part::new("irq_softirq", Service::Softirq, Kind::Increment),
    Part::new("expiry_softirq", Service::Softirq, Kind::Whole),
    Part::new("softirq_high", HIGH, Kind::Increment),
    Part::new("expiry_high", HIGH, Kind::Whole),
    Part::new("direct_high", HIGH, Kind::Direct),
    Part::new("softirq_medium", MEDIUM, Kind::Increment),
    Part::new("expiry_medium", MEDIUM, Kind::Whole),
    Part::new("direct_medium", MEDIUM, Kind::Direct),
    Part::new("softirq_kworker", Service::Worker, Kind::Increment),
    Part::new("expiry_kworker", Service::Worker, Kind::Whole),
];

/// Maximum of a part in a block of time.
#[derive(Clone, Copy, Debug, Default)]
struct Max {
    /// Maximum of the wakeups with both ends of the part observed. `None` without such a wakeup.
    seen: Option<u64>,
    /// Maximum of the upper limits of the others.
    limit: u64,
    /// Whether one was still waiting when measuring ended.
    is_open: bool,
}

impl Max {
    fn join(self, other: Self) -> Self {
        Self {
            seen: self.seen.max(other.seen),
            limit: self.limit.max(other.limit),
            is_open: self.is_open || other.is_open,
        }
    }

    fn high(self) -> u64 {
        self.seen.unwrap_or_default().max(self.limit)
    }

    /// Returns whether it has no wakeup at all.
    const fn is_empty(self) -> bool {
        self.seen.is_none() && self.limit == 0
    }
}

impl Part {
    const fn new(row: &'static str, service: Service, kind: Kind) -> Self {
        Self { row, service, kind }
    }

    /// Returns whether its wakeups are in `line`. The interrupt is measured on the way to the
    /// softirq and, without one, on the direct way to the thread with the highest priority.
    fn is_in(self, line: Line, lines: &[Line]) -> bool {
        let has = |service, route| {
            let mut lines = lines.iter();
            lines.any(|line| (line.service, line.route) == (service, route))
        };
        let is_irq = self.service == Service::Irq;
        let (service, route) =
            if self.service == Service::Softirq || is_irq && has(Service::Softirq, Route::Direct) {
                (Service::Softirq, Route::Direct)
            } else if is_irq {
                (HIGH, Route::Direct)
            } else {
                let is_deferred = match self.kind {
                    Kind::Whole => has(self.service, Route::Deferred),
                    Kind::Increment => true,
                    Kind::Direct => false,
                };
                let routes = [Route::Direct, Route::Deferred];
                (self.service, routes[usize::from(is_deferred)])
            };
        (line.service, line.route) == (service, route)
    }

    /// Returns the stage that starts the part; the expiry without one.
    fn from(self) -> Option<&'static [Stage]> {
        const IRQ: &[Stage] = &[Stage::Irq, Stage::IrqElsewhere];
        const SOFTIRQ: &[Stage] = &[Stage::Softirq];
        (self.kind == Kind::Increment).then_some(if self.service == Service::Softirq {
            IRQ
        } else {
            SOFTIRQ
        })
    }

    /// Returns the length of the part in one wakeup. If a stage was not seen, the latency of
    /// the whole wakeup limits it.
    fn max(self, wakeup: &Activation) -> Max {
        let until = |stages: &[Stage]| stages.iter().find_map(|&stage| wakeup.until(stage));
        let end = if self.service == Service::Irq {
            until(&[Stage::Irq, Stage::IrqElsewhere])
        } else {
            Some(wakeup.latency())
        };
        let start = match self.from() {
            None => Some(Nanos::ZERO),
            Some(stages) => until(stages),
        };
        match end.zip(start) {
            Some((end, start)) => Max {
                seen: Some(end.saturating_sub(start).ns()),
                limit: 0,
                is_open: wakeup.censored,
            },
            None => {
                // The first seen stage comes after the interrupt.
                let first = wakeup.steps.iter().flatten().next().copied();
                let limit = if self.service == Service::Irq {
                    first.unwrap_or_default()
                } else {
                    wakeup.latency()
                };
                Max {
                    seen: None,
                    limit: limit.ns(),
                    is_open: wakeup.censored,
                }
            }
        }
    }
}

/// Maxima per part and block of a step.
#[derive(Clone, Debug)]
pub(super) struct Maxima {
    block: u64,
    blocks: usize,
    recorded: Nanos,
    /// For each part, its blocks; empty without the service.
    parts: Vec<Vec<Max>>,
}

/// Gathers the maxima of one recording.
#[derive(Clone, Debug)]
struct MaximaCollector {
    start: u64,
    /// Recorded time before this recording, ns.
    before: u64,
    block: u64,
    blocks: usize,
    /// For each line, the parts that it has.
    lines: Vec<Vec<usize>>,
    parts: Vec<Vec<Max>>,
    fold: Fold,
}

impl Gather for MaximaCollector {
    fn batch(&mut self, rows: &Batch) {
        self.fold.add(rows);
        for wakeup in rows.iter() {
            let Some(parts) = self.lines.get(usize::from(wakeup.line.0)) else {
                continue;
            };
            let time = self.before + wakeup.expiry.ns().saturating_sub(self.start);
            let block = usize::try_from(time / self.block).unwrap_or(usize::MAX);
            let block = block.min(self.blocks - 1);
            for &part in parts {
                let max = &mut self.parts[part][block];
                *max = max.join(PARTS[part].max(&wakeup));
            }
        }
    }

    fn join(&mut self, later: Self) {
        self.fold.join(later.fold);
        for (ours, theirs) in self.parts.iter_mut().zip(later.parts) {
            for (max, other) in ours.iter_mut().zip(theirs) {
                *max = max.join(other);
            }
        }
    }
}

impl Maxima {
    /// Reads the recordings of a step. `spans` are seconds.
    pub(super) fn read(
        pieces: &[Piece],
        spans: [u64; 3],
        threads: NonZeroUsize,
    ) -> Result<Self, StudyError> {
        let block = spans.into_iter().fold(0, greatest_common_divisor) * 1_000_000_000;
        let recorded = super::dir::recorded(pieces);
        // The end of the last block may be missing: recordings stop with a wakeup.
        let blocks = (recorded.ns() + block / 20) / block;
        let blocks = usize::try_from(blocks)
            .unwrap_or(usize::MAX)
            .clamp(1, MAX_BLOCKS);
        let mut parts = vec![Vec::new(); PARTS.len()];
        let mut before = 0;
        for piece in pieces {
            let manifest = piece.recording.manifest();
            let own = |line: &Line| {
                let parts = PARTS.iter().enumerate();
                let parts = parts.filter(|(_, part)| part.is_in(*line, &manifest.lines));
                parts.map(|(place, _)| place).collect()
            };
            let lines: Vec<Vec<usize>> = manifest.lines.iter().map(own).collect();
            let new = || {
                let mut parts = vec![Vec::new(); PARTS.len()];
                for &part in lines.iter().flatten() {
                    parts[part] = vec![Max::default(); blocks];
                }
                MaximaCollector {
                    start: manifest.clock.start_ns.ns(),
                    before,
                    block,
                    blocks,
                    lines: lines.clone(),
                    parts,
                    fold: Fold::new(manifest.lines.len(), Split::Whole),
                }
            };
            let mut gathered = scan::scan(&piece.recording, threads, Columns::all(), new).gathered;
            if manifest.plan.keep == Keep::Tail {
                gathered.limit_unkept(&piece.recording);
            }
            for (ours, theirs) in parts.iter_mut().zip(gathered.parts) {
                ours.resize(ours.len().max(theirs.len()), Max::default());
                for (max, other) in ours.iter_mut().zip(theirs) {
                    *max = max.join(other);
                }
            }
            before += piece.length.ns();
        }
        Ok(Self {
            block,
            blocks,
            recorded,
            parts,
        })
    }

    /// Returns the worst case of each span, for the part in `place`: the median of the maxima
    /// of all spans of that length, or a lower limit if less was recorded. A longer span is
    /// never below a shorter one.
    pub(super) fn worst(
        &self,
        place: usize,
        spans: [u64; 3],
        unrecorded: &StudyCell,
    ) -> [StudyCell; 3] {
        let maxima = &self.parts[place];
        let mut least = Max::default();
        spans.map(|secs| {
            if self.recorded == Nanos::ZERO {
                if !matches!(unrecorded, StudyCell::Record { .. }) {
                    return unrecorded.clone();
                }
                let ns = Nanos::from_secs(secs).as_f64();
                return StudyCell::Record { ns };
            }
            if maxima.is_empty() {
                return StudyCell::Missing {
                    reason: MissingReason::NoService,
                };
            }
            let length = usize::try_from(secs * 1_000_000_000 / self.block).unwrap_or(usize::MAX);
            let is_whole = length <= self.blocks && self.has(secs);
            let worst = if is_whole {
                let chunks = maxima[..self.blocks].chunks_exact(length);
                let largest = |chunk: &[Max]| chunk.iter().copied().fold(Max::default(), Max::join);
                median(chunks.map(largest).collect())
            } else {
                maxima.iter().copied().fold(Max::default(), Max::join)
            };
            least = Max {
                seen: worst.seen.max(least.seen),
                limit: worst.limit.max(least.limit),
                is_open: worst.is_open || least.is_open,
            };
            cell(least, is_whole)
        })
    }

    /// Returns whether a span of this length was recorded, but for a twentieth of a block.
    fn has(&self, secs: u64) -> bool {
        self.recorded.ns() + self.block / 20 >= secs * 1_000_000_000
    }
}

/// Maximum number of blocks: a week in seconds.
const MAX_BLOCKS: usize = 604_800;

impl MaximaCollector {
    /// Limits the parts of wakeups that a recording of the tail did not keep. Each of these parts
    /// is at most the latency where the complete tail starts.
    fn limit_unkept(&mut self, recording: &laggard_record::Recording) {
        let lines = &recording.manifest().lines;
        let (counted, _) = scan::stored(recording, &mut Vec::new());
        let floors = Floors::new(lines, &self.fold, &counted);
        for (line, parts) in lines.iter().zip(&self.lines) {
            let Some(floor) = floors.of_line(*line) else {
                continue;
            };
            for &part in parts {
                for max in &mut self.parts[part] {
                    max.limit = max.limit.max(floor.ns());
                }
            }
        }
    }
}

/// Returns the cell of a maximum. Without a wakeup that has the part, the maximum is unknown, or
/// limited from above alone.
fn cell(max: Max, is_whole: bool) -> StudyCell {
    let is_lower_limit = !is_whole || max.is_open;
    let high = max.high() as f64;
    match max.seen.map(|ns| ns as f64) {
        Some(ns) if is_lower_limit => StudyCell::AtLeast { ns },
        Some(ns) if high > ns => StudyCell::Between {
            low_ns: ns,
            high_ns: high,
        },
        Some(ns) => StudyCell::Time { ns },
        None if is_lower_limit || max.is_empty() => StudyCell::Missing {
            reason: MissingReason::NoWakeup,
        },
        None => StudyCell::Between {
            low_ns: 0.0,
            high_ns: high,
        },
    }
}

/// Returns the upper medians of the seen maxima and of their upper limits. Spans without a wakeup
/// do not count.
fn median(mut maxima: Vec<Max>) -> Max {
    maxima.retain(|max| !max.is_empty());
    let middle = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    Max {
        seen: middle(maxima.iter().filter_map(|max| max.seen).collect()),
        limit: middle(maxima.iter().map(|max| max.high()).collect()).unwrap_or_default(),
        is_open: maxima.iter().filter(|max| max.is_open).count() * 2 > maxima.len(),
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of four blocks of 1 s, with the maxima of one part.
    fn maxima(parts: [Max; 4]) -> Maxima {
        Maxima {
            block: 1_000_000_000,
            blocks: 4,
            recorded: Nanos::from_secs(4),
            parts: vec![parts.to_vec()],
        }
    }

    fn seen(ns: u64) -> Max {
        Max {
            seen: Some(ns),
            ..Max::default()
        }
    }

    /// Returns the cells of spans of 1 s, 2 s and 8 s.
    fn cells(parts: [Max; 4]) -> [StudyCell; 3] {
        let unrecorded = StudyCell::Record { ns: 0.0 };
        maxima(parts).worst(0, [1, 2, 8], &unrecorded)
    }

    #[test]
    fn span_without_a_wakeup_is_unknown_and_not_zero() {
        let unknown = StudyCell::Missing {
            reason: MissingReason::NoWakeup,
        };

        assert_eq!(
            cells([Max::default(); 4]),
            [(); 3].map(|()| unknown.clone())
        );
    }

    #[test]
    fn lost_spans_do_not_lower_the_median() {
        let lost = Max::default();

        let cells = cells([lost, lost, lost, seen(7)]);

        assert_eq!(cells[0], StudyCell::Time { ns: 7.0 });
        assert_eq!(cells[2], StudyCell::AtLeast { ns: 7.0 });
    }

    #[test]
    fn wakeup_without_the_stage_limits_the_part_from_above_alone() {
        let limit = Max {
            limit: 9,
            ..Max::default()
        };

        let cells = cells([limit; 4]);

        let limited = StudyCell::Between {
            low_ns: 0.0,
            high_ns: 9.0,
        };
        assert_eq!(cells[0], limited);
    }
}
