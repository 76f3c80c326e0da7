//! `laggard qos`: how often an application's buffers run dry.

mod application;

use std::fmt::Write as _;

use laggard_report::qos::{QOS_SCHEMA, QosReport, assess, text};

use crate::args::QosArgs;
use crate::exit::Outcome;
use crate::{evidence, pipe};

pub(crate) use application::{by_name as named_application, choices};

pub(crate) fn qos(args: &QosArgs) -> anyhow::Result<Outcome> {
    if args.list {
        pipe::print(&list()?)?;
        return Ok(Outcome::Ok);
    }
    let application = application::chosen(args)?;
    let seen = evidence::read(&args.recordings)?;
    let loads = seen
        .iter()
        .map(|one| Ok(assess(&one.seen, &application, args.service)?))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let (Some(service), true) = (
        args.service,
        loads.iter().all(|load| load.services.is_empty()),
    ) {
        anyhow::bail!(
            "no recording measured the service `{service}`; `laggard show` lists those it has"
        );
    }
    let report = QosReport {
        schema: QOS_SCHEMA,
        application,
        loads,
    };
    pipe::print(&if args.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        text(&report)
    })?;
    Ok(evidence::outcome(&seen))
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for one in application::catalogue()? {
        writeln!(
            text,
            "{:16} {} x {}, {} of work each: {}\n{:16}   {}",
            one.name, one.buffers, one.buffer, one.compute, one.about, "", one.source
        )?;
    }
    Ok(text)
}
