//! Recordings that are made for the answer, in turn.

pub(crate) mod setting;
mod sides;
mod trial;

use anyhow::Context as _;
use laggard_analyze::compare::{RecordingOrder, RoundLooks};
use laggard_answer::compare::{
    CompareReport, LEAST_RECORDINGS, Question, TrialLook, compare as answer,
};
use laggard_record::{Folder, put_answer};

use crate::args::CompareArgs;
use crate::{measuring, pipe};
use trial::{Schedule, SidesMade};

/// The answer's name in the folder of the recordings that were made for it.
const RESULT: &str = "compare.json";

/// Answers from recordings that are made for it, as far as it takes; `tell` tells
/// the answer.
pub(super) fn make(
    args: &CompareArgs,
    question: &Question,
    tell: impl FnOnce(&CompareReport) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let looks = if args.all_rounds {
        RoundLooks::once(args.rounds)
    } else {
        RoundLooks::planned(args.rounds, LEAST_RECORDINGS)
    };
    let seed = args.seed.unwrap_or_else(random_seed);
    let order = RecordingOrder::from_seed(args.rounds, seed);
    let look = |made: &SidesMade, number: usize| {
        answer(&Question {
            seed: Some(seed),
            first: made.first.clone(),
            second: made.second.clone(),
            changed: Some(made.changed.clone()),
            look: Some(TrialLook {
                looks: looks.clone(),
                number,
                earlier: made.told.clone(),
            }),
            ..question.clone()
        })
    };
    let turns = Schedule {
        looks: &looks,
        order: &order,
        seed,
    };
    let trial = trial::record(args, &turns, &look)?;
    let report = match trial.decided {
        Some(report) => Ok(report),
        None => look(&trial.made, looks.after().len()),
    };
    let keep = |report| keep(report, &trial.folder, question.load_may_differ);
    let kept = report.as_ref().map_or(Ok(()), keep);
    // Last: then the folder is theirs, and what root wrote there could be
    // led elsewhere.
    let given = measuring::hand_over(Some(&trial.folder));
    let report = report?;
    tell(&report)?;
    // The answer is good all the same: it is shown first.
    kept.and(given)
}

/// A seed that differs from one comparison to the next, short enough to type.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id()) % 1_000_000
}

/// Leaves the answer beside the recordings, and says how to ask them again.
fn keep(report: &CompareReport, folder: &Folder, load_may_differ: bool) -> anyhow::Result<()> {
    let dir = folder.path().display();
    put_answer(folder, RESULT, pipe::json(report)?.as_bytes()).context("write the answer")?;
    let factor = if load_may_differ {
        " --factor load"
    } else {
        ""
    };
    pipe::say(&format!(
        "the recordings stay: laggard compare {dir}/a* --with {dir}/b*{factor}"
    ));
    if report.looks.as_ref().is_some_and(|one| one.after.len() > 1) {
        pipe::say("that compares them as if this had been the only look, at 95 %");
    }
    Ok(())
}
