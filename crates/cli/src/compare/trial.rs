//! Recordings of one machine with and without a change, made in turn.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::Parser as _;
use laggard_answer::compare::{Difference, LEAST_RECORDINGS};
use laggard_model::text::span;
use laggard_record::{Destination, Folder};
use laggard_session::{LoadChoice, Plan, Session};

use super::sides::{Letter, Sides};
use crate::args::{Args, Command, CompareArgs, RecordArgs};
use crate::progress::Progress;
use crate::{measuring, pipe};

/// What was recorded of both sides.
#[derive(Debug)]
pub(super) struct Trial {
    /// The folder that holds all.
    pub(super) folder: Folder,
    pub(super) first: Vec<PathBuf>,
    pub(super) second: Vec<PathBuf>,
    /// What was changed from one side to the other.
    pub(super) changed: Difference,
}

/// Records A B B A A B B A ..., and leaves the machine as it was.
pub(super) fn record(args: &CompareArgs) -> anyhow::Result<Trial> {
    let interrupted = measuring::interruption()?;
    let plan = plan(args)?;
    let dir = args
        .into
        .clone()
        .unwrap_or_else(|| measuring::default_name("compare").with_extension(""));
    // As open as what will be in it, which the options say.
    let folder = Folder::make(&dir, plan.access).with_context(|| {
        format!(
            "make the folder `{}`; give another name with --into",
            dir.display()
        )
    })?;
    let sides = ready(args, &dir).inspect_err(|_| {
        // Nothing is in it, and the first error is the one to tell.
        let _ = folder.remove();
    })?;
    let made = all(args, &sides, &plan, &folder, &interrupted);
    let made = made.map_err(|err| match folder.remove() {
        Ok(()) => err,
        Err(_) => err.context(format!(
            "nothing was compared; what was recorded is in `{}`",
            dir.display()
        )),
    });
    let changed = sides.changed();
    // Before the answer, which takes a while.
    if let Some(said) = sides.put_back() {
        pipe::say(&said);
    }
    let [first, second] = match made {
        Ok(made) => made,
        Err(err) => {
            // The first error is the one to tell.
            let _ = measuring::hand_over(Some(&folder));
            return Err(err);
        }
    };
    Ok(Trial {
        folder,
        first,
        second,
        changed,
    })
}

/// What is to be changed, tried out.
fn ready(args: &CompareArgs, dir: &Path) -> anyhow::Result<Sides> {
    let sides = Sides::of(args)?;
    announce(args, &sides, dir);
    sides.try_out()?;
    Ok(sides)
}

/// What is recorded each time, but for its name.
fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    let words = ["laggard", "record"].map(Into::into).into_iter();
    let asked = Args::try_parse_from(words.chain(args.options.iter().cloned()));
    let Some(Command::Record(asked)) = asked.context("read what follows `--`")?.command else {
        unreachable!("the words begin with the command");
    };
    let options = &asked.record;
    let RecordArgs {
        output,
        duration,
        load,
        command,
        ..
    } = options;
    for (is_given, option, instead) in [
        (output.is_some(), "--output", "--into"),
        (duration.is_some(), "--duration", "--each"),
        (load.is_some(), "--load", "--load before `--`"),
        (!command.is_empty(), "a command", "--run"),
        (
            asked.until.require.is_some(),
            "--require",
            "`laggard check`",
        ),
    ] {
        anyhow::ensure!(
            !is_given,
            "{option} is not for each recording; use {instead}"
        );
    }
    Ok(Plan {
        duration: Some(args.each),
        load: match &args.load {
            Some(name) => LoadChoice::Named(name.clone()),
            None => LoadChoice::None,
        },
        ..measuring::plan(options)?
    })
}

/// Says what will be done, before it is.
fn announce(args: &CompareArgs, sides: &Sides, dir: &Path) {
    sides.announced().iter().for_each(|line| pipe::say(line));
    let count = 2 * args.rounds;
    pipe::say(&format!(
        "makes {count} recordings of {} in `{}`, in turn (A B B A ...): {} of measuring; Ctrl-C ends it, and all is put back",
        span(args.each),
        dir.display(),
        span(args.each * count as u64)
    ));
    if args.rounds < LEAST_RECORDINGS {
        pipe::say(&format!(
            "fewer than {LEAST_RECORDINGS} rounds give a ratio and no verdict"
        ));
    }
}

fn all(
    args: &CompareArgs,
    sides: &Sides,
    plan: &Plan,
    folder: &Folder,
    interrupted: &AtomicBool,
) -> anyhow::Result<[Vec<PathBuf>; 2]> {
    let mut made = [Vec::new(), Vec::new()];
    let count = 2 * args.rounds;
    for number in 0..count {
        let side = [Letter::A, Letter::B, Letter::B, Letter::A][number % 4];
        let letter = side.name();
        let name = format!("{}{:02}.laggard", letter.to_lowercase(), number + 1);
        let place = Destination::within(folder, &name);
        let plan = Plan {
            recording: Some(place.clone()),
            ..plan.clone()
        };
        unless_interrupted(interrupted)?;
        pipe::say(&format!("{} of {count}: {letter}", number + 1));
        one(sides, side, plan, interrupted)?;
        unless_interrupted(interrupted)?;
        let [first, second] = &mut made;
        match side {
            Letter::A => first.push(place.path().to_owned()),
            Letter::B => second.push(place.path().to_owned()),
        }
    }
    Ok(made)
}

fn one(sides: &Sides, side: Letter, plan: Plan, interrupted: &AtomicBool) -> anyhow::Result<()> {
    sides.make(side)?;
    let (plan, mut beside) = sides.plan(side, plan)?;
    let session = Session::ready(&plan, interrupted)?;
    let mut progress = Progress::new(false, plan.duration, &session.manifest().lines);
    let done = session.run(&mut [&mut progress, &mut beside])?;
    sides.check(side)?;
    // The command is the user's, whichever shell ran it.
    let failure = done.failure.map(|failure| failure.how);
    match (sides.meanwhile(side), failure.or(beside.failure())) {
        (Some(command), Some(how)) => anyhow::bail!(
            "`{command}`, which runs while {} is recorded, failed: {how}",
            side.name()
        ),
        _ => Ok(()),
    }
}

/// An error where the user ended it: fewer recordings were made than asked.
fn unless_interrupted(interrupted: &AtomicBool) -> anyhow::Result<()> {
    match interrupted.load(Ordering::Relaxed) {
        true => Err(anyhow::anyhow!("interrupted")),
        false => Ok(()),
    }
}
