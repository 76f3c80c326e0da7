//! `laggard qos`: how often an application has an xrun.

use std::fmt::Write as _;

use laggard_answer::qos::{
    Application, LoadProfiles, ProfilesReport, QOS_SCHEMA, QosReport, assess, assess_profiles,
    by_name, catalogue, listed, other_profiles, profiles,
};
use laggard_answer::{Load, loads_for_demand};
use laggard_model::Service;
use laggard_view::doc::Detail;
use laggard_view::qos::{self as view, document};

use crate::args::QosArgs;
use crate::exit::Exit;
use crate::pipe::Format;
use crate::{ask, pipe};

pub(crate) fn qos(args: &QosArgs) -> anyhow::Result<Exit> {
    if args.list {
        pipe::print(&if args.json {
            pipe::json(&listed()?)?
        } else {
            list()?
        })?;
        return Ok(Exit::Ok);
    }
    let application = application(args)?;
    let loads = loads_for_demand(&ask::of(&args.recordings))?;
    match application {
        Some(application) => print_report(args, application, &loads)?,
        None => print_profiles(args, &loads)?,
    }
    Ok(Exit::from_loads(&loads))
}

fn print_report(args: &QosArgs, application: Application, loads: &[Load]) -> anyhow::Result<()> {
    let outlooks = loads
        .iter()
        .map(|load| {
            let mut outlook = assess(load, &application, args.service)?;
            if let Some(goal) = args.goal {
                outlook.goal = outlook.own().map(|own| goal.assess(own)).transpose()?;
            }
            Ok(outlook)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    if outlooks.iter().all(|load| load.services.is_empty()) {
        require_service(args.service)?;
    }
    let report = QosReport {
        schema: QOS_SCHEMA,
        application,
        loads: outlooks,
    };
    let detail = Detail::new(args.curve || args.markdown);
    pipe::print_answer(format(args), &report, || document(&report, detail))
}

fn print_profiles(args: &QosArgs, loads: &[Load]) -> anyhow::Result<()> {
    let (mut profiles, mut others) = (profiles()?, other_profiles()?);
    for profile in profiles.iter_mut().chain(&mut others) {
        profile.policy = args.policy;
    }
    let outlooks = loads
        .iter()
        .filter_map(|load| assess_profiles(load, &profiles, &others, args.service));
    let outlooks: Vec<LoadProfiles> = outlooks.collect();
    if outlooks.is_empty() {
        require_service(args.service)?;
    }
    let report = ProfilesReport {
        schema: QOS_SCHEMA,
        loads: outlooks,
    };
    pipe::print_answer(format(args), &report, || view::profiles(&report.loads))
}

const fn format(args: &QosArgs) -> Format {
    Format {
        json: args.json,
        markdown: args.markdown,
    }
}

/// Refuses a service that no recording has.
fn require_service(service: Option<Service>) -> anyhow::Result<()> {
    match service {
        Some(service) => anyhow::bail!(
            "no recording has the service `{service}`; `laggard show` lists the services of a recording"
        ),
        None => Ok(()),
    }
}

/// Returns the application that the user names; `None` if the user names none.
fn application(args: &QosArgs) -> anyhow::Result<Option<Application>> {
    let application = match (&args.app, args.buffers, args.buffer, args.compute) {
        (Some(name), ..) => by_name(name)?,
        (None, Some(buffers), Some(buffer), Some(compute)) => {
            Application::new("application", buffers, buffer, compute, "the command line")?
        }
        _ if args.curve || args.goal.is_some() => anyhow::bail!(
            "no application is given; use --app NAME (see `laggard qos --list`), or --buffers, --buffer and --compute"
        ),
        _ => return Ok(None),
    };
    Ok(Some(Application {
        policy: args.policy,
        ..application
    }))
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for entry in catalogue()? {
        writeln!(
            text,
            "{:16} {} x {}, {} of work each: {}\n{:16}   {}",
            entry.name, entry.buffers, entry.buffer, entry.compute, entry.about, "", entry.source
        )?;
    }
    Ok(text)
}
