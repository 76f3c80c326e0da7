//! `laggard record --until-decided`: for as long as requirements take.

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
use laggard_view::text;

use crate::args::RecordArgs;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::{ask, measuring, pipe, terminal};

/// The first look comes after this.
const FIRST: Nanos = Nanos::from_secs(30);
/// A piece that was interrupted sooner tells nothing.
const LEAST: Nanos = Nanos::from_secs(1);
/// The answer's name in the folder of the recordings.
const RESULT: &str = "check.json";

/// Records in pieces, each as long as all before it, and looks after each: to
/// look meanwhile would be a load.
pub(super) fn record(args: &RecordArgs, file: &Path, at_most: Nanos) -> anyhow::Result<Exit> {
    if at_most < LEAST {
        bail!("--at-most {at_most} is too short to see anything; use at least {LEAST}");
    }
    let requirements = read_requirements(file)?;
    let plan = measuring::plan(args)?;
    // Before, a signal ends the program, also while it waits for the file.
    let interrupted = measuring::interruption()?;
    let dir = match &plan.recording {
        Some(place) => place.path().to_owned(),
        None => measuring::default_name("check").with_extension(""),
    };
    let folder = Folder::make(&dir, plan.access).with_context(|| {
        format!(
            "make the folder `{}`; give another name with --output",
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
        // Where nothing is in it, it says nothing.
        let _ = folder.remove();
    });
    let kept = report.as_ref().map_or(Ok(()), |report| pieces.keep(report));
    // Last: then the folder is theirs.
    let given = measuring::hand_over(Some(&folder));
    let report = report?;
    if !args.quiet {
        pipe::print(&text::check(&report, false, terminal::look(Unit::Auto)))?;
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
            "records into `{}` until `{}` is decided, {} at most, with {} look{} at most{}; Ctrl-C ends it",
            self.folder.path().display(),
            self.requirements.file.display(),
            span(most),
            lengths.len(),
            if lengths.len() == 1 { "" } else { "s" },
            match self.plan.load {
                LoadChoice::None => "",
                LoadChoice::Named(_) | LoadChoice::Command(_) if lengths.len() == 1 => "",
                LoadChoice::Named(_) | LoadChoice::Command(_) if self.leaves_load() =>
                    ", between which the load goes on",
                LoadChoice::Named(_) | LoadChoice::Command(_) =>
                    ", after each of which the load starts anew",
            }
        )
    }

    /// Whether one load works beside all pieces. Busy processes begin with each: what
    /// is measured beside them is at the same instant of their turns.
    fn leaves_load(&self) -> bool {
        self.looks.lengths().len() > 1 && self.plan.contexts.is_none()
    }

    /// Until it is decided, or as long as may be.
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
                Ok((measured, left)) if !is_interrupted || measured >= LEAST => {
                    made.push(place.path().to_owned());
                    // Nothing more comes: it ends before the look.
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
            let found = report.sentences.first().map_or("", String::as_str);
            self.say(&format!("look {number} of {}: {found}", lengths.len()));
        }
        unreachable!("the last look ends it")
    }

    /// Records for so long, beside `load` if it works already. Returns how long it was,
    /// and the load if that is to go on.
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

    /// Leaves the answer beside the recordings.
    fn keep(&self, report: &CheckReport) -> anyhow::Result<()> {
        let dir = self.folder.path().display();
        put_answer(self.folder, RESULT, pipe::json(report)?.as_bytes())
            .context("write the answer")?;
        self.say(&format!("the recordings and the answer stay in `{dir}`"));
        Ok(())
    }
}
