//! Recordings that are made for the comparison, in random order.

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

/// Name of the answer in the directory of the recordings.
const RESULT: &str = "compare.json";

/// Makes recordings, compares them, and passes the answer to `tell`.
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
                earlier: made.earlier.clone(),
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
    // Last, because the directory then belongs to the calling user, who could redirect what
    // root writes there.
    let given = measuring::hand_over(Some(&trial.folder));
    let report = report?;
    tell(&report)?;
    // The answer is valid even if it could not be written, and is shown first.
    kept.and(given)
}

/// Returns a random seed that is short enough to type.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id()) % 1_000_000
}

/// Writes the answer to the directory of the recordings, and prints how to compare again.
fn keep(report: &CompareReport, folder: &Folder, load_may_differ: bool) -> anyhow::Result<()> {
    let dir = folder.path().display();
    put_answer(folder, RESULT, pipe::json(report)?.as_bytes())
        .context("cannot write the answer")?;
    let factor = if load_may_differ {
        " --factor load"
    } else {
        ""
    };
    pipe::say(&format!(
        "to compare the recordings again: laggard compare {dir}/a* --with {dir}/b*{factor}"
    ));
    if report
        .looks
        .as_ref()
        .is_some_and(|looks| looks.after.len() > 1)
    {
        pipe::say("that command evaluates once, with 95 % confidence");
    }
    Ok(())
}
