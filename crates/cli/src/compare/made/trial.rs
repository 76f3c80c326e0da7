//! Records one machine with and without a change, in random order.

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
use laggard_view::compare::progress;

use super::sides::{Letter, Sides};
use crate::args::{Args, Command, CompareArgs, MeasureCommand, RecordArgs};
use crate::progress::Progress;
use crate::{measuring, pipe};

/// Recordings of both sides.
#[derive(Debug)]
pub(super) struct SidesMade {
    pub(super) first: Vec<PathBuf>,
    pub(super) second: Vec<PathBuf>,
    /// The change under test.
    pub(super) changed: Difference,
    /// Verdicts of the evaluations.
    pub(super) earlier: Vec<EarlierVerdict>,
}

/// Recordings in random order.
#[derive(Debug)]
pub(super) struct Trial {
    /// Directory of the recordings.
    pub(super) folder: Folder,
    pub(super) made: SidesMade,
    /// Answer that ended the trial before all rounds were made.
    pub(super) decided: Option<CompareReport>,
}

/// Compares the recordings that were made before the evaluation of this number, from 1.
pub(super) type LookAt<'a> = &'a dyn Fn(&SidesMade, usize) -> Result<CompareReport, CompareError>;

/// Order of the sides, and plan of the evaluations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule<'a> {
    pub(super) looks: &'a RoundLooks,
    pub(super) order: &'a RecordingOrder,
    /// Seed of the order.
    pub(super) seed: u64,
}

/// Records in the order of the schedule until every series is decided or all rounds are made,
/// and restores the machine.
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
    // With the access of the recordings in it.
    let folder = Folder::make(&dir, plan.access).with_context(|| {
        format!(
            "cannot create the directory `{}`; give another name with --into",
            dir.display()
        )
    })?;
    let sides = ready(args, schedule, &dir).inspect_err(|_| {
        // It is empty. The first error is reported.
        let _ = folder.remove();
    })?;
    let mut made = SidesMade {
        first: Vec::new(),
        second: Vec::new(),
        changed: sides.changed(),
        earlier: Vec::new(),
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
            "nothing was compared; the recordings are in `{}`",
            dir.display()
        )),
    });
    // Before the evaluation, which takes some time.
    if let Some(message) = sides.restore() {
        pipe::say(&message);
    }
    let decided = decided.inspect_err(|_| {
        // The first error is reported.
        let _ = measuring::hand_over(Some(&folder));
    })?;
    Ok(Trial {
        folder,
        made,
        decided,
    })
}

/// Prepares the change and tests it.
fn ready(args: &CompareArgs, schedule: &Schedule<'_>, dir: &Path) -> anyhow::Result<Sides> {
    let sides = Sides::new(args)?;
    announce(args, schedule, &sides, dir);
    sides.try_out()?;
    Ok(sides)
}

/// Returns the plan of each recording, without its name.
fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    let words = ["laggard", "record"].map(Into::into).into_iter();
    let parsed = Args::try_parse_from(words.chain(args.options.iter().cloned()));
    let Some(Command::Measure(MeasureCommand::Record(parsed))) = parsed
        .context("cannot read the options after `--`")?
        .command
    else {
        unreachable!("the words begin with the command");
    };
    let options = &parsed.record;
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
            parsed.until.require.is_some(),
            "--require",
            "`laggard check`",
        ),
    ] {
        anyhow::ensure!(!is_given, "{option} cannot follow `--`; use {instead}");
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

/// Prints the plan of the trial.
fn announce(args: &CompareArgs, schedule: &Schedule<'_>, sides: &Sides, dir: &Path) {
    sides.announced().iter().for_each(|line| pipe::say(line));
    let count = 2 * args.rounds;
    pipe::say(&format!(
        "recording {count} times for {} into `{}`, in random order ({}, seed {}), {} in total; Ctrl-C ends it and restores the machine",
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
            "evaluates after {} of {} rounds, and ends if every series is worse, better or the same",
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

/// Writes the start of an order: `A B B A B A ...`.
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

/// Common parts of all recordings.
struct Turns<'a> {
    sides: &'a Sides,
    plan: &'a Plan,
    folder: &'a Folder,
    interrupted: &'a AtomicBool,
}

impl Turns<'_> {
    /// Makes recordings until an evaluation finds every series decided, or all rounds are made.
    /// Returns the answer in the first case.
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
                pipe::say(&progress(&report, after, rounds));
                if report.is_decided() {
                    return Ok(Some(report));
                }
                made.earlier.extend(report.verdicts(after));
                unless_interrupted(self.interrupted)?;
            }
        }
        Ok(None)
    }

    /// Makes recording `number`, from 0, of `count`.
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
        sides.set_up(side)?;
        let (plan, mut beside) = sides.plan(side, plan)?;
        let session = Session::ready(&plan, self.interrupted)?;
        let mut progress = Progress::new(false, plan.duration, &session.manifest().lines);
        let done = session.run(&mut [&mut progress, &mut beside])?;
        sides.check(side)?;
        // The user's command failed, not the shell.
        let failure = done.failure.map(|failure| failure.how);
        match (
            sides.during(side),
            failure.or(beside.failure()),
            beside.load_ended(),
        ) {
            (Some(command), Some(how), _) => anyhow::bail!(
                "`{command}`, which runs during {}, failed: {how}",
                side.name()
            ),
            // The recording could not be compared after all rounds.
            (_, _, Some(what)) => anyhow::bail!("{what}; run the load alone to see the reason"),
            _ => Ok(()),
        }
    }
}

/// Returns an error if the user interrupted the trial.
fn unless_interrupted(interrupted: &AtomicBool) -> anyhow::Result<()> {
    if interrupted.load(Ordering::Relaxed) {
        Err(anyhow::anyhow!("interrupted"))
    } else {
        Ok(())
    }
}
