//! `laggard record --until-decided`: records until the requirements are decided.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use laggard_analyze::counts::Looks;
use laggard_answer::check::{
    CheckLook, CheckQuestion, CheckReport, Requirements, check, read_requirements,
};
use laggard_model::Nanos;
use laggard_model::text::{Unit, span};
use laggard_record::{Destination, Folder, Recording, put_answer};
use laggard_session::{LoadChoice, Meanwhile, Plan, Session};
use laggard_view::check::{counts, document};
use laggard_view::doc::{self, Detail};

use crate::args::RecordArgs;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::{ask, measuring, pipe, terminal};

/// Length of the recording before the first evaluation.
const FIRST: Nanos = Nanos::from_secs(30);
/// Minimum length of a piece. A piece that was interrupted earlier is not evaluated.
const MIN_LENGTH: Nanos = Nanos::from_secs(1);
/// Name of the answer in the directory of the recordings.
const RESULT: &str = "check.json";

/// Records in pieces and evaluates after each. Each piece doubles the recorded time. An evaluation
/// during a piece would be a load.
pub(super) fn record(args: &RecordArgs, file: &Path, at_most: Nanos) -> anyhow::Result<Exit> {
    if at_most < MIN_LENGTH {
        bail!("--at-most {at_most} is too short; use at least {MIN_LENGTH}");
    }
    let requirements = read_requirements(file)?;
    let plan = measuring::plan(args)?;
    // Until here a signal ends the program, also while it waits for the file.
    let interrupted = measuring::interruption()?;
    let dir = match &plan.recording {
        Some(place) => place.path().to_owned(),
        None => measuring::default_name("check").with_extension(""),
    };
    let folder = Folder::make(&dir, plan.access).with_context(|| {
        format!(
            "cannot create the directory `{}`; give another name with --output",
            dir.display()
        )
    })?;
    let pieces = Pieces {
        args,
        plan,
        folder: &folder,
        interrupted: &interrupted,
        requirements,
        looks: Looks::doubling(FIRST, at_most),
    };
    pieces.say(&pieces.announcement());
    let report = pieces.record().inspect_err(|_| {
        // An empty directory is removed. One with recordings stays.
        let _ = folder.remove();
    });
    let kept = report.as_ref().map_or(Ok(()), |report| pieces.keep(report));
    // Last, because the directory then belongs to the calling user.
    let given = measuring::hand_over(Some(&folder));
    let report = report?;
    if !args.quiet {
        let document = document(&report, Detail::Short);
        pipe::print_screen(&doc::terminal(&document, terminal::look(Unit::Auto)))?;
    }
    kept.and(given)?;
    Ok(Exit::of_check(&report))
}

struct Pieces<'a> {
    args: &'a RecordArgs,
    plan: Plan,
    folder: &'a Folder,
    interrupted: &'a AtomicBool,
    requirements: Requirements,
    looks: Looks,
}

impl Pieces<'_> {
    fn say(&self, text: &str) {
        if !self.args.quiet {
            pipe::say(text);
        }
    }

    fn announcement(&self) -> String {
        let lengths = self.looks.lengths();
        let most = lengths.last().copied().unwrap_or_default();
        format!(
            "recording into `{}` until `{}` is decided, for at most {} with at most {} evaluation{}{}; Ctrl-C ends it",
            self.folder.path().display(),
            self.requirements.file.display(),
            span(most),
            lengths.len(),
            if lengths.len() == 1 { "" } else { "s" },
            match self.plan.load {
                LoadChoice::None => "",
                LoadChoice::Named(_) | LoadChoice::Command(_) if lengths.len() == 1 => "",
                LoadChoice::Named(_) | LoadChoice::Command(_) if self.leaves_load() =>
                    "; the load runs through all of them",
                LoadChoice::Named(_) | LoadChoice::Command(_) =>
                    "; the load starts again after each",
            }
        )
    }

    /// Returns whether one load runs through all pieces. Busy processes start with each
    /// piece, so that each piece starts at the same time of their time slices.
    fn leaves_load(&self) -> bool {
        self.looks.lengths().len() > 1 && self.plan.contexts.is_none()
    }

    /// Records until the requirements are decided, or for the maximum length.
    fn record(&self) -> anyhow::Result<CheckReport> {
        let lengths = self.looks.lengths();
        let mut made: Vec<PathBuf> = Vec::new();
        let mut before = Nanos::ZERO;
        let mut load = None;
        for (number, &length) in (1..).zip(lengths) {
            let place = Destination::within(self.folder, &format!("{number:02}.laggard"));
            let piece = self.piece(&place, length.saturating_sub(before), load.take());
            before = length;
            let is_interrupted = self.interrupted.load(Ordering::Relaxed);
            match piece {
                Ok((measured, left)) if !is_interrupted || measured >= MIN_LENGTH => {
                    made.push(place.path().to_owned());
                    // After the last piece, the load ends before the evaluation.
                    load = left.filter(|_| !is_interrupted && number < lengths.len());
                }
                Err(err) if !is_interrupted || made.is_empty() => return Err(err),
                Ok(_) | Err(_) => {}
            }
            anyhow::ensure!(!made.is_empty(), "interrupted before anything was measured");
            let report = check(&CheckQuestion {
                recordings: made.clone(),
                baseline: Vec::new(),
                requirements: self.requirements.clone(),
                look: Some(CheckLook {
                    number,
                    of: lengths.len(),
                    at_most: lengths.last().copied().unwrap_or_default(),
                    is_interrupted,
                }),
                threads: ask::threads(),
            })?;
            let ended = report.until_decided.as_ref().and_then(|until| until.ended);
            if ended.is_some() {
                return Ok(report);
            }
            let counts = counts(&report);
            self.say(&format!(
                "evaluation {number} of {}: {counts}",
                lengths.len()
            ));
        }
        unreachable!("the last evaluation ends it")
    }

    /// Records for `length`, with `load` if it already runs. Returns the measured length,
    /// and the load if it continues.
    fn piece(
        &self,
        place: &Destination,
        length: Nanos,
        load: Option<Meanwhile>,
    ) -> anyhow::Result<(Nanos, Option<Meanwhile>)> {
        let plan = Plan {
            recording: Some(place.clone()),
            duration: Some(length),
            ..self.plan.clone()
        };
        let session = match load {
            Some(load) => Session::ready_beside(&plan, self.interrupted, load),
            None => Session::ready(&plan, self.interrupted),
        };
        let session = session.map_err(|err| super::named(self.args, err))?;
        self.requirements.refuse_for(session.manifest())?;
        let mut progress = Progress::new(self.args.quiet, plan.duration, &session.manifest().lines);
        let (done, left) = if self.leaves_load() {
            session
                .run_on(&mut [&mut progress])
                .map(|(done, load)| (done, Some(load)))?
        } else {
            (session.run(&mut [&mut progress])?, None)
        };
        if let Some(failure) = done.failure {
            bail!("{}", failure.what);
        }
        let recording = Recording::open(place.path())?;
        let clock = &recording.manifest().clock;
        let end = clock.end_ns.unwrap_or(clock.start_ns);
        Ok((end.saturating_sub(clock.start_ns), left))
    }

    /// Writes the answer to the directory of the recordings.
    fn keep(&self, report: &CheckReport) -> anyhow::Result<()> {
        let dir = self.folder.path().display();
        put_answer(self.folder, RESULT, pipe::json(report)?.as_bytes())
            .context("cannot write the answer")?;
        self.say(&format!("the recordings and the answer are in `{dir}`"));
        Ok(())
    }
}
