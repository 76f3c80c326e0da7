//! Stages that were not observed. Their time is attributed to the next stage.

use laggard_model::{LossReason, Stage};

use super::{Case, Distrust, FEWEST, LinePart, UnseenIn, UnseenStage};

/// An unobserved stage is reported if it is missing in this share of the completed wakeups or more,
/// 0 to 1.
const NAMED_FROM: f64 = 0.05;
/// With this share or more, the parts of the wakeup path do not represent this machine.
const TOO_MANY: f64 = 0.25;

#[derive(Debug, Default)]
pub(super) struct StageProblems {
    pub(super) reasons: Vec<Distrust>,
    pub(super) doubts: Vec<Distrust>,
}

/// Stages whose absence the collector counts as a loss.
const COUNTED: [(Stage, LossReason); 3] = [
    (Stage::Irq, LossReason::IrqShared),
    (Stage::Expire, LossReason::ExpireUnseen),
    (Stage::Waking, LossReason::WakingUnseen),
];

/// Judges each stage: per line if another line of the same service has it, otherwise by the losses
/// of its reason.
pub(super) fn judge(case: &Case<'_>) -> StageProblems {
    let mut unseen = StageProblems::default();
    for (stage, reason) in COUNTED {
        let lines = by_line(case, stage);
        let overall = || in_all(case, reason);
        let Some((most, places)) = worst(lines).or_else(overall) else {
            continue;
        };
        let stage_unseen = Distrust::StageUnseen(UnseenStage { stage, places });
        if most > TOO_MANY {
            unseen.reasons.push(stage_unseen);
        } else {
            unseen.doubts.push(stage_unseen);
        }
    }
    unseen
}

/// Returns the largest share, and the relevant lines. If some lines lack the stage too frequently,
/// only these.
fn worst(mut lines: Vec<(f64, LinePart)>) -> Option<(f64, UnseenIn)> {
    lines.sort_by(|a, b| b.0.total_cmp(&a.0));
    let most = lines.first()?.0;
    let limit = if most > TOO_MANY {
        TOO_MANY
    } else {
        NAMED_FROM
    };
    let lines = lines.into_iter().filter(|(share, _)| *share > limit);
    let lines = lines.map(|(_, line)| line).collect();
    Some((most, UnseenIn::Lines(lines)))
}

fn by_line(case: &Case<'_>, stage: Stage) -> Vec<(f64, LinePart)> {
    let has = |line: &laggard_model::Line| {
        case.lines
            .iter()
            .zip(case.sums)
            .filter(|(other, _)| (other.service, other.route) == (line.service, line.route))
            .any(|(_, sum)| sum.stages[stage.index()] > 0)
    };
    // A thread that borrows its priority may be runnable already.
    let is_expected =
        |line: &laggard_model::Line| stage != Stage::Waking || line.service.lent().is_none();
    case.lines
        .iter()
        .zip(case.sums)
        .filter(|(line, sum)| sum.served >= FEWEST && has(line) && is_expected(line))
        .filter_map(|(line, sum)| {
            // The timer was queued on another CPU, and the interrupt was observed there.
            let mut observed = sum.stages[stage.index()];
            if stage == Stage::Irq {
                observed += sum.stages[Stage::IrqElsewhere.index()];
            }
            let unseen = sum.served.saturating_sub(observed);
            let share = unseen as f64 / sum.served as f64;
            let part = LinePart {
                line: *line,
                count: unseen,
                of: sum.served,
            };
            (share > NAMED_FROM).then_some((share, part))
        })
        .collect()
}

/// Used if no line has the stage, so that only the losses show that one should.
fn in_all(case: &Case<'_>, reason: LossReason) -> Option<(f64, UnseenIn)> {
    let (_, count) = case.losses.iter().find(|(loss, _)| *loss == reason)?;
    let served: u64 = case.sums.iter().map(|sum| sum.served).sum();
    let share = count as f64 / served.max(1) as f64;
    (served >= FEWEST && share > NAMED_FROM).then_some((share, UnseenIn::All { count, of: served }))
}
