//! `laggard compare`: whether recordings after a change are late more often.
//! The recordings are there, or are made here, in turn, with and without it.

#[cfg_attr(not(target_os = "linux"), path = "not_made.rs")]
mod made;

#[cfg(target_os = "linux")]
pub(crate) use made::setting::Setting;

use laggard_answer::compare::{
    CompareReport, Question, SeriesQuestion, compare as answer, compare_series,
};
use laggard_answer::qos::{CONFIDENCE, by_name};
use laggard_model::printable;
use laggard_model::text::Unit;
use laggard_view::{comparison, comparison_page, text};

use crate::args::{CompareArgs, FactorArg};
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

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
        seed: None,
        changed: None,
        load_may_differ: !args.run.is_empty() || args.factor == Some(FactorArg::Load),
    };
    if is_made {
        // A closed standard output would lose the result.
        pipe::stdout()?;
        made::make(args, &question, |report| {
            show(args, report)?;
            then(report);
            Ok(())
        })?;
        return Ok(Exit::Ok);
    }
    show(args, &answer(&question)?)?;
    Ok(Exit::Ok)
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
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::series(&report, args.all, terminal::look(Unit::Auto))
    })?;
    Ok(Exit::Ok)
}

fn show(args: &CompareArgs, report: &CompareReport) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        laggard_files::write(path, "page", comparison_page(report)?.as_bytes())?;
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
