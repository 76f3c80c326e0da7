//! Recordings of one machine with and without a change, made in turn.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::Parser as _;
use laggard_analyze::compare::{RecordingOrder, RoundLooks};
use laggard_answer::compare::{
    CompareError, CompareReport, Difference, EarlierVerdict, LEAST_RECORDINGS,
};
use laggard_model::text::{listed, span};
use laggard_record::{Destination, Folder};
use laggard_session::{LoadChoice, Plan, Session};

use super::sides::{Letter, Sides};
use crate::args::{Args, Command, CompareArgs, MeasureCommand, RecordArgs};
use crate::progress::Progress;
use crate::{measuring, pipe};

/// What was recorded of both sides.
#[derive(Debug)]
pub(super) struct SidesMade {
    pub(super) first: Vec<PathBuf>,
    pub(super) second: Vec<PathBuf>,
    /// What was changed from one side to the other.
    pub(super) changed: Difference,
    /// What each look told.
    pub(super) told: Vec<EarlierVerdict>,
}

/// Recordings that were made in turn.
#[derive(Debug)]
pub(super) struct Trial {
    /// The folder that holds all.
    pub(super) folder: Folder,
    pub(super) made: SidesMade,
    /// The answer that ended it before all rounds were made.
    pub(super) decided: Option<CompareReport>,
}

/// Compares what was made until the look of this number, from 1.
pub(super) type LookAt<'a> = &'a dyn Fn(&SidesMade, usize) -> Result<CompareReport, CompareError>;

/// When recordings are made of which side, and when they are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule<'a> {
    pub(super) looks: &'a RoundLooks,
    pub(super) order: &'a RecordingOrder,
    /// Seed from which the order was drawn.
    pub(super) seed: u64,
}

/// Records in the order of the schedule until all is decided or made, and leaves the
/// machine as it was.
pub(super) fn record(
    args: &CompareArgs,
    schedule: &Schedule<'_>,
    ask: LookAt<'_>,
) -> anyhow::Result<Trial> {
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
    let sides = ready(args, schedule, &dir).inspect_err(|_| {
        // Nothing is in it, and the first error is the one to tell.
        let _ = folder.remove();
    })?;
    let mut made = SidesMade {
        first: Vec::new(),
        second: Vec::new(),
        changed: sides.changed(),
        told: Vec::new(),
    };
    let turns = Turns {
        sides: &sides,
        plan: &plan,
        folder: &folder,
        interrupted: &interrupted,
    };
    let decided = turns.make(&mut made, schedule, ask);
    let decided = decided.map_err(|err| match folder.remove() {
        Ok(()) => err,
        Err(_) => err.context(format!(
            "nothing was compared; what was recorded is in `{}`",
            dir.display()
        )),
    });
    // Before the answer, which takes a while.
    if let Some(said) = sides.put_back() {
        pipe::say(&said);
    }
    let decided = decided.inspect_err(|_| {
        // The first error is the one to tell.
        let _ = measuring::hand_over(Some(&folder));
    })?;
    Ok(Trial {
        folder,
        made,
        decided,
    })
}

/// What is to be changed, tried out.
fn ready(args: &CompareArgs, schedule: &Schedule<'_>, dir: &Path) -> anyhow::Result<Sides> {
    let sides = Sides::of(args)?;
    announce(args, schedule, &sides, dir);
    sides.try_out()?;
    Ok(sides)
}

/// What is recorded each time, but for its name.
fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    let words = ["laggard", "record"].map(Into::into).into_iter();
    let asked = Args::try_parse_from(words.chain(args.options.iter().cloned()));
    let Some(Command::Measure(MeasureCommand::Record(asked))) =
        asked.context("read what follows `--`")?.command
    else {
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
fn announce(args: &CompareArgs, schedule: &Schedule<'_>, sides: &Sides, dir: &Path) {
    sides.announced().iter().for_each(|line| pipe::say(line));
    let count = 2 * args.rounds;
    pipe::say(&format!(
        "makes {count} recordings of {} in `{}`, in random order ({}, seed {}): {} of measuring; Ctrl-C ends it, and all is put back",
        span(args.each),
        dir.display(),
        letters(schedule.order),
        schedule.seed,
        span(args.each * count as u64)
    ));
    if let [early @ .., _] = schedule.looks.after()
        && !early.is_empty()
    {
        pipe::say(&format!(
            "looks after {} of {} rounds, and ends there when every service is worse, better or equal",
            listed(early),
            args.rounds
        ));
    }
    if args.rounds < LEAST_RECORDINGS {
        pipe::say(&format!(
            "fewer than {LEAST_RECORDINGS} rounds give a ratio and no verdict"
        ));
    }
}

/// The first sides of an order: `A B B A B A ...`.
fn letters(order: &RecordingOrder) -> String {
    const SHOWN: usize = 8;
    let letter = |&side: &usize| Letter::BOTH[side].name();
    let first: Vec<&str> = order.sides().iter().take(SHOWN).map(letter).collect();
    let more = if order.sides().len() > SHOWN {
        " ..."
    } else {
        ""
    };
    first.join(" ") + more
}

/// What each recording is made with.
struct Turns<'a> {
    sides: &'a Sides,
    plan: &'a Plan,
    folder: &'a Folder,
    interrupted: &'a AtomicBool,
}

impl Turns<'_> {
    /// Makes recordings until a look finds all decided, which is returned, or all
    /// are made.
    fn make(
        &self,
        made: &mut SidesMade,
        schedule: &Schedule<'_>,
        ask: LookAt<'_>,
    ) -> anyhow::Result<Option<CompareReport>> {
        let Schedule { looks, order, .. } = *schedule;
        let mut before = 0;
        let rounds = looks.after().last().copied().unwrap_or_default();
        for (look, &after) in (1..).zip(looks.after()) {
            let sides = order.sides().iter().enumerate();
            for (number, &side) in sides.take(2 * after).skip(2 * before) {
                self.one(made, Letter::BOTH[side], (number, 2 * rounds))?;
            }
            before = after;
            if after < rounds {
                let report = ask(made, look)?;
                pipe::say(&found(&report, after, rounds));
                if report.is_decided() {
                    return Ok(Some(report));
                }
                made.told.extend(report.verdicts(after));
                unless_interrupted(self.interrupted)?;
            }
        }
        Ok(None)
    }

    /// Makes the recording of this number, from 0, out of so many.
    fn one(
        &self,
        made: &mut SidesMade,
        side: Letter,
        (number, count): (usize, usize),
    ) -> anyhow::Result<()> {
        let letter = side.name();
        let name = format!("{}{:02}.laggard", letter.to_lowercase(), number + 1);
        let place = Destination::within(self.folder, &name);
        let plan = Plan {
            recording: Some(place.clone()),
            ..self.plan.clone()
        };
        unless_interrupted(self.interrupted)?;
        pipe::say(&format!("{} of {count}: {letter}", number + 1));
        self.record(side, plan)?;
        unless_interrupted(self.interrupted)?;
        match side {
            Letter::A => made.first.push(place.path().to_owned()),
            Letter::B => made.second.push(place.path().to_owned()),
        }
        Ok(())
    }

    fn record(&self, side: Letter, plan: Plan) -> anyhow::Result<()> {
        let sides = self.sides;
        sides.make(side)?;
        let (plan, mut beside) = sides.plan(side, plan)?;
        let session = Session::ready(&plan, self.interrupted)?;
        let mut progress = Progress::new(false, plan.duration, &session.manifest().lines);
        let done = session.run(&mut [&mut progress, &mut beside])?;
        sides.check(side)?;
        // The command is the user's, whichever shell ran it.
        let failure = done.failure.map(|failure| failure.how);
        match (
            sides.meanwhile(side),
            failure.or(beside.failure()),
            beside.load_ended(),
        ) {
            (Some(command), Some(how), _) => anyhow::bail!(
                "`{command}`, which runs while {} is recorded, failed: {how}",
                side.name()
            ),
            // Rather now than after hours: it could not be compared.
            (_, _, Some(what)) => anyhow::bail!("{what}; run it by itself to see why"),
            _ => Ok(()),
        }
    }
}

/// What a look that is not the last came to.
fn found(report: &CompareReport, after: usize, rounds: usize) -> String {
    let what = if report.is_decided() {
        "every service is decided; it ends".into()
    } else {
        format!(
            "not decided yet: {}; it goes on",
            report.undecided().join(", ")
        )
    };
    let told = report.told();
    match (report.is_decided(), told.is_empty()) {
        (false, false) => format!(
            "after {after} of {rounds} rounds, {}; {what}",
            told.join(", ")
        ),
        _ => format!("after {after} of {rounds} rounds, {what}"),
    }
}

/// An error where the user ended it: fewer recordings were made than asked.
fn unless_interrupted(interrupted: &AtomicBool) -> anyhow::Result<()> {
    if interrupted.load(Ordering::Relaxed) {
        Err(anyhow::anyhow!("interrupted"))
    } else {
        Ok(())
    }
}
