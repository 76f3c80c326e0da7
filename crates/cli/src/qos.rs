//! `laggard qos`: how often an application's buffers run dry.

use std::fmt::Write as _;

use laggard_answer::loads_for_demand;
use laggard_answer::qos::{
    Application, LoadChoices, MissPolicy, QOS_SCHEMA, QosReport, assess, by_name, catalogue,
    choose, examples,
};
use laggard_model::Service;
use laggard_model::text::Unit;
use laggard_view::text;

use crate::args::{PolicyArg, QosArgs};
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

pub(crate) fn qos(args: &QosArgs) -> anyhow::Result<Exit> {
    if args.list {
        pipe::print(&list()?)?;
        return Ok(Exit::Ok);
    }
    let policy = match args.policy {
        PolicyArg::Late => MissPolicy::Late,
        PolicyArg::Drop => MissPolicy::Drop,
        PolicyArg::Reset => MissPolicy::Reset,
    };
    let Some(application) = chosen(args)? else {
        return choices(args, policy);
    };
    let application = Application {
        policy,
        ..application
    };
    let seen = loads_for_demand(&ask::of(&args.recordings))?;
    let loads = seen
        .iter()
        .map(|load| Ok(assess(load, &application, args.service)?))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let (Some(service), true) = (
        args.service,
        loads.iter().all(|load| load.services.is_empty()),
    ) {
        return Err(not_measured(service));
    }
    let report = QosReport {
        schema: QOS_SCHEMA,
        application,
        loads,
    };
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::qos(&report, args.curve, terminal::look(Unit::Auto))
    })?;
    Ok(Exit::of(&seen))
}

fn not_measured(service: Service) -> anyhow::Error {
    anyhow::anyhow!(
        "no recording measured the service `{service}`; `laggard show` lists those it has"
    )
}

/// The application that the user asks about; `None` where all will do.
fn chosen(args: &QosArgs) -> anyhow::Result<Option<Application>> {
    match (&args.app, args.buffers, args.buffer, args.compute) {
        (Some(name), ..) => Ok(Some(by_name(name)?)),
        (None, Some(buffers), Some(buffer), Some(compute)) => Ok(Some(Application::new(
            "application",
            buffers,
            buffer,
            compute,
            "the command line",
        )?)),
        _ if args.json || args.curve => anyhow::bail!(
            "no application is given; use --app NAME (see `laggard qos --list`), or --buffers, --buffer and --compute"
        ),
        _ => Ok(None),
    }
}

/// A few applications of the catalogue, a line for each.
fn choices(args: &QosArgs, policy: MissPolicy) -> anyhow::Result<Exit> {
    let mut examples = examples()?;
    examples.iter_mut().for_each(|one| one.policy = policy);
    let seen = loads_for_demand(&ask::of(&args.recordings))?;
    let found = seen
        .iter()
        .map(|load| choose(load, &examples, args.service));
    let found: Vec<LoadChoices> = found.flatten().collect();
    match (found.is_empty(), args.service) {
        (true, Some(service)) => Err(not_measured(service)),
        _ => {
            pipe::print(&text::choices(&found, terminal::look(Unit::Auto)))?;
            Ok(Exit::of(&seen))
        }
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
