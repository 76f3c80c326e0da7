//! Recordings of `bench switch` and `bench timers`: one per row, in one directory.

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

/// Samples written at a time.
const MAX_BATCH: usize = 1 << 16;

/// Contents of the recording of one row.
#[derive(Clone, Debug)]
pub(crate) struct RowPlan {
    /// Name of the recording, without its extension.
    pub(crate) name: String,
    pub(crate) rows: RowsOf,
    pub(crate) service: Service,
    pub(crate) cpu: Cpu,
    /// Requested period of a timer; otherwise 0.
    pub(crate) period: Nanos,
    /// Planned duration.
    pub(crate) duration: Nanos,
    pub(crate) load: Option<String>,
}

/// Directory of the recordings.
#[derive(Debug)]
pub(crate) struct RowFolder {
    folder: Folder,
    recordings: Vec<RowRecording>,
    /// Error that ended the writing.
    refused: Option<anyhow::Error>,
}

#[derive(Debug)]
struct RowRecording {
    name: String,
    place: Destination,
    recorder: Recorder,
    seq: u64,
    end: Nanos,
}

impl RowFolder {
    /// Creates the directory, which must not exist.
    pub(crate) fn make(dir: &Path) -> anyhow::Result<Self> {
        let folder = Folder::make(dir, Access::Private).with_context(|| {
            format!(
                "cannot create the directory `{}` for the recordings; give another name with -o",
                dir.display()
            )
        })?;
        Ok(Self {
            folder,
            recordings: Vec::new(),
            refused: None,
        })
    }

    /// Adds the samples of a row in order: the expiry and the latency of each. The recording starts
    /// with the first sample. After an error nothing more is written, and [`RowFolder::end`]
    /// returns the error, because the figures do not depend on it.
    pub(crate) fn add(
        &mut self,
        plan: &RowPlan,
        samples: impl IntoIterator<Item = (Nanos, Nanos)>,
        lost: u64,
    ) {
        if self.refused.is_none() {
            self.refused = self.try_add(plan, samples, lost).err();
        }
    }

    fn try_add(
        &mut self,
        plan: &RowPlan,
        samples: impl IntoIterator<Item = (Nanos, Nanos)>,
        lost: u64,
    ) -> anyhow::Result<()> {
        let mut samples = samples.into_iter().peekable();
        let Some(&(start, _)) = samples.peek() else {
            return Ok(());
        };
        let mut names = self.recordings.iter().map(|recording| &recording.name);
        let position = names.position(|name| *name == plan.name);
        let position = if let Some(position) = position {
            position
        } else {
            let recording = RowRecording::start(&self.folder, plan, start)?;
            self.recordings.push(recording);
            self.recordings.len() - 1
        };
        let recording = &mut self.recordings[position];
        let written = recording.add(samples, lost);
        written.with_context(|| format!("cannot write `{}`", recording.place.path().display()))
    }

    /// Completes the recordings and returns their number. Removes the directory if their number is
    /// zero.
    ///
    /// # Errors
    /// When a recording cannot be written, or could not be before.
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
            ended.with_context(|| format!("cannot write `{path}`"))?;
            measuring::hand_over(place.folder())?;
        }
        match count {
            // Another program may have put a file there, which must stay.
            0 => drop(self.folder.remove()),
            _ => measuring::hand_over(Some(&self.folder))?,
        }
        self.refused.map_or(Ok(count), Err)
    }
}

impl RowRecording {
    fn start(folder: &Folder, plan: &RowPlan, start: Nanos) -> anyhow::Result<Self> {
        let place = Destination::within(folder, &format!("{}.laggard", plan.name));
        let recorder = Recorder::create(place.clone(), manifest(plan, start))
            .with_context(|| format!("cannot create `{}`", place.path().display()))?;
        Ok(Self {
            name: plan.name.clone(),
            place,
            recorder,
            seq: 0,
            end: start,
        })
    }

    fn add(
        &mut self,
        samples: impl Iterator<Item = (Nanos, Nanos)>,
        lost: u64,
    ) -> Result<(), laggard_record::WriteError> {
        let mut batch = Batch::default();
        for (expiry, latency) in samples {
            let mut steps = [None; STAGES.len()];
            steps[Stage::User.index()] = Some(latency);
            batch.push(&Activation::new(LineId(0), self.seq, expiry, steps));
            self.seq += 1;
            self.end = self.end.max(expiry + latency);
            if batch.len() == MAX_BATCH {
                self.recorder.append(&std::mem::take(&mut batch))?;
            }
        }
        self.recorder.append(&batch)?;
        if lost > 0 {
            // The numbers of lost samples are skipped, so that gaps show them.
            self.seq += lost;
            self.recorder.lose(&[lost]);
        }
        self.recorder.flush(linux::now())
    }
}

fn manifest(plan: &RowPlan, start: Nanos) -> Manifest {
    let ago = linux::now().saturating_sub(start);
    let ago = i64::try_from(ago.ns()).unwrap_or(0);
    let wall = Zoned::now() - SignedDuration::from_nanos(ago);
    let wall = wall.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string();
    let probe = ProbePlan {
        period_ns: plan.period,
        dither: false,
        seed: start.ns(),
        duration_ns: Some(plan.duration),
        rows: plan.rows,
        ..ProbePlan::default()
    };
    let line = Line::new(plan.cpu, plan.service, Route::Direct);
    let clock = Clock::monotonic(start, wall);
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
        ..Manifest::new(Backend::User, probe, clock, vec![line])
    }
}
