//! `laggard compare`: whether recordings after a change are late more often.

use laggard_answer::compare::{Question, compare as answer};
use laggard_answer::qos::{CONFIDENCE, by_name};
use laggard_view::{comparison, text};

use crate::args::{CompareArgs, FactorArg};
use crate::exit::Exit;
use crate::{ask, pipe};

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<Exit> {
    let question = Question {
        first: args.recordings.clone(),
        second: args.with.clone(),
        application: args.app.as_deref().map(by_name).transpose()?,
        levels: args.at.clone(),
        service: args.service,
        equal: args.equal,
        threads: ask::threads(),
        confidence: CONFIDENCE,
        load_may_differ: args.factor == Some(FactorArg::Load),
    };
    let report = answer(&question)?;
    pipe::print(&match (args.json, args.markdown) {
        (true, _) => pipe::json(&report)?,
        (_, true) => comparison(&report),
        _ => text::compare(&report, args.all),
    })?;
    Ok(Exit::Ok)
}
