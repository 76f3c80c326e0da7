//! Data of recordings, grouped by load: the input of forecasts and replays.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use laggard_analyze::distribution::{Fold, Group, Latest, LineSum, Lost, Split};
use laggard_analyze::exceedance::{Collector, Stream};
use laggard_model::{
    Backend, CaveatKind, Keep, LoadLabel, LoadRun, Manifest, Nanos, ProbePlan, Route, RowsOf,
    Service, Severity, UsagePattern,
};
use laggard_record::{Columns, OpenError, Recording, Shortfall};

use crate::began::began;
use crate::causes::KnownCauses;
use crate::floors::Floors;
use crate::note::{Doubt, Note};
use crate::scan::{self, Ask, ScanResult};
use crate::trust::{Case, Trust, judge};
use crate::waiting::{Waiting, waiting};

/// Data of one recording.
#[derive(Clone, Debug)]
pub struct Run {
    pub dir: PathBuf,
    pub path: String,
    /// Load during the recording.
    pub load: Option<LoadRun>,
    pub start: Nanos,
    /// Length of the recording.
    pub duration: Nanos,
    pub plan: ProbePlan,
    /// Distributions by service and route.
    pub groups: Vec<Group>,
    /// Late activations by CPU, service and route.
    pub streams: Vec<Stream>,
    /// CPUs that laggard kept busy, including BPF programs; 0 if not known.
    pub own_cpus: f64,
    /// Lines that were still waiting when measuring ended.
    pub waiting: Vec<Waiting>,
    /// Problems of the data.
    pub doubts: Vec<Doubt>,
    /// Whether the figures are trustworthy.
    pub trust: Trust,
}

/// Data of the recordings of one load.
#[derive(Clone, Debug)]
pub struct Load {
    pub label: LoadLabel,
    /// Recordings of the load.
    pub runs: Vec<Run>,
    /// Causes of the late wakeups, after they were read.
    causes: OnceLock<Arc<KnownCauses>>,
}

/// Reason why recordings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A recording cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A recording is given twice and would count twice.
    #[error(
        "`{}` and `{}` are the same recording and would count twice; give it once",
        first.display(),
        again.display()
    )]
    Twice {
        /// Path as given first.
        first: PathBuf,
        /// Path as given again, under another name or as a copy.
        again: PathBuf,
    },
    /// The recording lacks a wakeup.
    #[error(
        "`{}` contains no wakeup; see `laggard show {}`, and record again",
        .0.display(),
        .0.display()
    )]
    Empty(PathBuf),
    /// The question needs a rate per time, and the recording lacks a schedule.
    #[error(
        "`{}` contains {of}, so rates per time are unknown: {why}; use `laggard show`, `laggard report --figure distribution`, or `share` in `laggard check`",
        dir.display()
    )]
    NoRates {
        dir: PathBuf,
        /// Kind of its rows.
        of: String,
        /// Reason.
        why: &'static str,
    },
    /// The question has the demand of an application, which the latencies already contain.
    #[error(
        "`{}` contains {of}; laggard cannot compare them with the demand of an application: {why}",
        dir.display()
    )]
    NoDemand {
        dir: PathBuf,
        /// Kind of its rows.
        of: String,
        /// Reason.
        why: &'static str,
    },
    /// The recordings have rows of different kinds.
    #[error(
        "`{}` and `{}` have different rows: {first_of}, and {other_of}; use one recording at a time",
        first.display(),
        other.display()
    )]
    Mixed {
        /// Directory of a recording.
        first: PathBuf,
        /// Kind of its rows.
        first_of: String,
        /// Directory of another recording.
        other: PathBuf,
        /// Kind of the other rows.
        other_of: String,
    },
    /// The question is about minutes, and the recording has only hours.
    #[error(
        "`{}` has only hourly histograms; record with `--keep all` for figures per minute",
        .0.display()
    )]
    NoMinutes(PathBuf),
}

/// Samples of a recording: their distributions and the late ones.
pub(crate) struct SampleSearch {
    /// Distributions over all CPUs.
    pub(crate) groups: Vec<Group>,
    /// Latency floors. All samples above them are complete.
    pub(crate) floors: Floors,
    pub(crate) sums: Vec<LineSum>,
    pub(crate) late: Collector,
    /// Latest expiry.
    pub(crate) last: Option<Nanos>,
    /// Missing parts.
    pub(crate) shortfalls: Vec<Shortfall>,
}

/// Opens recordings.
///
/// # Errors
/// When one cannot be opened, or is given twice, by another name or as a
/// copy: it would count twice, and look like twice the evidence.
pub fn open(dirs: &[PathBuf]) -> Result<Vec<Recording>, LoadError> {
    let mut opened: Vec<Recording> = Vec::new();
    // Positions in `opened`.
    let mut places: HashMap<PathBuf, usize> = HashMap::new();
    let mut identities = HashMap::new();
    for dir in dirs {
        let recording = Recording::open(dir)?;
        let place = recording.dir().canonicalize().ok();
        let identity = identity(recording.manifest());
        let twins = [
            place.as_ref().and_then(|place| places.get(place)),
            identities.get(&identity),
        ];
        if let Some(&twin) = twins.into_iter().flatten().min() {
            return Err(LoadError::Twice {
                first: opened[twin].dir().into(),
                again: dir.clone(),
            });
        }
        places.extend(place.map(|place| (place, opened.len())));
        identities.insert(identity, opened.len());
        opened.push(recording);
    }
    Ok(opened)
}

/// Returns properties that only copies of a recording share: its start on both clocks, and the seed
/// of its timeline, which is a clock reading. A copy without names keeps them; its machine and time
/// zone are removed.
fn identity(manifest: &Manifest) -> (Nanos, Option<Timestamp>, u64) {
    (
        manifest.clock.start_ns,
        began(manifest).0,
        manifest.plan.seed,
    )
}

/// Reads every sample of the recordings and groups them by load.
///
/// # Errors
/// If a recording cannot be opened, is given twice, is empty, or has rows without rates.
pub fn loads(ask: &Ask) -> Result<Vec<Load>, LoadError> {
    let recordings = open(&ask.dirs)?;
    have_rates(&recordings)?;
    read(&recordings, ask)
}

/// Reads the recordings for a comparison with the demand of an application.
///
/// # Errors
/// As [`loads`], and if the latencies include work.
pub fn loads_for_demand(ask: &Ask) -> Result<Vec<Load>, LoadError> {
    let recordings = open(&ask.dirs)?;
    have_rates(&recordings)?;
    have_no_work(&recordings)?;
    read(&recordings, ask)
}

/// Refuses recordings whose latencies include the work of an application.
///
/// # Errors
/// If a recording is of this kind.
pub fn have_no_work(recordings: &[Recording]) -> Result<(), LoadError> {
    let refused = recordings.iter().find_map(|recording| {
        let plan = &recording.manifest().plan;
        let (rows, why) = plan.rows.words(plan.period_ns).zip(plan.rows.no_demand())?;
        let dir = recording.dir().into();
        Some(LoadError::NoDemand { dir, of: rows, why })
    });
    refused.map_or(Ok(()), Err)
}

/// Reads the recordings for shares. Rows without rates are accepted.
///
/// # Errors
/// If a recording cannot be opened, is given twice, is empty, or has rows of another kind than the
/// others.
pub(crate) fn loads_for_shares(ask: &Ask) -> Result<Vec<Load>, LoadError> {
    let recordings = open(&ask.dirs)?;
    let plan = |recording: &Recording| recording.manifest().plan.clone();
    let rows = |recording: &Recording| {
        let plan = plan(recording);
        let words = plan.rows.words(plan.period_ns);
        words.unwrap_or_else(|| "expiries".into())
    };
    if let Some((first, others)) = recordings.split_first() {
        let other = others.iter().find(|other| rows(other) != rows(first));
        if let Some(other) = other {
            return Err(LoadError::Mixed {
                first: first.dir().into(),
                first_of: rows(first),
                other: other.dir().into(),
                other_of: rows(other),
            });
        }
    }
    read(&recordings, ask)
}

fn read(recordings: &[Recording], ask: &Ask) -> Result<Vec<Load>, LoadError> {
    let runs = recordings
        .iter()
        .map(|recording| Run::read(recording, ask.threads));
    Ok(Load::of(runs.collect::<Result<_, _>>()?))
}

/// Refuses recordings whose rows lack a rate over time.
///
/// # Errors
/// If a recording is of this kind.
pub fn have_rates(recordings: &[Recording]) -> Result<(), LoadError> {
    let refused = recordings.iter().find_map(|recording| {
        let plan = &recording.manifest().plan;
        no_rates(recording.dir(), plan)
    });
    refused.map_or(Ok(()), Err)
}

/// Returns the reason why rows of this plan lack rates; `None` if they have rates.
pub(crate) fn no_rates(dir: &Path, plan: &ProbePlan) -> Option<LoadError> {
    let (rows, why) = plan.rows.words(plan.period_ns).zip(plan.rows.no_rates())?;
    let dir = dir.into();
    Some(LoadError::NoRates { dir, of: rows, why })
}

impl Load {
    /// Creates a load from its recordings.
    pub const fn new(label: LoadLabel, runs: Vec<Run>) -> Self {
        Self {
            label,
            runs,
            causes: OnceLock::new(),
        }
    }

    /// Groups recordings by load, in the order of the names.
    pub fn of(runs: Vec<Run>) -> Vec<Self> {
        let mut loads: BTreeMap<LoadLabel, Self> = BTreeMap::new();
        for run in runs {
            let label = LoadLabel::of(run.load.as_ref());
            let load = loads.entry(label.clone());
            let load = load.or_insert_with(|| Self::new(label, Vec::new()));
            load.runs.push(run);
        }
        loads.into_values().collect()
    }

    /// Returns the usage pattern, if a recording has one.
    pub fn usage(&self) -> Option<UsagePattern> {
        let loads = self.runs.iter().filter_map(|run| run.load.as_ref());
        loads.into_iter().find_map(|load| load.usage)
    }

    /// Returns the services and routes with at least one wakeup, in the order of the recordings.
    pub fn lines(&self) -> Vec<(Service, Route)> {
        let mut lines = Vec::new();
        let groups = self.runs.iter().flat_map(|run| &run.groups);
        for group in groups.filter(|group| group.latency.histogram().count() > 0) {
            let line = (group.key.service, group.key.route);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    /// Returns the paths of the recordings.
    pub fn paths(&self) -> Vec<String> {
        self.runs.iter().map(|run| run.path.clone()).collect()
    }

    /// Returns the problems of each recording.
    pub fn notes(&self) -> Vec<Note> {
        self.runs.iter().flat_map(Run::notes).collect()
    }

    /// Refuses rows without rates.
    pub(crate) fn has_rates(&self) -> Result<(), LoadError> {
        let refused = self
            .runs
            .iter()
            .find_map(|run| no_rates(&run.dir, &run.plan));
        refused.map_or(Ok(()), Err)
    }

    /// Returns whether wakeups are due during a stall, so that a long stall makes many of them
    /// late. Context switches and waits start when the one before has ended, and the rows of a
    /// trace are durations: a stall makes one of them late.
    pub(crate) fn wakes_up_during_stalls(&self) -> bool {
        let rows = self.runs.iter().map(|run| run.plan.rows);
        rows.into_iter()
            .all(|rows| matches!(rows, RowsOf::Expiries | RowsOf::Activations))
    }

    /// Returns whether every recording is trustworthy and undamaged.
    pub fn is_trusted(&self) -> bool {
        let is_damage = |doubt: &Doubt| matches!(doubt, Doubt::Missing(shortfall) if shortfall.severity() == Severity::Spoils);
        self.runs
            .iter()
            .all(|run| run.trust == Trust::Good && !run.doubts.iter().any(is_damage))
    }

    /// Returns whether the load failed, was stopped, or ended before a recording did. The recording
    /// then contains time without the load.
    pub(crate) fn has_ended_early(&self) -> bool {
        let doubts = self.runs.iter().flat_map(|run| &run.doubts);
        doubts.into_iter().any(
            |doubt| matches!(doubt, Doubt::Caveat(caveat) if caveat.kind == CaveatKind::LoadEnded),
        )
    }

    /// Returns the causes of the late wakeups. They are read once for all answers.
    ///
    /// # Errors
    /// If a recording cannot be read again.
    pub fn causes(&self) -> Result<Arc<KnownCauses>, OpenError> {
        if let Some(causes) = self.causes.get() {
            return Ok(causes.clone());
        }
        let mut causes = KnownCauses::default();
        for run in &self.runs {
            causes.read(&Recording::open(&run.dir)?)?;
        }
        Ok(self.causes.get_or_init(|| Arc::new(causes)).clone())
    }
}

impl Run {
    /// Returns the problems of the recording, with its path.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        self.doubts.iter().map(|doubt| Note {
            recording: Some(self.path.clone()),
            doubt: doubt.clone(),
        })
    }

    /// Reads every kept sample.
    pub(crate) fn read(recording: &Recording, threads: NonZeroUsize) -> Result<Self, LoadError> {
        Self::new(recording, search(recording, threads).0)
    }

    /// Computes the data of a recording from its samples.
    ///
    /// # Errors
    /// If the recording does not have a wakeup.
    pub(crate) fn new(recording: &Recording, searched: SampleSearch) -> Result<Self, LoadError> {
        let manifest = recording.manifest();
        let dir = recording.dir();
        let SampleSearch {
            groups,
            floors,
            sums,
            late,
            last,
            shortfalls,
        } = searched;
        let mut streams = late.streams(&manifest.lines);
        floors.raise(&mut streams);
        let start = manifest.clock.start_ns;
        let end = manifest.clock.end_ns.or(last).unwrap_or(start);
        let duration = end.saturating_sub(start);
        if duration == Nanos::ZERO || streams.is_empty() {
            return Err(LoadError::Empty(dir.into()));
        }
        let judged = judge(&Case::new(manifest, &sums));
        let mut doubts = doubts(manifest, &shortfalls);
        doubts.extend(judged.doubts.into_iter().map(Doubt::Measuring));
        if let Trust::None(reasons) = &judged.trust {
            doubts.insert(0, Doubt::Untrustworthy(reasons.clone()));
        }
        Ok(Self {
            dir: dir.into(),
            path: dir.display().to_string(),
            load: manifest.load.clone(),
            start,
            duration,
            plan: manifest.plan.clone(),
            groups,
            streams,
            own_cpus: own_cpus(manifest),
            waiting: waiting(&manifest.lines, &sums),
            doubts,
            trust: judged.trust,
        })
    }
}

/// Returns the number of CPUs that laggard kept busy; 0 if not counted.
fn own_cpus(manifest: &Manifest) -> f64 {
    let wall = manifest.cost.wall_ns.as_secs_f64();
    if wall > 0.0 {
        manifest.cost.total().as_secs_f64() / wall
    } else {
        0.0
    }
}

/// Returns the problems of the recording.
fn doubts(manifest: &Manifest, shortfalls: &[Shortfall]) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = shortfalls.iter().cloned().map(Doubt::Missing).collect();
    let lost = manifest.losses.activations();
    if lost > 0 {
        doubts.push(Doubt::Lost(lost));
    }
    if manifest.backend == Backend::Fake {
        doubts.push(Doubt::Scripted);
    }
    let spoilt = manifest
        .caveats
        .iter()
        .filter(|caveat| caveat.kind.severity() == Severity::Spoils);
    doubts.extend(spoilt.cloned().map(Doubt::Caveat));
    doubts
}

/// Creates the collector of late wakeups of a recording.
pub(crate) fn collector(manifest: &Manifest) -> Collector {
    let plan = &manifest.plan;
    let gap = |&line| plan.every.longest_gap(line, plan.period_ns, plan.dither);
    Collector::of(manifest.lines.iter().map(gap).collect())
}

/// Searches the samples for late ones, and counts them.
pub(crate) fn search(recording: &Recording, threads: NonZeroUsize) -> (SampleSearch, Fold) {
    let manifest = recording.manifest();
    let lines = manifest.lines.len();
    let new = || {
        let late = (collector(manifest), Latest::default());
        (Fold::new(lines, Split::Whole), late)
    };
    let ScanResult {
        gathered: (mut fold, (late, last)),
        mut shortfalls,
    } = scan::scan(recording, threads.min(scan::FEW), Columns::all(), new);
    let mut floors = Floors::default();
    if manifest.plan.keep == Keep::Tail {
        let counted = scan::stored(recording, &mut shortfalls).0;
        floors = Floors::new(&manifest.lines, &fold, &counted);
        fold = counted;
    }
    fold.set_lost(Lost::new(&manifest.counts, &manifest.losses));
    let searched = SampleSearch {
        groups: fold.groups(&manifest.lines, false),
        floors,
        sums: fold.sums(),
        late,
        last: last.0,
        shortfalls,
    };
    (searched, fold)
}
