//! `laggard compare`: whether wakeups are late more often after a change. The recordings
//! exist, or are made here with and without the change, in random order.

#[cfg_attr(not(target_os = "linux"), path = "not_made.rs")]
mod made;

#[cfg(target_os = "linux")]
pub(crate) use made::setting::Setting;

use laggard_answer::compare::{
    CompareReport, Question, SeriesQuestion, compare as answer, compare_series,
};
use laggard_answer::qos::{CONFIDENCE, by_name};
use laggard_model::printable;
use laggard_view::compare as view;
use laggard_view::doc::Detail;

use crate::args::{CompareArgs, FactorArg};
use crate::exit::Exit;
use crate::pipe::Format;
use crate::{ask, pipe};

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<Exit> {
    compare_and(args, |_| ())
}

/// Runs `laggard compare`. `then` gets the answer if the recordings were made for it.
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
            "--factor sysctl makes its own recordings; remove the recordings or --factor"
        );
    }
    let is_made = is_setting || !args.run.is_empty() || !args.before.is_empty();
    if !is_made && args.recordings.is_empty() {
        anyhow::bail!(
            "--factor load needs recordings; name the recordings of A, then --with and the recordings of B"
        );
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

/// Finds changes in a series of recordings.
fn series(args: &CompareArgs) -> anyhow::Result<Exit> {
    anyhow::ensure!(args.at.len() < 2, "--over takes one level; give --at once");
    let report = compare_series(&SeriesQuestion {
        recordings: args.over.clone(),
        is_in_order: args.in_order,
        level: args.at.first().copied(),
        service: args.service,
        threads: ask::threads(),
    })?;
    let detail = Detail::new(args.all);
    pipe::print_answer(format(args), &report, || view::series(&report, detail))?;
    Ok(Exit::Ok)
}

fn show(args: &CompareArgs, report: &CompareReport) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        laggard_files::write(path, "report", view::page(report)?.as_bytes())?;
        let name = path.display().to_string();
        let message = format!("Wrote {}; open it in a browser\n", printable(&name));
        return pipe::print(&message);
    }
    let detail = Detail::new(args.all);
    pipe::print_answer(format(args), report, || view::document(report, detail))
}

const fn format(args: &CompareArgs) -> Format {
    Format {
        json: args.json,
        markdown: args.markdown,
    }
}
