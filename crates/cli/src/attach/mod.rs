//! `laggard attach`: measures the threads of other programs.

mod activations;
mod also;
mod command;
mod explain;
mod group;
mod live;
mod looks;
mod noted;
mod on_late;
mod recording;

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use laggard_answer::attach::{
    AttachCollector, AttachLost, AttachMeasured, AttachReport, AttachRequest, CycleChoice,
};
use laggard_answer::qos;
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{
    self, AttachError, AttachProbe, AttachTarget, MarkReader, UnseenCause,
};
use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind, Names as _, Nanos};
use laggard_session::EpisodesChoice;
use laggard_view::attach::{document, json};
use laggard_view::doc::{self, Detail};

use crate::args::AttachArgs;
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};
use activations::ActivationFile;
use also::AlsoMeasured;
use command::{end, exit, started};
use explain::LateWatch;
use group::{FollowedGroup, group};
use live::AttachLive;
use looks::{AttachLooks, BETWEEN_LOOKS};
use on_late::AttachOnLate;
use recording::AttachRecording;

pub(crate) fn attach(args: &AttachArgs) -> anyhow::Result<Exit> {
    // A closed standard output would lose the result.
    pipe::stdout()?;
    let asked = request(args)?;
    let shortest = Nanos::from(BETWEEN_LOOKS);
    if let Some(every) = args.every.filter(|&every| every < shortest) {
        bail!("--every {every} is too often; laggard reads the records every {shortest}");
    }
    if let CycleChoice::Call { name, .. } = &args.cycle
        && !linux::is_system_call(name)
    {
        bail!(
            "unknown system call in `--cycle {name}`; write auto, wake or a call such as `epoll_wait:5`"
        );
    }
    let mut group = group(args)?;
    let targets = targets(args, group.as_mut())?;
    let stop = measuring::interruption()?;
    let also = match args.also.as_slice() {
        [] => None,
        services => Some(AlsoMeasured::start(services)?),
    };
    let recorded = (args.episodes != EpisodesChoice::Off).then(linux::online_cpus);
    let mut probe = AttachProbe::new(recorded.as_ref())?;
    let (watch, unexplained) = LateWatch::start(args, probe.take_flight())?;
    let mut on_late = AttachOnLate::start(args, &stop)?;
    let from = linux::now();
    if let Some(on_late) = &mut on_late {
        on_late.measure_from(from);
    }
    match probe.watch(&targets) {
        // Processes may start later.
        Err(AttachError::Nobody) if group.is_some() => {}
        watched => watched?,
    }
    // Processes that started since the list was read. Children of watched processes are followed
    // anyway.
    probe.watch(&descendants(args)?)?;
    let recording = args.output.as_deref();
    let due = asked.deadline.or(asked.period);
    let recording =
        recording.map(|path| AttachRecording::create(path, args, due, Arc::clone(&stop)));
    let recording = recording.transpose()?;
    let (file, mut command) = match begun(&probe, args) {
        Ok(begun) => begun,
        Err(err) => {
            // The measurement did not start: remove the recording.
            recording.into_iter().for_each(AttachRecording::discard);
            return Err(err);
        }
    };
    pipe::say(&beginning(args, &targets, group.as_ref()));
    let mut looks = AttachLooks {
        seen: AttachCollector::new(asked.clone()),
        probe,
        watch,
        file,
        recording,
        group,
        marks: MarkReader::default(),
        live: args.every.map(|every| AttachLive::new(every, from)),
        on_late,
        next_states: from,
    };
    looks.seen.choose_above(args.late.on_late_threshold);
    let ended = looks.until_end(args.duration, command.as_mut(), &stop)?;
    let ended_by_itself = ended.is_some();
    // Without a duration, Ctrl-C is the regular end.
    let is_whole = args.duration.is_none() || !stop.load(Ordering::Relaxed);
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
        recording,
        mut marks,
        on_late,
        ..
    } = looks;
    let beside = also.map_or(Ok(Vec::new()), AlsoMeasured::end);
    let unseen_switches = watch.unseen_switches();
    let mut names = watch.names;
    names.learn_stack(&seen.functions());
    marks.end();
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
            marks: marks.lost,
            unmarked: marks.refused,
        },
        beside: match &beside {
            Ok(beside) => beside.clone(),
            Err(_) => Vec::new(),
        },
        caveats: caveats(&probe)
            .into_iter()
            .chain(unexplained)
            .chain(on_late.as_ref().and_then(AttachOnLate::caveat))
            .collect(),
    };
    let recorded = recording.map(|recording| {
        let path = recording.path().display().to_string();
        let ended = recording.end(
            is_whole,
            to,
            measured.caveats.clone(),
            unseen_switches,
            &seen,
        );
        ended.map(|()| path)
    });
    let report = seen.report(&measured, names.symbols());
    print(args, &report)?;
    if let Some(on_late) = on_late {
        on_late.end();
    }
    // The results of the threads are valid if this failed.
    beside?;
    file.map_or(Ok(()), ActivationFile::end)?;
    if let Some(path) = recorded.transpose()? {
        pipe::say(&format!("recorded in `{path}`; `laggard show` reads it"));
    }
    let exit = exit(ended, !ended_by_itself || stop.load(Ordering::Relaxed));
    if exit == Exit::Ok && !report.is_trusted() {
        return Ok(Exit::Untrustworthy);
    }
    Ok(exit)
}

fn print(args: &AttachArgs, report: &AttachReport) -> anyhow::Result<()> {
    if args.json {
        return pipe::print(&pipe::json(&json(report)?)?);
    }
    let detail = if args.all {
        Detail::Full
    } else {
        Detail::Short
    };
    let look = terminal::look(Unit::Auto);
    pipe::print_screen(&doc::terminal(&document(report, detail), look))
}

/// Creates the file of cycles and starts the command. If the command cannot be run, no file is
/// left.
fn begun(
    probe: &AttachProbe,
    args: &AttachArgs,
) -> anyhow::Result<(Option<ActivationFile>, Option<Child>)> {
    let file = args.activations.as_deref().map(ActivationFile::create);
    let file = file.transpose()?;
    match started(probe, args) {
        Ok(command) => Ok((file, command)),
        Err(err) => {
            file.into_iter().for_each(ActivationFile::discard);
            Err(err)
        }
    }
}

/// Returns the request, with the deadline of an application.
fn request(args: &AttachArgs) -> anyhow::Result<AttachRequest> {
    let application = args.application.as_deref().map(qos::by_name).transpose()?;
    Ok(AttachRequest {
        deadline: application
            .as_ref()
            .map(|application| application.tolerance_ns)
            .or(args.deadline),
        period: args.period.0,
        application: application.map(|application| application.name),
        rows: args.rows as usize,
        steps: args.every.is_some(),
        cycle: args.cycle.clone(),
        names_threads: !args.tid.is_empty() || args.comm.is_some(),
        page_fault: linux::page_fault_time().unwrap_or(Nanos::ZERO),
        stack_rate: args.stack_rate,
    })
}

fn targets(
    args: &AttachArgs,
    group: Option<&mut FollowedGroup>,
) -> anyhow::Result<Vec<AttachTarget>> {
    if let Some(group) = group {
        return group.take_new();
    }
    if let Some(process) = args.process {
        if process == std::process::id() {
            bail!("process {process} is laggard itself");
        }
        let mut targets = vec![AttachTarget::new(process, args.tid.clone())?];
        targets.extend(descendants(args)?);
        return Ok(targets);
    }
    let Some(name) = &args.comm else {
        return Ok(Vec::new());
    };
    let threads = linux::find_threads(name).context("cannot search threads in /proc")?;
    if threads.is_empty() {
        bail!("no process or thread is named `{name}`; `ps -eLo pid,tid,comm` shows names");
    }
    let targets = held(threads.into_iter())?;
    if targets.is_empty() {
        bail!("all processes and threads named `{name}` have ended");
    }
    Ok(targets)
}

/// Returns the descendants of the process of the request, unless single threads are requested.
fn descendants(args: &AttachArgs) -> anyhow::Result<Vec<AttachTarget>> {
    let Some(process) = args.process.filter(|_| args.tid.is_empty()) else {
        return Ok(Vec::new());
    };
    let descendants = linux::find_descendants(process);
    let descendants = descendants.context("cannot search processes in /proc")?;
    held(descendants.into_iter().map(|process| (process, Vec::new())))
}

/// Returns the targets that still exist.
fn held(found: impl Iterator<Item = (u32, Vec<u32>)>) -> anyhow::Result<Vec<AttachTarget>> {
    let held = found.map(|(process, threads)| AttachTarget::from_threads(process, threads));
    let held: Result<Vec<_>, _> = held.collect();
    Ok(held?.into_iter().flatten().collect())
}

fn beginning(args: &AttachArgs, targets: &[AttachTarget], group: Option<&FollowedGroup>) -> String {
    let what = match targets {
        all if let Some(group) = group => format!(
            "{} in {}, and later ones",
            match all.len() {
                1 => "1 process".to_owned(),
                more => format!("{more} processes"),
            },
            group.group.folder().display()
        ),
        [] => "the command".into(),
        [target] => format!("process {}", target.process),
        [target, others @ ..] if args.process.is_some() => match others.len() {
            1 => format!("process {} and its descendant", target.process),
            more => format!("process {} and its {more} descendants", target.process),
        },
        more => format!("{} processes", more.len()),
    };
    match args.duration {
        Some(time) => format!(
            "watching {what} for {}; Ctrl-C ends the measurement",
            Unit::Auto.write_nanos(time)
        ),
        None => format!("watching {what}; Ctrl-C ends the measurement"),
    }
}

fn caveats(probe: &AttachProbe) -> Vec<Caveat> {
    let mut caveats = measuring::caveats();
    if let Some(reason) = probe.context_unknown() {
        caveats.push(Caveat::new(
            CaveatKind::AbilityAbsent,
            format!(
                "this kernel does not show whether a CPU is in an interrupt ({reason}): a wakeup by an interrupt without a tracepoint counts as one by the interrupted thread"
            ),
            "use an x86 kernel with CONFIG_KALLSYMS_ALL=y, or ignore rows that are woken by a thread",
        ));
    }
    for cause in probe.unseen_causes() {
        let (what, advice) = match cause {
            UnseenCause::KernelLock => (
                "this kernel lacks the tracepoint lock:contention_begin; a wait for a kernel lock counts as `held up in` its system call",
                "use Linux 5.19 or later",
            ),
            UnseenCause::Reclaim => (
                "this kernel lacks the tracepoint vmscan:mm_vmscan_direct_reclaim_begin: reclaim counts as execution time in the kernel",
                "use a kernel with this tracepoint",
            ),
            UnseenCause::GroupReclaim => (
                "this kernel lacks the tracepoint vmscan:mm_vmscan_memcg_reclaim_begin: reclaim at a memory limit counts as execution time in the kernel",
                "use a kernel with CONFIG_MEMCG=y",
            ),
        };
        caveats.push(Caveat::new(CaveatKind::AbilityAbsent, what, advice));
    }
    if probe.renumbers() {
        caveats.push(Caveat::new(
            CaveatKind::AbilityAbsent,
            "thread IDs are from the host, not from this PID namespace (a container)",
            "identify threads by name, or attach from the host",
        ));
    }
    caveats
}
