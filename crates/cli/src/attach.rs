//! `laggard attach`: threads of a program that runs.

use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use laggard_answer::attach::{AttachAsked, AttachLost, AttachMeasured, Attended};
use laggard_answer::qos;
use laggard_measure::LiveNames;
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{self, AttachProbe, AttachTarget};
use laggard_model::text::{Unit, count};
use laggard_model::{Caveat, CaveatKind, Names as _};
use laggard_view::text;

use crate::args::AttachArgs;
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};

/// From one look at what was told to the next.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// A command that has not ended so long after it was asked to is ended.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn attach(args: &AttachArgs) -> anyhow::Result<Exit> {
    let asked = asked(args)?;
    let targets = targets(args)?;
    let stop = measuring::interruption()?;
    let mut probe = AttachProbe::new()?;
    let from = linux::now();
    probe.watch(&targets)?;
    let mut command = started(&probe, args)?;
    let mut seen = Attended::new(asked.clone());
    pipe::say(&beginning(args, &targets));
    let ended = watched(&mut probe, &mut seen, args, command.as_mut(), &stop)?;
    let ended_by_itself = ended.is_some();
    let to = linux::now();
    let mut last = Vec::new();
    probe.settle()?;
    probe.drain(&mut last);
    seen.told(&mut last, laggard_model::Nanos::MAX);
    let ended = match (ended, command.as_mut()) {
        (None, Some(command)) => Some(end(command)?),
        (ended, _) => ended,
    };
    let mut names = LiveNames::read();
    names.learn_stack(&seen.functions());
    let losses = probe.losses();
    let measured = AttachMeasured {
        host: host::identify(&Files::default()),
        asked,
        from,
        to,
        threads: probe.watched(),
        lost: AttachLost {
            overwritten: losses.overwritten,
            disordered: losses.disordered,
            unwatched: losses.no_storage,
            skipped: losses.skipped,
        },
        caveats: caveats(&probe),
    };
    let report = seen.report(&measured, names.symbols());
    pipe::print(&match args.json {
        true => pipe::json(&report)?,
        false => text::attach(&report, terminal::look(Unit::Auto)),
    })?;
    Ok(exit(
        ended,
        !ended_by_itself || stop.load(Ordering::Relaxed),
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

fn targets(args: &AttachArgs) -> anyhow::Result<Vec<AttachTarget>> {
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

/// The command, watched from its first instruction on.
fn started(probe: &AttachProbe, args: &AttachArgs) -> anyhow::Result<Option<Child>> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Ok(None);
    };
    probe.follow_own(true)?;
    let child = Command::new(program).args(arguments).spawn();
    probe.follow_own(false)?;
    let child = child.with_context(|| format!("run `{}`", program.display()))?;
    Ok(Some(child))
}

fn beginning(args: &AttachArgs, targets: &[AttachTarget]) -> String {
    let what = match targets {
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

/// Looks until it is time, until it is interrupted, or until nobody is left; how the
/// command ended, if it did.
fn watched(
    probe: &mut AttachProbe,
    seen: &mut Attended,
    args: &AttachArgs,
    mut command: Option<&mut Child>,
    stop: &AtomicBool,
) -> anyhow::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let limit = args.duration.map(|one| Duration::from_nanos(one.ns()));
    let mut told = Vec::new();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        if left == Some(Duration::ZERO) || stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        thread::sleep(left.map_or(BETWEEN_LOOKS, |left| left.min(BETWEEN_LOOKS)));
        let ended = match &mut command {
            Some(command) => command.try_wait().context("wait for the command")?,
            None => None,
        };
        let until = linux::now();
        probe.drain(&mut told);
        seen.told(&mut told, until);
        if ended.is_some() {
            return Ok(ended);
        }
        let is_command = command.is_some();
        if !is_command && seen.threads() > 0 && seen.ended() == seen.threads() {
            pipe::say(&format!(
                "all {} threads have ended",
                count(seen.threads() as u64)
            ));
            return Ok(None);
        }
    }
}

/// Ends a command that outlasts what was asked for: SIGTERM, then SIGKILL.
fn end(command: &mut Child) -> anyhow::Result<ExitStatus> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let number = i32::try_from(command.id()).context("the command's number")?;
    // Gone already: it is waited for below.
    let _ = kill(Pid::from_raw(number), Signal::SIGTERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if let Some(status) = command.try_wait().context("wait for the command")? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    command.kill().context("end the command")?;
    command.wait().context("wait for the command")
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

/// The command's own exit code where it failed by itself.
fn exit(ended: Option<ExitStatus>, is_ours: bool) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;

    const OF_SIGNALS: i32 = 128;
    let Some(status) = ended.filter(|status| !status.success()) else {
        return Exit::Ok;
    };
    // We ended it, or Ctrl-C did.
    if is_ours && status.signal().is_some() {
        return Exit::Ok;
    }
    let code = status
        .code()
        .or(status.signal().map(|one| OF_SIGNALS + one));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(code) => {
            pipe::say(&format!(
                "the command failed ({status}); this is its exit code"
            ));
            Exit::Command(code)
        }
        None => Exit::Ok,
    }
}
