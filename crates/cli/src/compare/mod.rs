//! `laggard compare`: whether recordings after a change are late more often.
//! The recordings are there, or are made here, in turn, with and without it.

mod put_back;
mod setting;
mod sides;
mod trial;

use anyhow::Context as _;
use laggard_answer::compare::{
    CompareReport, Question, SeriesQuestion, compare as answer, compare_series,
};
use laggard_answer::qos::{CONFIDENCE, by_name};
use laggard_model::printable;
use laggard_model::text::Unit;
use laggard_view::{comparison, comparison_page, text};

use crate::args::{CompareArgs, FactorArg};
use crate::exit::Exit;
use crate::{ask, file, measuring, pipe, terminal};
use trial::Trial;

/// The answer's name in the folder of the recordings that were made for it.
const RESULT: &str = "compare.json";

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<Exit> {
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
    let trial = is_made.then(|| trial::record(args)).transpose()?;
    let of_trial = |of: fn(&Trial) -> &Vec<_>, else_given: &Vec<_>| {
        trial.as_ref().map_or(else_given, of).clone()
    };
    let question = Question {
        first: of_trial(|trial| &trial.first, &args.recordings),
        second: of_trial(|trial| &trial.second, &args.with),
        application,
        levels: args.at.clone(),
        service: args.service,
        equal: args.equal,
        threads: ask::threads(),
        confidence: CONFIDENCE,
        changed: trial.as_ref().map(|trial| trial.changed.clone()),
        load_may_differ: !args.run.is_empty() || args.factor == Some(FactorArg::Load),
    };
    let report = answer(&question);
    let left = trial.as_ref().map_or(Ok(()), |trial| {
        let keep = |report| keep(report, trial, question.load_may_differ);
        let kept = report.as_ref().map_or(Ok(()), keep);
        // Last: then the folder is theirs, and what root wrote there could be
        // led elsewhere.
        let given = measuring::hand_over(Some(&trial.folder));
        kept.and(given)
    });
    show(args, &report?)?;
    // The answer is good all the same: it is shown first.
    left.map(|()| Exit::Ok)
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
        (_, true) => comparison(report),
        _ => text::compare(report, args.all, terminal::look(Unit::Auto)),
    })
}

/// Leaves the answer beside the recordings, and says how to ask them again.
fn keep(report: &CompareReport, trial: &Trial, load_may_differ: bool) -> anyhow::Result<()> {
    let dir = trial.folder.path().display();
    trial
        .folder
        .put_answer(RESULT, pipe::json(report)?.as_bytes())
        .with_context(|| format!("write the answer to `{dir}/{RESULT}`"))?;
    let factor = if load_may_differ {
        " --factor load"
    } else {
        ""
    };
    pipe::say(&format!(
        "the recordings stay: laggard compare {dir}/a* --with {dir}/b*{factor}"
    ));
    Ok(())
}
