//! `laggard qos`: how often an application's buffers run dry.

use std::fmt::Write as _;

use laggard_answer::loads;
use laggard_answer::qos::{Application, QOS_SCHEMA, QosReport, assess, by_name, catalogue};
use laggard_view::text;

use crate::args::QosArgs;
use crate::exit::Exit;
use crate::pipe;

pub(crate) fn qos(args: &QosArgs) -> anyhow::Result<Exit> {
    if args.list {
        pipe::print(&list()?)?;
        return Ok(Exit::Ok);
    }
    let application = chosen(args)?;
    let seen = loads(&args.recordings)?;
    let loads = seen
        .iter()
        .map(|load| Ok(assess(load, &application, args.service)?))
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
        pipe::json(&report)?
    } else {
        text::qos(&report)
    })?;
    Ok(Exit::of(&seen))
}

/// The application that the user asks about.
fn chosen(args: &QosArgs) -> anyhow::Result<Application> {
    match (&args.app, args.buffers, args.buffer, args.compute) {
        (Some(name), ..) => Ok(by_name(name)?),
        (None, Some(buffers), Some(buffer), Some(compute)) => Ok(Application::new(
            "application",
            buffers,
            buffer,
            compute,
            "the command line",
        )?),
        _ => anyhow::bail!(
            "no application is given; use --app NAME (see `laggard qos --list`), or --buffers, --buffer and --compute"
        ),
    }
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for one in catalogue()? {
        writeln!(
            text,
            "{:16} {} x {}, {} of work each: {}\n{:16}   {}",
            one.name, one.buffers, one.buffer, one.compute, one.about, "", one.source
        )?;
    }
    Ok(text)
}
