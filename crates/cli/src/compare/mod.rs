//! `laggard compare`: whether recordings after a change are late more often.
//! The recordings are there, or are made here, in turn, with and without it.

mod put_back;
mod setting;
mod sides;
mod trial;

use anyhow::Context as _;
use laggard_analyze::compare::RoundLooks;
use laggard_answer::compare::{
    CompareReport, LEAST_RECORDINGS, Question, SeriesQuestion, TrialLook, compare as answer,
    compare_series,
};
use laggard_answer::qos::{CONFIDENCE, by_name};
use laggard_model::printable;
use laggard_model::text::Unit;
use laggard_record::{Folder, put_answer};
use laggard_view::{comparison, comparison_page, text};

use crate::args::{CompareArgs, FactorArg};
use crate::exit::Exit;
use crate::{ask, file, measuring, pipe, terminal};
use trial::SidesMade;

/// The answer's name in the folder of the recordings that were made for it.
const RESULT: &str = "compare.json";

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<Exit> {
    compare_and(args, |_| ())
}

/// The same; `then` gets the answer that was shown, where it is of recordings that
/// were made for it.
pub(crate) fn compare_and(
    args: &CompareArgs,
    then: impl FnOnce(&CompareReport),
) -> anyhow::Result<Exit> {
    if !args.over.is_empty() {
        return series(args);
    }
    let is_setting = matches!(args.factor, Some(FactorArg::Setting { .. }));
    if is_setting && !args.recordings.is_empty() {
        anyhow::bail!(
            "--factor sysctl makes the recordings itself; leave out those that there are, or --factor"
        );
    }
    let is_made = is_setting || !args.run.is_empty() || !args.before.is_empty();
    if !is_made && args.recordings.is_empty() {
        anyhow::bail!("--factor load compares recordings; name those of A, and --with those of B");
    }
    let application = args.app.as_deref().map(by_name).transpose()?;
    let question = Question {
        first: args.recordings.clone(),
        second: args.with.clone(),
        application,
        levels: args.at.clone(),
        service: args.service,
        equal: args.equal,
        threads: ask::threads(),
        confidence: CONFIDENCE,
        look: None,
        changed: None,
        load_may_differ: !args.run.is_empty() || args.factor == Some(FactorArg::Load),
    };
    if is_made {
        return make(args, &question, then);
    }
    show(args, &answer(&question)?)?;
    Ok(Exit::Ok)
}

/// Answers from recordings that are made for it, as far as it takes.
fn make(
    args: &CompareArgs,
    question: &Question,
    then: impl FnOnce(&CompareReport),
) -> anyhow::Result<Exit> {
    let looks = match args.all_rounds {
        true => RoundLooks::once(args.rounds),
        false => RoundLooks::planned(args.rounds, LEAST_RECORDINGS),
    };
    let look = |made: &SidesMade, number: usize| {
        answer(&Question {
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
    let trial = trial::record(args, &looks, &look)?;
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
    show(args, &report)?;
    then(&report);
    // The answer is good all the same: it is shown first.
    kept.and(given).map(|()| Exit::Ok)
}

/// Where a series of recordings changed.
fn series(args: &CompareArgs) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        args.at.len() < 2,
        "a series is looked through for one level; give --at once"
    );
    let report = compare_series(&SeriesQuestion {
        recordings: args.over.clone(),
        is_in_order: args.in_order,
        level: args.at.first().copied(),
        service: args.service,
        threads: ask::threads(),
    })?;
    pipe::print(&match args.json {
        true => pipe::json(&report)?,
        false => text::series(&report, args.all, terminal::look(Unit::Auto)),
    })?;
    Ok(Exit::Ok)
}

fn show(args: &CompareArgs, report: &CompareReport) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        file::write(path, "page", comparison_page(report)?.as_bytes())?;
        let name = path.display().to_string();
        let said = format!("Wrote {}; open it in a browser\n", printable(&name));
        return pipe::print(&said);
    }
    pipe::print(&match (args.json, args.markdown) {
        (true, _) => pipe::json(report)?,
        (_, true) => comparison(report, args.all),
        _ => text::compare(report, args.all, terminal::look(Unit::Auto)),
    })
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
