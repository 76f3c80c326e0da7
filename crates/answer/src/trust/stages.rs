//! Stages that were not seen: what they took is counted to the next one.

use laggard_model::{Caveat, CaveatKind, LossReason, Stage};

use super::{Case, FEWEST, named, place};

/// From this share of the served activations on, 0 to 1, a stage that was not
/// seen in them is named.
const NAMED_FROM: f64 = 0.05;
/// From this share on the parts of the way are not those of this machine.
const TOO_MANY: f64 = 0.25;

/// What speaks against the stages.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    pub(super) reasons: Vec<String>,
    pub(super) caveats: Vec<Caveat>,
}

/// Stages that the collector counts as losses where they are absent.
const COUNTED: [(Stage, LossReason); 3] = [
    (Stage::Irq, LossReason::IrqShared),
    (Stage::Expire, LossReason::ExpireUnseen),
    (Stage::Waking, LossReason::WakingUnseen),
];

/// One stage at a time: by line where another line of the same service has it,
/// else by the losses of its reason.
pub(super) fn judge(case: &Case<'_>) -> Unseen {
    let mut unseen = Unseen::default();
    for (stage, reason) in COUNTED {
        let mut found = by_line(case, stage);
        if found.is_empty() {
            found.extend(in_all(case, reason));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some(&(most, _)) = found.first() else {
            continue;
        };
        let limit = if most > TOO_MANY {
            TOO_MANY
        } else {
            NAMED_FROM
        };
        let words: Vec<String> = found
            .into_iter()
            .filter(|(share, _)| *share > limit)
            .map(|(_, words)| words)
            .collect();
        let what = format!(
            "the stage `{stage}` was not seen in {}: what it took is counted to the stage after it",
            named(&words)
        );
        let advice = "take the latencies, not their parts, and see `laggard doctor`";
        if most > TOO_MANY {
            unseen.reasons.push(format!("{what}; {advice}"));
        } else {
            unseen
                .caveats
                .push(Caveat::new(CaveatKind::StageUnseen, what, advice));
        }
    }
    unseen
}

fn by_line(case: &Case<'_>, stage: Stage) -> Vec<(f64, String)> {
    let has = |line: &laggard_model::Line| {
        case.lines
            .iter()
            .zip(case.sums)
            .filter(|(other, _)| (other.service, other.route) == (line.service, line.route))
            .any(|(_, sum)| sum.stages[stage.index()] > 0)
    };
    case.lines
        .iter()
        .zip(case.sums)
        .filter(|(line, sum)| sum.served >= FEWEST && has(line))
        .filter_map(|(line, sum)| {
            // An interrupt elsewhere was seen, on the CPU that had the timer.
            let mut seen = sum.stages[stage.index()];
            if stage == Stage::Irq {
                seen += sum.stages[Stage::IrqElsewhere.index()];
            }
            let unseen = sum.served.saturating_sub(seen);
            let share = unseen as f64 / sum.served as f64;
            let words = format!("{} ({unseen} of {})", place(line), sum.served);
            (share > NAMED_FROM).then_some((share, words))
        })
        .collect()
}

/// Where no line has the stage, so that only the losses tell that one should.
fn in_all(case: &Case<'_>, reason: LossReason) -> Option<(f64, String)> {
    let (_, unseen) = case.losses.iter().find(|(one, _)| *one == reason)?;
    let served: u64 = case.sums.iter().map(|sum| sum.served).sum();
    let share = unseen as f64 / served.max(1) as f64;
    (served >= FEWEST && share > NAMED_FROM)
        .then(|| (share, format!("{unseen} of {served} activations")))
}
