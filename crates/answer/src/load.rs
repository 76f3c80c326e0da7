//! What recordings saw, by load: where forecasts and replays begin.

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
use crate::scan::{self, Ask, Scanned};
use crate::trust::{Case, Trust, judge};
use crate::waiting::{Waiting, waiting};

/// What one recording saw.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its folder.
    pub dir: PathBuf,
    /// The same, to be shown.
    pub path: String,
    /// What else the machine did.
    pub load: Option<LoadRun>,
    /// When measuring began.
    pub start: Nanos,
    /// How long was recorded.
    pub duration: Nanos,
    /// What was asked.
    pub plan: ProbePlan,
    /// Distributions by service and route.
    pub groups: Vec<Group>,
    /// Late activations by CPU, service and route.
    pub streams: Vec<Stream>,
    /// CPUs that measuring kept busy, BPF programs and all; 0 where that is
    /// not known.
    pub own_cpus: f64,
    /// Lines that were still waiting when measuring ended.
    pub waiting: Vec<Waiting>,
    /// What is missing or spoils it, in plain words.
    pub doubts: Vec<Doubt>,
    /// Whether its figures can be trusted.
    pub trust: Trust,
}

/// What the recordings of one load saw.
#[derive(Clone, Debug)]
pub struct Load {
    /// The load's name.
    pub label: LoadLabel,
    /// Its recordings.
    pub runs: Vec<Run>,
    /// Causes of its late wakeups, once they have been read.
    causes: OnceLock<Arc<KnownCauses>>,
}

/// Why recordings cannot be answered from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// One cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One is given twice and would count twice.
    #[error(
        "`{}` and `{}` are the same recording and would count twice; give it once",
        first.display(),
        again.display()
    )]
    Twice {
        /// As it was given first.
        first: PathBuf,
        /// As it was given again, by another name or as a copy.
        again: PathBuf,
    },
    /// Nothing was measured.
    #[error(
        "`{}` contains no wakeup; see `laggard show {}`, and record again",
        .0.display(),
        .0.display()
    )]
    Empty(PathBuf),
    /// A rate per time is asked of a recording without a schedule.
    #[error(
        "`{}` contains {of}, so rates per time are unknown: {why}; use `laggard show`, `laggard report --figure distribution`, or `share` in `laggard check`",
        dir.display()
    )]
    NoRates {
        /// The recording.
        dir: PathBuf,
        /// What its rows are.
        of: String,
        /// Why.
        why: &'static str,
    },
    /// An application's demand is held against latencies that have it in them.
    #[error(
        "`{}` contains {of}; laggard cannot compare them with the demand of an application: {why}",
        dir.display()
    )]
    NoDemand {
        /// The recording.
        dir: PathBuf,
        /// What its rows are.
        of: String,
        /// Why.
        why: &'static str,
    },
    /// Rows of several kinds would be counted together.
    #[error(
        "`{}` and `{}` have different rows: {first_of}, and {other_of}; use one recording at a time",
        first.display(),
        other.display()
    )]
    Mixed {
        /// A recording.
        first: PathBuf,
        /// What its rows are.
        first_of: String,
        /// Another one.
        other: PathBuf,
        /// What those of it are.
        other_of: String,
    },
    /// Minutes were asked for where only hours are kept apart.
    #[error(
        "`{}` has only hourly histograms; record with `--keep all` for figures per minute",
        .0.display()
    )]
    NoMinutes(PathBuf),
}

/// A recording's samples, counted and searched for late ones.
pub(crate) struct Searched {
    /// Distributions, CPUs together.
    pub(crate) groups: Vec<Group>,
    /// From where on the samples are complete.
    pub(crate) floors: Floors,
    /// What was counted of each line.
    pub(crate) sums: Vec<LineSum>,
    pub(crate) late: Collector,
    /// The latest expiry.
    pub(crate) last: Option<Nanos>,
    /// What is missing.
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

/// What no two recordings share: when it began, by the monotonic clock and by the
/// wall clock, and the seed of its timeline, which is a clock reading too. A copy
/// without names has all of that; its machine and time zone have no name.
fn identity(manifest: &Manifest) -> (Nanos, Option<Timestamp>, u64) {
    (
        manifest.clock.start_ns,
        began(manifest).0,
        manifest.plan.seed,
    )
}

/// Reads every sample of the recordings that are asked, and puts those of the
/// same load together.
///
/// # Errors
/// When one cannot be opened, is given twice, holds no activation, or is of what has
/// no rates over time.
pub fn loads(ask: &Ask) -> Result<Vec<Load>, LoadError> {
    let recordings = open(&ask.dirs)?;
    have_rates(&recordings)?;
    read(&recordings, ask)
}

/// The same for who holds an application's demand against latencies.
///
/// # Errors
/// As [`loads`], and when latencies have work in them.
pub fn loads_for_demand(ask: &Ask) -> Result<Vec<Load>, LoadError> {
    let recordings = open(&ask.dirs)?;
    have_rates(&recordings)?;
    have_no_work(&recordings)?;
    read(&recordings, ask)
}

/// Refuses recordings whose latencies have an application's work in them.
///
/// # Errors
/// When one of them is such.
pub fn have_no_work(recordings: &[Recording]) -> Result<(), LoadError> {
    let refused = recordings.iter().find_map(|recording| {
        let plan = &recording.manifest().plan;
        let (of, why) = plan.rows.words(plan.period_ns).zip(plan.rows.no_demand())?;
        let dir = recording.dir().into();
        Some(LoadError::NoDemand { dir, of, why })
    });
    refused.map_or(Ok(()), Err)
}

/// The same for who asks for shares alone: of rows that do not come by themselves,
/// too.
///
/// # Errors
/// When one cannot be opened, is given twice, holds no activation, or has other rows
/// than the others.
pub(crate) fn loads_for_shares(ask: &Ask) -> Result<Vec<Load>, LoadError> {
    let recordings = open(&ask.dirs)?;
    let plan = |one: &Recording| one.manifest().plan.clone();
    let of = |one: &Recording| {
        let plan = plan(one);
        let words = plan.rows.words(plan.period_ns);
        words.unwrap_or_else(|| "expiries".into())
    };
    if let Some((first, others)) = recordings.split_first() {
        let other = others.iter().find(|other| of(other) != of(first));
        if let Some(other) = other {
            return Err(LoadError::Mixed {
                first: first.dir().into(),
                first_of: of(first),
                other: other.dir().into(),
                other_of: of(other),
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

/// Refuses recordings of what does not come by itself: how often something is late is
/// not told by them.
///
/// # Errors
/// When one of them is such.
pub fn have_rates(recordings: &[Recording]) -> Result<(), LoadError> {
    let refused = recordings.iter().find_map(|recording| {
        let plan = &recording.manifest().plan;
        no_rates(recording.dir(), plan)
    });
    refused.map_or(Ok(()), Err)
}

/// Why no rates are told of a recording with this plan; `None`: they can be.
pub(crate) fn no_rates(dir: &Path, plan: &ProbePlan) -> Option<LoadError> {
    let (of, why) = plan.rows.words(plan.period_ns).zip(plan.rows.no_rates())?;
    let dir = dir.into();
    Some(LoadError::NoRates { dir, of, why })
}

impl Load {
    /// A load with its recordings.
    pub const fn new(label: LoadLabel, runs: Vec<Run>) -> Self {
        Self {
            label,
            runs,
            causes: OnceLock::new(),
        }
    }

    /// Puts recordings of the same load together, in the order of the loads'
    /// names.
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

    /// Who uses it how, where a recording says so.
    pub fn usage(&self) -> Option<UsagePattern> {
        let loads = self.runs.iter().filter_map(|run| run.load.as_ref());
        loads.into_iter().find_map(|load| load.usage)
    }

    /// What was recorded: services by route, in the order of the recordings. One of
    /// which no activation was seen is not among them: nothing can be answered
    /// from it.
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

    /// Where its recordings are.
    pub fn paths(&self) -> Vec<String> {
        self.runs.iter().map(|run| run.path.clone()).collect()
    }

    /// What is missing from its recordings or spoils them, each with where.
    pub fn notes(&self) -> Vec<Note> {
        self.runs.iter().flat_map(Run::notes).collect()
    }

    /// Refuses to tell how often something is late where the rows do not come by
    /// themselves.
    pub(crate) fn has_rates(&self) -> Result<(), LoadError> {
        let refused = self
            .runs
            .iter()
            .find_map(|run| no_rates(&run.dir, &run.plan));
        refused.map_or(Ok(()), Err)
    }

    /// Whether wakeups are due while a stall lasts, so that a long one makes many of them
    /// late. Hand-overs and waits start when the one before has ended, and the rows of a
    /// trace are durations: a stall makes one of them late.
    pub(crate) fn wakes_up_during_stalls(&self) -> bool {
        let rows = self.runs.iter().map(|run| run.plan.rows);
        rows.into_iter()
            .all(|rows| matches!(rows, RowsOf::Expiries | RowsOf::Activations))
    }

    /// Whether no recording lost too much to be trusted.
    pub fn is_trusted(&self) -> bool {
        self.runs.iter().all(|run| run.trust == Trust::Good)
    }

    /// Whether the load failed, ended before a recording did, or was stopped meanwhile:
    /// that is then partly of a machine without it.
    pub(crate) fn has_ended_early(&self) -> bool {
        let doubts = self.runs.iter().flat_map(|run| &run.doubts);
        doubts.into_iter().any(
            |doubt| matches!(doubt, Doubt::Caveat(caveat) if caveat.kind == CaveatKind::LoadEnded),
        )
    }

    /// The causes of its late activations, as far as they were kept. They are read
    /// once, however many answers need them.
    ///
    /// # Errors
    /// When a recording cannot be read again.
    pub fn causes(&self) -> Result<Arc<KnownCauses>, OpenError> {
        if let Some(known) = self.causes.get() {
            return Ok(known.clone());
        }
        let mut known = KnownCauses::default();
        for run in &self.runs {
            known.read(&Recording::open(&run.dir)?)?;
        }
        Ok(self.causes.get_or_init(|| Arc::new(known)).clone())
    }
}

impl Run {
    /// What speaks against it, for an answer that other recordings share.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        self.doubts.iter().map(|doubt| Note {
            recording: Some(self.path.clone()),
            doubt: doubt.clone(),
        })
    }

    /// Reads every sample that was kept.
    pub(crate) fn read(recording: &Recording, threads: NonZeroUsize) -> Result<Self, LoadError> {
        Self::new(recording, search(recording, threads).0)
    }

    /// What a recording saw, from its samples.
    ///
    /// # Errors
    /// When it holds no activation.
    pub(crate) fn new(recording: &Recording, searched: Searched) -> Result<Self, LoadError> {
        let manifest = recording.manifest();
        let dir = recording.dir();
        let Searched {
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
        let judged = judge(&Case::of(manifest, &sums));
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

/// CPUs that measuring kept busy; 0 where that was not counted.
fn own_cpus(manifest: &Manifest) -> f64 {
    let wall = manifest.cost.wall_ns.as_secs_f64();
    if wall > 0.0 {
        manifest.cost.total().as_secs_f64() / wall
    } else {
        0.0
    }
}

/// What speaks against the recording, in plain words.
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
        .filter(|one| one.kind.severity() == Severity::Spoils);
    doubts.extend(spoilt.cloned().map(Doubt::Caveat));
    doubts
}

/// For the late activations of a recording.
pub(crate) fn collector(manifest: &Manifest) -> Collector {
    let plan = &manifest.plan;
    let gap = |&line| plan.every.longest_gap(line, plan.period_ns, plan.dither);
    Collector::of(manifest.lines.iter().map(gap).collect())
}

/// The samples, searched for late ones, and how many there are of each.
pub(crate) fn search(recording: &Recording, threads: NonZeroUsize) -> (Searched, Fold) {
    let manifest = recording.manifest();
    let lines = manifest.lines.len();
    let new = || {
        let late = (collector(manifest), Latest::default());
        (Fold::new(lines, Split::Whole), late)
    };
    let Scanned {
        gathered: (mut fold, (late, last)),
        mut shortfalls,
    } = scan::scan(recording, threads.min(scan::FEW), Columns::all(), new);
    let mut floors = Floors::default();
    if manifest.plan.keep == Keep::Tail {
        let counted = scan::stored(recording, &mut shortfalls).0;
        floors = Floors::of(&manifest.lines, &fold, &counted);
        fold = counted;
    }
    fold.set_lost(Lost::of(&manifest.counts, &manifest.losses));
    let searched = Searched {
        groups: fold.groups(&manifest.lines, false),
        floors,
        sums: fold.sums(),
        late,
        last: last.0,
        shortfalls,
    };
    (searched, fold)
}
