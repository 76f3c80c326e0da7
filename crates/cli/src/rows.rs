//! Recordings of what `switch` and `timers` measure: one a row, in one folder.

use std::path::Path;

use anyhow::Context as _;
use jiff::{SignedDuration, Zoned};
use laggard_measure::host::{self, Files};
use laggard_measure::linux;
use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Line, LineId, LoadRun, Manifest, Nanos, ProbePlan,
    Route, RowsOf, STAGES, Service, Stage, State,
};
use laggard_record::{Access, Destination, Folder, Recorder};

use crate::measuring;

/// So many rows are handed to the disk at a time.
const BATCH: usize = 1 << 16;

/// What the rows of one recording are, and of whom.
#[derive(Clone, Debug)]
pub(crate) struct RowPlan {
    /// The recording's name, but for its ending.
    pub(crate) name: String,
    pub(crate) rows: RowsOf,
    pub(crate) service: Service,
    pub(crate) cpu: Cpu,
    /// What a timer was asked for; 0: nothing was.
    pub(crate) period: Nanos,
    /// How long the row was to take.
    pub(crate) duration: Nanos,
    pub(crate) load: Option<String>,
}

/// The folder that they are in.
#[derive(Debug)]
pub(crate) struct RowFolder {
    folder: Folder,
    recordings: Vec<RowRecording>,
    /// Why nothing more is kept.
    refused: Option<anyhow::Error>,
}

/// One of them.
#[derive(Debug)]
struct RowRecording {
    name: String,
    place: Destination,
    recorder: Recorder,
    seq: u64,
    end: Nanos,
}

impl RowFolder {
    /// Makes the folder, which must be new.
    pub(crate) fn make(dir: &Path) -> anyhow::Result<Self> {
        let folder = Folder::make(dir, Access::Private).with_context(|| {
            format!(
                "make the folder `{}`, for a recording of each row; give another name with -o",
                dir.display()
            )
        })?;
        Ok(Self {
            folder,
            recordings: Vec::new(),
            refused: None,
        })
    }

    /// Adds what was seen of a row, in order: when each was due, and how late it was.
    /// A row's recording begins with the first of them. Where the disk refuses, nothing
    /// more is kept, and [`RowFolder::end`] says why: the figures are good without.
    pub(crate) fn add(
        &mut self,
        plan: &RowPlan,
        seen: impl IntoIterator<Item = (Nanos, Nanos)>,
        lost: u64,
    ) {
        if self.refused.is_none() {
            self.refused = self.try_add(plan, seen, lost).err();
        }
    }

    fn try_add(
        &mut self,
        plan: &RowPlan,
        seen: impl IntoIterator<Item = (Nanos, Nanos)>,
        lost: u64,
    ) -> anyhow::Result<()> {
        let mut seen = seen.into_iter().peekable();
        let Some(&(begin, _)) = seen.peek() else {
            return Ok(());
        };
        let known = self.recordings.iter().position(|one| one.name == plan.name);
        let place = match known {
            Some(place) => place,
            None => {
                let begun = RowRecording::begin(&self.folder, plan, begin)?;
                self.recordings.push(begun);
                self.recordings.len() - 1
            }
        };
        let recording = &mut self.recordings[place];
        let written = recording.add(seen, lost);
        written.with_context(|| format!("write `{}`", recording.place.path().display()))
    }

    /// Ends all of them; how many there are. The folder goes where there is none.
    ///
    /// # Errors
    /// When the disk refuses, or did so before.
    pub(crate) fn end(self, is_whole: bool) -> anyhow::Result<usize> {
        let count = self.recordings.len();
        let state = match (&self.refused, is_whole) {
            (Some(error), _) => State::Failed {
                error: format!("{error:#}"),
            },
            (None, true) => State::Complete,
            (None, false) => State::Interrupted,
        };
        for recording in self.recordings {
            let RowRecording {
                place,
                mut recorder,
                end,
                ..
            } = recording;
            recorder.update(|manifest| manifest.clock.end_ns = Some(end));
            let path = place.path().display().to_string();
            let ended = recorder.finish(state.clone());
            ended.with_context(|| format!("write `{path}`"))?;
            measuring::hand_over(place.folder())?;
        }
        match count {
            // Somebody may have put something there, which is not ours.
            0 => drop(self.folder.remove()),
            _ => measuring::hand_over(Some(&self.folder))?,
        }
        self.refused.map_or(Ok(count), Err)
    }
}

impl RowRecording {
    fn begin(folder: &Folder, plan: &RowPlan, begin: Nanos) -> anyhow::Result<Self> {
        let place = Destination::within(folder, &format!("{}.laggard", plan.name));
        let recorder = Recorder::create(place.clone(), manifest(plan, begin))
            .with_context(|| format!("begin `{}`", place.path().display()))?;
        Ok(Self {
            name: plan.name.clone(),
            place,
            recorder,
            seq: 0,
            end: begin,
        })
    }

    fn add(
        &mut self,
        seen: impl Iterator<Item = (Nanos, Nanos)>,
        lost: u64,
    ) -> Result<(), laggard_record::WriteError> {
        let mut batch = Batch::default();
        for (expiry, late) in seen {
            let mut steps = [None; STAGES.len()];
            steps[Stage::User.index()] = Some(late);
            batch.push(&Activation {
                line: LineId(0),
                seq: self.seq,
                expiry,
                missed: false,
                censored: false,
                steps,
            });
            self.seq += 1;
            self.end = self.end.max(expiry + late);
            if batch.len() == BATCH {
                self.recorder.append(&std::mem::take(&mut batch))?;
            }
        }
        self.recorder.append(&batch)?;
        if lost > 0 {
            // Their numbers are nobody's, so that gaps tell of them.
            self.seq += lost;
            self.recorder.lose(&[lost]);
        }
        self.recorder.flush(linux::now())
    }
}

fn manifest(plan: &RowPlan, begin: Nanos) -> Manifest {
    let ago = linux::now().saturating_sub(begin);
    let ago = i64::try_from(ago.ns()).unwrap_or(0);
    let wall = Zoned::now() - SignedDuration::from_nanos(ago);
    let wall = wall.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string();
    let asked = ProbePlan {
        period_ns: plan.period,
        dither: false,
        seed: begin.ns(),
        duration_ns: Some(plan.duration),
        rows: plan.rows,
        ..ProbePlan::default()
    };
    let line = Line {
        cpu: plan.cpu,
        service: plan.service,
        route: Route::Direct,
    };
    let clock = Clock::monotonic(begin, wall);
    let words = std::env::args_os();
    Manifest {
        command: words
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        load: plan.load.clone().map(|name| LoadRun {
            name,
            command: Vec::new(),
            usage: None,
            ended: None,
            begun_ns: None,
            throughput: None,
        }),
        host: host::identify(&Files::default()),
        caveats: measuring::caveats(),
        ..Manifest::new(Backend::User, asked, clock, vec![line])
    }
}
