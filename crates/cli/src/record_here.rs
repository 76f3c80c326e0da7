//! `laggard record` on Windows: measure, and keep what was seen.

use std::path::PathBuf;

use laggard_console::system::interruption;
use laggard_measure::Drive;
use laggard_record::Destination;
use laggard_session::{EpisodesChoice, LoadChoice, Plan, Session};

use crate::args::RecordArgs;
use crate::closing;
use crate::exit::Exit;
use crate::progress::Progress;

pub(crate) fn record(args: &RecordArgs) -> anyhow::Result<Exit> {
    let interrupted = interruption()?;
    let dir = args.output.clone().unwrap_or_else(default_name);
    let plan = plan(args, Destination::from(dir.clone()));
    let session = Session::ready(&plan, &interrupted)?;
    let mut progress = Progress::new(args.quiet, plan.duration, &session.manifest().lines);
    session.run(&mut [&mut progress])?;
    closing::finish(&dir, args.quiet)
}

fn plan(args: &RecordArgs, place: Destination) -> Plan {
    let default = Plan::default();
    Plan {
        cpus: args.cpus.clone(),
        services: args.services.clone(),
        period: args.period.unwrap_or(default.period),
        dither: !args.no_dither,
        drive: Drive::Wait(args.source),
        duration: args.duration.or(default.duration),
        load: args
            .load
            .clone()
            .map_or(LoadChoice::None, LoadChoice::Named),
        helper: std::env::current_exe().unwrap_or_else(|_| default.helper.clone()),
        recording: Some(place),
        keep: args.keep,
        threshold: args.threshold,
        // Without trace data, stages are not requested from the kernel.
        stages: matches!(args.episodes, EpisodesChoice::Off).then(Vec::new),
        episodes: args.episodes,
        max_episodes_per_minute: args.max_episodes_per_minute,
        command: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        ..default
    }
}

/// A name that no other run has: the local time.
fn default_name() -> PathBuf {
    let now = jiff::Zoned::now();
    format!("{}.laggard", now.strftime("%Y-%m-%d-%H%M%S")).into()
}
