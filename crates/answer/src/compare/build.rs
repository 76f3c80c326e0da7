//! Computes the comparison from two sets of recordings.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_analyze::InputError;
use laggard_analyze::compare::{
    ComparisonVerdict, Magnitude, RecordingOrder, compare_recordings_in_order,
    expected_clusters_for, holm, mean_ratio,
};
use laggard_model::{Histogram, Manifest, Nanos, Route, Service};
use laggard_record::Recording;

use super::causes::CausesCompared;
use super::conditions::{differing, trace_data};
use super::lateness::{Lateness, RUN};
use super::quantiles::{ByService, QuantilesAsked, blocks, quantiles};
use super::rows::RowsCompared;
use super::{
    COMPARE_SCHEMA, Change, CompareError, CompareReport, Difference, LEAST_RECORDINGS, LateCount,
    LatencyCounts, LevelComparison, MissesComparison, OrderView, ServiceComparison, SideView,
    TrialLook, Unclear, WorkComparison, refusal, tails,
};
use crate::began::began;
use crate::load::{Load, LoadError, Run, have_rates, open};
use crate::qos::{Application, CONFIDENCE, LoadOutlook, assess};
use crate::selection::Selection;
use crate::trust::Trust;

/// Candidate quantiles for a level. The highest with enough later wakeups of both sides is used.
const SHARES: [f64; 4] = [0.9999, 0.999, 0.99, 0.9];
const ENOUGH_LATER: f64 = 100.0;
/// Change that `needed_ns` is for, and the power to find it.
const TIMES: f64 = 2.0;
const POWER: f64 = 0.8;
/// Upper 95 % limit of the expected count if nothing was counted: -ln 0.05.
const RULE_OF_THREE: f64 = 2.995_732_273_553_991;

/// Recordings to compare, and options.
#[derive(Clone, Debug)]
pub struct Question {
    /// Recordings of A, the reference.
    pub first: Vec<PathBuf>,
    /// Recordings of B.
    pub second: Vec<PathBuf>,
    /// Application whose slack is the level.
    pub application: Option<Application>,
    /// Levels; empty: a level is chosen for each series.
    pub levels: Vec<Nanos>,
    /// The only service to compare.
    pub service: Option<Service>,
    /// Ratios of rates from 1 / `equal` to `equal` count as the same.
    pub equal: f64,
    /// The change under test, if it is known.
    pub changed: Option<Difference>,
    /// Whether the load is the change.
    pub load_may_differ: bool,
    /// Maximum number of threads that read. The answer does not depend on it.
    pub threads: NonZeroUsize,
    /// Confidence of the verdicts of all evaluations together, 0 to 1.
    pub confidence: f64,
    /// Number of the evaluation, if the recordings are made for this.
    pub look: Option<TrialLook>,
    /// Seed of the order, if the recordings are made for this.
    pub seed: Option<u64>,
}

/// Compares two sets of recordings.
///
/// # Errors
/// If recordings differ in their plans, a recording is given twice, cannot be read or is not
/// trustworthy, or a figure is out of its range.
pub fn compare(question: &Question) -> Result<CompareReport, CompareError> {
    let dirs = [question.first.as_slice(), &question.second].concat();
    let mut recordings = open(&dirs)?;
    let of_first = question.first.len();
    let wants_rates = question.application.is_some() || !question.levels.is_empty();
    let rows = RowsCompared::new(&recordings, of_first).filter(|_| !wants_rates);
    match rows {
        Some(_) => refusal::same_rows(&recordings)?,
        None => have_rates(&recordings)?,
    }
    refusal::check(
        &recordings,
        of_first,
        question.service,
        question.load_may_differ,
    )?;
    let (first, second) = recordings.split_at_mut(of_first);
    for side in [&mut *first, second] {
        side.sort_by(|first_recording, second_recording| {
            began(first_recording.manifest()).cmp(&began(second_recording.manifest()))
        });
    }
    let sides = [&*first, &*second];
    let order = order(sides, question.seed.is_some());
    let mut loads = Vec::new();
    for side in sides {
        loads.push(load(side, question.threads)?);
    }
    let loads = [&loads[0], &loads[1]];
    let blocks = sides.map(|side| {
        let blocks_of_side = side
            .iter()
            .map(|recording| blocks(recording, question.threads));
        blocks_of_side.collect::<Vec<_>>()
    });
    let is_enough = sides.iter().all(|side| side.len() >= LEAST_RECORDINGS);
    let look = question.look.as_ref();
    let overall = question.confidence;
    let confidence = look.map_or(Ok(overall), |look| look.confidence(overall))?;
    let comparing = Comparing {
        question,
        loads,
        is_enough,
        confidence,
        order: &order,
        rows: rows.as_ref(),
    };
    let mut services = Vec::new();
    for line in comparing.lines() {
        services.push(comparing.service(line, &blocks)?);
    }
    let needed_alone = comparing.adjust(&mut services)?;
    tails::adjust(&mut services)?;
    if let Some(application) = &question.application {
        for (side, load) in loads.into_iter().enumerate() {
            let outlook = assess(load, application, question.service)?;
            misses(&mut services, side, &outlook);
        }
    }
    let causes = CausesCompared::new(sides, &order, confidence)?;
    let manifests = sides.map(|side| side.iter().map(Recording::manifest).collect::<Vec<_>>());
    let mut differing = differing([&manifests[0], &manifests[1]]);
    differing.extend(trace_data(&causes.watched));
    let (causes, causes_unknown) = match causes.changes {
        // Such recordings lack causes.
        _ if rows.is_some() => (Vec::new(), None),
        Ok(causes) => (causes, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let mut report = CompareReport {
        schema: COMPARE_SCHEMA,
        first: side_view(loads[0]),
        second: side_view(loads[1]),
        is_enough,
        equal: question.equal,
        confidence,
        looks: None,
        order: OrderView {
            sides: letters(&order),
            repeats_after: order.repeats_after(),
            seed: question.seed,
        },
        changed: question.changed.clone(),
        differing,
        application: question.application.clone(),
        rows,
        latency: manifests[0]
            .first()
            .and_then(|manifest| manifest.plan.rows.latency()),
        services,
        needed_alone,
        work: work([&manifests[0], &manifests[1]], &order)?,
        causes,
        causes_unknown,
        notes: loads.iter().flat_map(|load| load.notes()).collect(),
    };
    let state = |look: &TrialLook| look.state(&report, question.confidence);
    report.looks = look.map(state).transpose()?;
    Ok(report)
}

/// Returns the order of the recordings of both sides in time.
fn order(sides: [&[Recording]; 2], is_drawn: bool) -> RecordingOrder {
    let of_side = |(side, recordings): (usize, &[Recording])| {
        let starts = recordings
            .iter()
            .map(|recording| began(recording.manifest()));
        let starts: Vec<_> = starts
            .map(|(start, text)| (start, text.to_owned(), side))
            .collect();
        starts
    };
    let mut ordered: Vec<_> = sides.into_iter().enumerate().flat_map(of_side).collect();
    ordered.sort();
    let sides = ordered.into_iter().map(|(_, _, side)| side).collect();
    if is_drawn {
        RecordingOrder::from_drawn(sides)
    } else {
        RecordingOrder::new(sides)
    }
}

fn letters(order: &RecordingOrder) -> String {
    let letter = |&side: &usize| if side == 0 { 'A' } else { 'B' };
    order.sides().iter().map(letter).collect()
}

pub(super) fn load(side: &[Recording], threads: NonZeroUsize) -> Result<Load, CompareError> {
    let runs = side
        .iter()
        .map(|recording| Run::read(recording, threads))
        .collect::<Result<Vec<_>, LoadError>>()?;
    for run in &runs {
        if let Trust::None(reasons) = &run.trust {
            return Err(CompareError::Untrustworthy {
                dir: run.dir.clone(),
                reasons: reasons.clone(),
            });
        }
    }
    // All have one load: that was checked.
    Load::of(runs)
        .into_iter()
        .next()
        .ok_or_else(|| CompareError::Load(LoadError::Empty(PathBuf::new())))
}

fn side_view(load: &Load) -> SideView {
    SideView {
        recordings: load.paths(),
        load: load.label.clone(),
        duration_ns: load
            .runs
            .iter()
            .fold(Nanos::ZERO, |sum, run| sum + run.duration),
    }
}

/// Comparison of two loads.
struct Comparing<'a> {
    question: &'a Question,
    loads: [&'a Load; 2],
    is_enough: bool,
    confidence: f64,
    /// Order of the recordings in time.
    order: &'a RecordingOrder,
    /// Kind of the rows, if they lack rates.
    rows: Option<&'a RowsCompared>,
}

impl Comparing<'_> {
    /// Returns the series that both sides have, the most direct first.
    fn lines(&self) -> Vec<(Service, Route)> {
        let of_second = self.loads[1].lines();
        let mut lines = self.loads[0].lines();
        lines.retain(|line| of_second.contains(line));
        lines.retain(|line| self.question.service.is_none_or(|only| only == line.0));
        lines
    }

    fn service(
        &self,
        line: (Service, Route),
        blocks: &[Vec<Option<ByService>>; 2],
    ) -> Result<ServiceComparison, CompareError> {
        let mut levels = Vec::new();
        for (level, share) in self.levels(line) {
            levels.push(self.level(line, level, share)?);
        }
        let (tail, tail_unknown) = match self.rows {
            Some(_) => (None, None),
            None => match tails::tail(line, self.loads)? {
                Ok(tail) => (Some(tail), None),
                Err(why) => (None, Some(why)),
            },
        };
        Ok(ServiceComparison {
            service: line.0,
            route: line.1,
            levels,
            quantiles: quantiles(line, blocks, self.quantiles())?,
            tail,
            tail_unknown,
            misses: None,
            first: counts(self.loads[0], line),
            second: counts(self.loads[1], line),
        })
    }

    /// Returns the options of the comparison of quantiles. They are the only result if rows lack
    /// rates.
    fn quantiles(&self) -> QuantilesAsked {
        QuantilesAsked {
            early: self.rows.map_or([0; 2], |rows| rows.early),
            among: (self.rows.is_some() && self.is_enough && self.order.repeats_after().is_none())
                .then(|| self.lines().len()),
        }
    }

    /// Returns the levels: the given ones, or otherwise one that few wakeups of both sides exceed.
    fn levels(&self, line: (Service, Route)) -> Vec<(Nanos, Option<f64>)> {
        if self.rows.is_some() {
            return Vec::new();
        }
        if let Some(application) = &self.question.application {
            return vec![(application.slack_ns, None)];
        }
        if !self.question.levels.is_empty() {
            let levels = self.question.levels.iter();
            return levels.map(|&level| (level, None)).collect();
        }
        let chosen = chosen_level(&self.loads, line);
        let chosen = chosen.map(|(level, share)| (level, Some(share)));
        chosen.into_iter().collect()
    }

    fn level(
        &self,
        line: (Service, Route),
        level: Nanos,
        share: Option<f64>,
    ) -> Result<LevelComparison, CompareError> {
        let run = match &self.question.application {
            Some(application) => RUN.max(application.buffer_ns * application.buffers.into()),
            None => RUN,
        };
        let mut both = Vec::new();
        for load in self.loads {
            both.push(Lateness::new(load, line, level, run)?);
        }
        let [first, second] = [&both[0], &both[1]];
        let margin = self.question.equal;
        let set = |lateness: &Lateness| lateness.counts.clone();
        let compared = |first_counts: &[_], second_counts: &[_]| {
            compare_recordings_in_order(
                first_counts,
                second_counts,
                self.order,
                (margin, self.confidence),
            )
        };
        let comparison = compared(&set(first), &set(second))?;
        let ratio = comparison.comparison.ratio;
        let is_kept = self.loads.iter().all(|load| {
            let floor = Selection::new(load, line, None).floor();
            floor.unwrap_or_default() <= level
        });
        let change = match comparison.comparison.verdict {
            _ if !is_kept => Change::Unclear(Unclear::NotKept),
            _ if first.events() + second.events() == 0.0 => Change::Unclear(Unclear::Never),
            _ if !self.is_enough => Change::Unclear(Unclear::FewRecordings),
            ComparisonVerdict::Worse | ComparisonVerdict::Better if !comparison.pairs_agree => {
                Change::Unclear(Unclear::PairsDisagree)
            }
            ComparisonVerdict::Worse => Change::Worse,
            ComparisonVerdict::Better => Change::Better,
            ComparisonVerdict::Equivalent => Change::Equivalent,
            ComparisonVerdict::Inconclusive if comparison.is_of_order && comparison.pairs_agree => {
                Change::Unclear(Unclear::FixedOrder)
            }
            ComparisonVerdict::Inconclusive if comparison.varies || !comparison.pairs_agree => {
                Change::Unclear(Unclear::Varies)
            }
            ComparisonVerdict::Inconclusive => Change::Unclear(Unclear::TooFew),
        };
        let turned = |first_counts: &[_], second_counts: &[_]| {
            compared(first_counts, second_counts).map(|other| {
                verdict_of(change).is_some_and(|verdict| verdict != other.comparison.verdict)
            })
        };
        let is_lost =
            turned(&first.at_most(), &set(second))? || turned(&set(first), &second.at_most())?;
        let [first, second] = [
            first.view(comparison.dispersions[0]),
            second.view(comparison.dispersions[1]),
        ];
        let change = if is_lost {
            Change::Unclear(Unclear::Lost)
        } else if is_contradicted(change, [&first, &second], margin) {
            Change::Unclear(Unclear::TooOften)
        } else {
            change
        };
        Ok(LevelComparison {
            level_ns: level,
            share,
            ratio: ratio.ratio,
            ratio_low: ratio.interval.low,
            ratio_high: Some(ratio.interval.high).filter(|high| high.is_finite()),
            p: ratio.p,
            p_adjusted: ratio.p,
            between: comparison.between,
            trend: comparison.trend,
            contradicting: comparison.contradicting,
            change,
            is_ten_times: matches!(
                comparison.comparison.magnitude,
                Magnitude::TenTimesWorse | Magnitude::TenTimesBetter
            ),
            needed_ns: None,
            first,
            second,
        })
    }

    /// Adjusts the verdicts for the number of comparisons (docs/method.md 10.1). Returns the
    /// fraction of the necessary time that a single comparison would need.
    fn adjust(&self, services: &mut [ServiceComparison]) -> Result<f64, InputError> {
        let levels = services.iter_mut().flat_map(|service| &mut service.levels);
        let mut tested: Vec<&mut LevelComparison> =
            levels.filter(|level| is_tested(level)).collect();
        let p: Vec<f64> = tested.iter().map(|level| level.p).collect();
        let adjusted = holm(&p)?;
        let tests = p.len().max(1) as f64;
        let wrong = 1.0 - self.confidence;
        let recordings: usize = self.loads.iter().map(|load| load.runs.len()).sum();
        // Ranks need more recordings than there are.
        let recordings = recordings.max(2 * LEAST_RECORDINGS);
        let clusters = |wrong: f64| expected_clusters_for(TIMES, POWER, wrong, recordings);
        let (alone, wanted) = (clusters(wrong)?, clusters(wrong / tests)?);
        for (level, p) in tested.iter_mut().zip(adjusted) {
            level.p_adjusted = p;
            let is_told = matches!(level.change, Change::Worse | Change::Better);
            if is_told && p > wrong {
                level.change = Change::Unclear(Unclear::Chance);
            }
        }
        for level in services.iter_mut().flat_map(|service| &mut service.levels) {
            level.is_ten_times &= matches!(level.change, Change::Worse | Change::Better);
            let helps = matches!(level.change, Change::Unclear(why) if why.is_of_length());
            let cpus = self.cpus(level);
            let needed = helps.then(|| wanted * time_per_event(level) / cpus);
            level.needed_ns = needed.filter(|&needed| needed > level.first.exposure_ns / cpus);
        }
        Ok(alone / wanted)
    }

    /// Returns the number of CPUs in the exposure of a level.
    fn cpus(&self, level: &LevelComparison) -> f64 {
        let time = self.loads[0].runs.iter().map(|run| run.duration.as_f64());
        (level.first.exposure_ns / time.sum::<f64>()).max(1.0)
    }
}

/// Returns whether the share of late wakeups contradicts `change`, a verdict on the number of runs.
/// It matters if nearly all wakeups of a side are late.
pub(super) fn is_contradicted(change: Change, sides: [&LateCount; 2], margin: f64) -> bool {
    let ratio = sides[1].share() / sides[0].share();
    sides.iter().any(|side| side.is_crowded())
        && match change {
            Change::Worse => ratio < 1.0,
            Change::Better => ratio > 1.0,
            Change::Equivalent => !(1.0 / margin..margin).contains(&ratio),
            Change::Unclear(_) => false,
        }
}

impl Unclear {
    /// Returns whether longer recordings would help.
    pub const fn is_of_length(self) -> bool {
        matches!(
            self,
            Self::Never | Self::TooFew | Self::Varies | Self::Chance | Self::FewRecordings
        )
    }
}

const fn verdict_of(change: Change) -> Option<ComparisonVerdict> {
    match change {
        Change::Worse => Some(ComparisonVerdict::Worse),
        Change::Better => Some(ComparisonVerdict::Better),
        Change::Equivalent => Some(ComparisonVerdict::Equivalent),
        Change::Unclear(_) => None,
    }
}

/// Returns the level that few wakeups of all `loads` exceed, and the share that does not.
pub(super) fn chosen_level(loads: &[&Load], line: (Service, Route)) -> Option<(Nanos, f64)> {
    let mut both = Histogram::default();
    let mut floor = Nanos::ZERO;
    for load in loads {
        let selection = Selection::new(load, line, None);
        both.merge(&selection.histogram());
        floor = floor.max(selection.floor().unwrap_or_default());
    }
    let samples = both.count() as f64;
    let is_enough = |share: &&f64| samples * (1.0 - *share) >= ENOUGH_LATER;
    let share = SHARES.iter().find(is_enough).copied()?;
    let level = nearest(&both, both.quantile(share)?, share);
    let level = if level < floor {
        Histogram::upper_edge(Histogram::bucket_of(floor))
    } else {
        level
    };
    Some((level, share))
}

/// Returns the time of all CPUs per independent event, ns (a lower limit): from the first side, or
/// from both sides if the first had zero events.
fn time_per_event(level: &LevelComparison) -> f64 {
    let independent = |side: &LateCount| side.clusters / (side.dispersion * level.between);
    let (first, second) = (&level.first, &level.second);
    if first.clusters > 0.0 {
        return first.exposure_ns / independent(first);
    }
    let independent_events = independent(second);
    let events = if independent_events > 0.0 {
        independent_events
    } else {
        RULE_OF_THREE
    };
    (first.exposure_ns + second.exposure_ns) / events
}

/// Returns the edge near the bucket of `level` whose number of later wakeups is closest to the
/// wanted one. Many wakeups may have the same latency. Histograms have exact counts at their edges.
fn nearest(both: &Histogram, level: Nanos, share: f64) -> Nanos {
    let bucket = Histogram::bucket_of(level);
    let wanted = (1.0 - share) * both.count() as f64;
    let off = |edge: &Nanos| match both.count_above(*edge) {
        0 => f64::INFINITY,
        later => (later as f64 / wanted).ln().abs(),
    };
    let edges = [bucket, bucket.saturating_sub(1)].map(Histogram::upper_edge);
    edges
        .into_iter()
        .min_by(|first, second| off(first).total_cmp(&off(second)))
        .unwrap_or(level)
}

/// Returns whether the level is a test: it needs events, and recordings that kept them.
const fn is_tested(level: &LevelComparison) -> bool {
    !matches!(
        level.change,
        Change::Unclear(Unclear::Never | Unclear::NotKept)
    )
}

/// Returns the latency counts of a side.
fn counts(load: &Load, line: (Service, Route)) -> LatencyCounts {
    let selection = Selection::new(load, line, None);
    LatencyCounts {
        buckets: selection.histogram().buckets().collect(),
        is_at_least: !selection.waiting.is_empty(),
    }
}

/// Adds the xruns of the application on one side.
fn misses(services: &mut [ServiceComparison], side: usize, outlook: &LoadOutlook) {
    for service in services {
        let of_line = outlook.services.iter().find(|candidate| {
            (candidate.service, candidate.route) == (service.service, service.route)
        });
        let Some(figures) = of_line.map(|candidate| candidate.outlook.clone()) else {
            continue;
        };
        service.misses = match (side, service.misses.take()) {
            (0, _) => Some(MissesComparison {
                second: figures.clone(),
                first: figures,
            }),
            (_, Some(misses)) => Some(MissesComparison {
                second: figures,
                ..misses
            }),
            (_, None) => None,
        };
    }
}

/// Compares the work of the load, if all recordings count in the same unit.
fn work(
    sides: [&[&Manifest]; 2],
    order: &RecordingOrder,
) -> Result<Option<WorkComparison>, InputError> {
    let counted = |side: &[&Manifest]| -> Option<Vec<(String, f64)>> {
        let work_of_side = side.iter().map(|manifest| {
            let work = manifest.load.as_ref()?.throughput.as_ref()?;
            let rate = work.per_second().filter(|rate| *rate > 0.0)?;
            Some((work.unit.clone(), rate))
        });
        work_of_side.collect()
    };
    let (Some(first), Some(second)) = (counted(sides[0]), counted(sides[1])) else {
        return Ok(None);
    };
    let Some(unit) = first.first().map(|work| work.0.clone()) else {
        return Ok(None);
    };
    if first.iter().chain(&second).any(|work| work.0 != unit) {
        return Ok(None);
    }
    let rates = |side: &[(String, f64)]| side.iter().map(|work| work.1).collect::<Vec<_>>();
    let ratio = mean_ratio(&rates(&first), &rates(&second), CONFIDENCE)?;
    // The interval does not cover a job that comes in the rhythm of the order.
    let interval = ratio.interval.filter(|_| order.repeats_after().is_none());
    Ok(Some(WorkComparison {
        unit,
        first_per_second: ratio.means[0],
        second_per_second: ratio.means[1],
        ratio: ratio.ratio,
        ratio_low: interval.map(|interval| interval.low),
        ratio_high: interval.map(|interval| interval.high),
    }))
}
