//! `laggard attach`: threads of a program that runs.

use std::collections::BTreeSet;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use laggard_answer::attach::{AttachAsked, AttachLost, AttachMeasured, Attended};
use laggard_answer::qos;
use laggard_measure::Flight as _;
use laggard_measure::LiveNames;
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{
    self, AttachError, AttachGroup, AttachProbe, AttachTarget, FlightOptions, FlightRecorder,
};
use laggard_model::text::{Unit, count};
use laggard_model::{Caveat, CaveatKind, Names as _, Nanos};
use laggard_view::text;

use crate::activations::ActivationFile;
use crate::args::{AttachArgs, EpisodesArg};
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};

/// From one look at what was told to the next.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Activations of one look of which it is asked to whom their time went: each takes
/// some hundred microseconds.
const EXPLAINED: usize = 10;
/// A command that has not ended so long after it was asked to is ended.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn attach(args: &AttachArgs) -> anyhow::Result<Exit> {
    let asked = asked(args)?;
    let mut group = group(args)?;
    let targets = targets(args, group.as_mut())?;
    let file = args.activations.as_deref().map(ActivationFile::make);
    let mut file = file.transpose()?;
    let stop = measuring::interruption()?;
    let (mut watch, unexplained) = Watch::start(args)?;
    let mut probe = AttachProbe::new()?;
    let from = linux::now();
    match probe.watch(&targets) {
        // Others will come.
        Err(AttachError::Nobody) if group.is_some() => {}
        watched => watched?,
    }
    let mut command = started(&probe, args)?;
    let mut seen = Attended::new(asked.clone());
    pipe::say(&beginning(args, &targets, group.as_ref()));
    let ended = watched(
        &mut probe,
        &mut seen,
        &mut watch,
        file.as_mut(),
        group.as_mut(),
        args,
        command.as_mut(),
        &stop,
    )?;
    let ended_by_itself = ended.is_some();
    let to = linux::now();
    let mut last = Vec::new();
    probe.settle()?;
    probe.drain(&mut last);
    if let Some(file) = &mut file {
        file.add(&last);
    }
    seen.told(&mut last, Nanos::MAX);
    watch.explain(&mut seen);
    let ended = match (ended, command.as_mut()) {
        (None, Some(command)) => Some(end(command)?),
        (ended, _) => ended,
    };
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
        !ended_by_itself || stop.load(Ordering::Relaxed),
    ))
}

/// Knows to whom the time of activations went.
struct Watch {
    flight: Option<FlightRecorder>,
    names: LiveNames,
}

impl Watch {
    /// Begins to record what each CPU does, as it is asked; why it does not, or what it
    /// lacks.
    fn start(args: &AttachArgs) -> anyhow::Result<(Self, Vec<Caveat>)> {
        let options = FlightOptions {
            stacks_hz: Some(args.stack_rate).filter(|&rate| rate > 0),
        };
        let (flight, caveats) = match args.episodes {
            EpisodesArg::Off => (None, Vec::new()),
            EpisodesArg::On | EpisodesArg::Auto => {
                match FlightRecorder::new(&linux::online_cpus(), options, None) {
                    Ok((flight, caveats)) => (Some(flight), caveats),
                    Err(err) if args.episodes == EpisodesArg::On => return Err(err.into()),
                    Err(err) => {
                        let caveat = Caveat::new(
                            CaveatKind::AbilityAbsent,
                            format!("late activations are not explained: {err}"),
                            "`laggard doctor` lists what this kernel allows",
                        );
                        (None, vec![caveat])
                    }
                }
            }
        };
        let names = LiveNames::read();
        Ok((Self { flight, names }, caveats))
    }

    /// Says to whom the time of those went that have come.
    fn explain(&mut self, seen: &mut Attended) {
        let chosen = seen.choose(EXPLAINED);
        let Some(flight) = &mut self.flight else {
            return;
        };
        flight.poll();
        for one in chosen {
            let evidence = |cpu, from, to| flight.evidence(cpu, from, to);
            let taken = one.taken(evidence, &mut self.names);
            seen.explain(&one, &taken);
        }
    }
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

/// A control group whose processes come and go.
struct Group {
    group: AttachGroup,
    /// Those that were seen in it. A number that is given again while nobody looks is
    /// taken for the same: who forks from one that is watched is watched anyway.
    known: BTreeSet<u32>,
}

impl Group {
    /// Processes that came since the last call.
    fn come(&mut self) -> anyhow::Result<Vec<AttachTarget>> {
        let now: BTreeSet<u32> = self.group.processes()?.into_iter().collect();
        let new = now.difference(&self.known).copied();
        let new = new.filter(|&process| process != std::process::id());
        // One that is gone by now is none.
        let targets = new.filter_map(|process| AttachTarget::new(process, Vec::new()).ok());
        let targets = targets.collect();
        self.known = now;
        Ok(targets)
    }
}

fn group(args: &AttachArgs) -> anyhow::Result<Option<Group>> {
    let group = match (&args.cgroup, &args.unit) {
        (Some(path), _) => AttachGroup::at(path)?,
        (None, Some(name)) => AttachGroup::of_unit(name)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(Group {
        group,
        known: BTreeSet::new(),
    }))
}

fn targets(args: &AttachArgs, group: Option<&mut Group>) -> anyhow::Result<Vec<AttachTarget>> {
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

fn beginning(args: &AttachArgs, targets: &[AttachTarget], group: Option<&Group>) -> String {
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

/// Looks until it is time, until it is interrupted, or until nobody is left; how the
/// command ended, if it did.
fn watched(
    probe: &mut AttachProbe,
    seen: &mut Attended,
    watch: &mut Watch,
    mut file: Option<&mut ActivationFile>,
    mut group: Option<&mut Group>,
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
        if let Some(group) = &mut group {
            let come = group.come()?;
            match probe.watch(&come) {
                // They have ended meanwhile.
                Err(AttachError::Nobody) => {}
                watched => watched?,
            }
        }
        let until = linux::now();
        probe.drain(&mut told);
        if let Some(file) = &mut file {
            file.add(&told);
        }
        seen.told(&mut told, until);
        watch.explain(seen);
        if ended.is_some() {
            return Ok(ended);
        }
        // By the kernel's count: what was told of an end may have been lost.
        let (ended, all) = (probe.ended(), probe.watched());
        if command.is_none() && group.is_none() && all > 0 && ended >= all {
            pipe::say(&match all {
                1 => "the thread has ended".into(),
                all => format!("all {} threads have ended", count(all)),
            });
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
