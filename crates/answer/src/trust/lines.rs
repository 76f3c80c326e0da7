//! Comparison of each line with its plan: a total would hide the losses of a single line.

use laggard_analyze::distribution::Lost;
use laggard_model::{LineId, Service};

use super::{Case, Distrust, FEWEST, LOST_IN, LinePart};

/// Number of losses that every line may have, however short it is. 3.7 are expected beyond the
/// highest quantile that a sample supports.
const FEW: u64 = 3;
/// A line with less than one in this number of the wakeups of the fullest line of its service is
/// not comparable with it.
const OF_SIBLINGS: u64 = 2;

/// Lines that lost too much of their plan.
pub(super) fn reasons(case: &Case<'_>) -> Vec<Distrust> {
    let lost = Lost::new(case.counts, case.losses);
    let mut lossy = Vec::new();
    let mut sparse = Vec::new();
    for (number, (line, sum)) in (0..).zip(case.lines.iter().zip(case.sums)) {
        let counted = sum.served + sum.missed;
        let lost = lost.of_line(LineId(number));
        if lost > FEW && lost.saturating_mul(LOST_IN) > counted + lost {
            lossy.push(LinePart {
                line: *line,
                count: lost,
                of: counted + lost,
            });
            continue;
        }
        // Devices and threads run on the CPUs that they are assigned to, so that lines may be
        // sparse.
        if matches!(line.service, Service::Traced(_) | Service::Task(_)) {
            continue;
        }
        let count = case.counts.get(usize::from(number));
        if count.is_some_and(|count| count.planned.is_some()) {
            continue;
        }
        let fullest = fullest(case, line);
        if fullest >= FEWEST && counted.saturating_mul(OF_SIBLINGS) < fullest {
            sparse.push(LinePart {
                line: *line,
                count: counted,
                of: fullest,
            });
        }
    }
    let share = |line_part: &LinePart| line_part.count as f64 / line_part.of as f64;
    lossy.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let mut reasons = Vec::new();
    if !lossy.is_empty() {
        reasons.push(Distrust::LossyLines {
            lines: lossy,
            remedy: super::against(case),
        });
    }
    if !sparse.is_empty() {
        reasons.push(Distrust::SparseLines { lines: sparse });
    }
    reasons
}

/// Returns the number of wakeups of the fullest line with the same service and route.
fn fullest(case: &Case<'_>, line: &laggard_model::Line) -> u64 {
    case.lines
        .iter()
        .zip(case.sums)
        .filter(|(other, _)| (other.service, other.route) == (line.service, line.route))
        .map(|(_, sum)| sum.served + sum.missed)
        .max()
        .unwrap_or_default()
}
