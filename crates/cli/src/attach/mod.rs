//! `laggard attach`: threads of a program that runs.

mod activations;
mod command;
mod explain;
mod group;
mod looks;

use anyhow::{Context as _, bail};
use laggard_answer::attach::{AttachAsked, AttachLost, AttachMeasured, Attended};
use laggard_answer::qos;
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{self, AttachError, AttachProbe, AttachTarget};
use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind, Names as _, Nanos};
use laggard_view::text;

use crate::args::AttachArgs;
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};
use activations::ActivationFile;
use command::{end, exit, started};
use explain::LateWatch;
use group::{FollowedGroup, group};
use looks::AttachLooks;

pub(crate) fn attach(args: &AttachArgs) -> anyhow::Result<Exit> {
    let asked = asked(args)?;
    let mut group = group(args)?;
    let targets = targets(args, group.as_mut())?;
    let stop = measuring::interruption()?;
    let (watch, unexplained) = LateWatch::start(args)?;
    let mut probe = AttachProbe::new()?;
    let from = linux::now();
    match probe.watch(&targets) {
        // Others will come.
        Err(AttachError::Nobody) if group.is_some() => {}
        watched => watched?,
    }
    let file = args.activations.as_deref().map(ActivationFile::make);
    let file = file.transpose()?;
    let mut command = started(&probe, args)?;
    pipe::say(&beginning(args, &targets, group.as_ref()));
    let mut looks = AttachLooks {
        seen: Attended::new(asked.clone()),
        probe,
        watch,
        file,
        group,
    };
    let ended = looks.until_end(args.duration, command.as_mut(), &stop)?;
    let ended_by_itself = ended.is_some();
    let to = linux::now();
    looks.probe.settle()?;
    looks.look(Nanos::MAX);
    let ended = match (ended, command.as_mut()) {
        (None, Some(command)) => Some(end(command)?),
        (ended, _) => ended,
    };
    let AttachLooks {
        probe,
        seen,
        watch,
        file,
        ..
    } = looks;
    let mut names = watch.names;
    names.learn_stack(&seen.functions());
    let losses = probe.losses();
    let measured = AttachMeasured {
        host: host::identify(&Files::default()),
        asked,
        from,
        to,
        threads: probe.watched(),
        ended: probe.ended(),
        lost: AttachLost {
            overwritten: losses.overwritten,
            disordered: losses.disordered,
            unwatched: losses.no_storage,
            skipped: losses.skipped,
        },
        caveats: caveats(&probe).into_iter().chain(unexplained).collect(),
    };
    let report = seen.report(&measured, names.symbols());
    pipe::print(&match args.json {
        true => pipe::json(&report)?,
        false => text::attach(&report, terminal::look(Unit::Auto)),
    })?;
    file.map_or(Ok(()), ActivationFile::end)?;
    Ok(exit(
        ended,
        !ended_by_itself || stop.load(std::sync::atomic::Ordering::Relaxed),
    ))
}

/// What is asked, with the deadline of an application.
fn asked(args: &AttachArgs) -> anyhow::Result<AttachAsked> {
    let application = args.application.as_deref().map(qos::by_name).transpose()?;
    Ok(AttachAsked {
        deadline: application
            .as_ref()
            .map(|one| one.tolerance_ns)
            .or(args.deadline),
        application: application.map(|one| one.name),
        rows: args.rows as usize,
    })
}

fn targets(
    args: &AttachArgs,
    group: Option<&mut FollowedGroup>,
) -> anyhow::Result<Vec<AttachTarget>> {
    if let Some(group) = group {
        return group.come();
    }
    if let Some(process) = args.process {
        if process == std::process::id() {
            bail!("process {process} is laggard itself");
        }
        return Ok(vec![AttachTarget::new(process, args.tid.clone())?]);
    }
    let Some(name) = &args.comm else {
        return Ok(Vec::new());
    };
    let found = linux::find_threads(name).context("look for threads in /proc")?;
    if found.is_empty() {
        bail!("no process or thread is called `{name}`; `ps -eLo pid,tid,comm` shows names");
    }
    // One that is gone by now is none.
    let all = found.into_iter();
    let held: Vec<AttachTarget> = all
        .filter_map(|(process, threads)| AttachTarget::new(process, threads).ok())
        .collect();
    match held.is_empty() {
        true => bail!("all that were called `{name}` have ended"),
        false => Ok(held),
    }
}

fn beginning(args: &AttachArgs, targets: &[AttachTarget], group: Option<&FollowedGroup>) -> String {
    let what = match targets {
        all if let Some(group) = group => format!(
            "{} in {}, and those that come",
            match all.len() {
                1 => "1 process".to_owned(),
                more => format!("{more} processes"),
            },
            group.group.folder().display()
        ),
        [] => "the command".into(),
        [one] => format!("process {}", one.process),
        more => format!("{} processes", more.len()),
    };
    match args.duration {
        Some(time) => format!(
            "watching {what} for {}; Ctrl-C ends it",
            Unit::Auto.write_nanos(time)
        ),
        None => format!("watching {what}; Ctrl-C ends it"),
    }
}

fn caveats(probe: &AttachProbe) -> Vec<Caveat> {
    let mut all = measuring::caveats();
    if !probe.knows_context() {
        all.push(Caveat::new(
            CaveatKind::AbilityAbsent,
            "this kernel does not show what a CPU is in: a wake by an interrupt that no tracepoint tells of is taken for one by the thread that was interrupted",
            "use a kernel for x86 with CONFIG_KALLSYMS_ALL=y, or look at the other ways of waking alone",
        ));
    }
    if probe.renumbers() {
        all.push(Caveat::new(
            CaveatKind::AbilityAbsent,
            "threads are told by the kernel's own numbers, which are not those of this PID namespace (a container)",
            "go by their names, or attach from outside",
        ));
    }
    all
}
