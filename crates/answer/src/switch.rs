//! `laggard bench switch`: how long a machine takes from thread to thread.

use laggard_analyze::InputError;
use laggard_analyze::compare::geometric_mean;
use laggard_analyze::hand_over::{HandOverTimes, growth, hand_over_times, net};
use laggard_model::{Absence, Caveat, Cpu, Host, SwitchRun, SwitchStretch, SwitchSums, SwitchWay};
use schemars::JsonSchema;
use serde::Serialize;

use crate::qos::CONFIDENCE;

/// So many hand-overs of a stretch are kept one by one: more of them in a picture are
/// one spot.
const SERIES: usize = 1_000;

/// The version of `switch --json`.
pub const SWITCH_SCHEMA: u32 = 1;
/// The kernel may count so many more: those of a stretch's first and last instants.
const COUNTED_ALIKE: f64 = 0.01;
/// Changes by less are none, however sure.
const LEAST_CHANGE: f64 = 1.05;

/// What was measured of hand-overs, by whoever measured.
#[derive(Clone, Debug)]
pub struct SwitchesMeasured {
    /// The machine.
    pub host: Host,
    /// The CPU that was handed over.
    pub cpu: Cpu,
    /// The other one, where every second thread was on it.
    pub other_cpu: Option<Cpu>,
    /// What else the machine did meanwhile: a load's name.
    pub load: Option<String>,
    /// Each way with each number of threads, from few to many.
    pub runs: Vec<SwitchRun<StretchFigures>>,
    /// How many stretches each was to have.
    pub stretches: usize,
    /// Why nothing tells what came between hand-overs; `None`: it is told.
    pub unwatched_because: Option<Absence>,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

/// What a stretch says, without its hand-overs one by one: of those there are a
/// million a second.
#[derive(Clone, Debug)]
pub struct StretchFigures {
    /// `None`: nobody handed over.
    gross: Option<HandOverTimes>,
    /// Without what came between; `None` too where nothing watched.
    net: Option<HandOverTimes>,
    /// The first hand-overs, ns.
    first: Vec<u32>,
    sums: Option<SwitchSums>,
    counted_by_kernel: u64,
    left_out: u64,
    unkept: u64,
    alone_ns: u64,
}

impl StretchFigures {
    /// Of one stretch.
    ///
    /// # Errors
    /// When what came between is not told of each hand-over.
    pub fn of(stretch: &SwitchStretch) -> Result<Self, InputError> {
        let times = |took: &[u32]| {
            if took.is_empty() {
                Ok(None)
            } else {
                hand_over_times(took).map(Some)
            }
        };
        let watched = stretch.watched.as_ref();
        let net = watched.map(|watched| net(&stretch.took_ns, &watched.between));
        Ok(Self {
            gross: times(&stretch.took_ns)?,
            net: times(&net.transpose()?.unwrap_or_default())?,
            first: stretch.took_ns.iter().copied().take(SERIES).collect(),
            sums: watched.map(|watched| watched.sums),
            counted_by_kernel: stretch.counted_by_kernel,
            left_out: stretch.left_out,
            unkept: stretch.unkept,
            alone_ns: stretch.alone_ns,
        })
    }
}

/// How long a machine takes from thread to thread.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SwitchReport {
    /// The version of this layout.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// The CPU that was handed over.
    pub cpu: Cpu,
    /// The other one, where every second thread was on it.
    pub other_cpu: Option<Cpu>,
    /// What else the machine did meanwhile: a load's name.
    pub load: Option<String>,
    /// Each way with each number of threads.
    pub rows: Vec<SwitchRow>,
    /// For each way, whether it grows with the number of threads.
    pub growth: Vec<SwitchGrowth>,
    /// Whether all stretches that were planned were measured.
    pub is_whole: bool,
    /// Why nothing tells what came between hand-overs, so that no row has `net`.
    pub net_absence: Option<Absence>,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

/// Hand-overs by one way among so many threads.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SwitchRow {
    /// How many threads.
    pub threads: usize,
    /// How, and as what.
    #[serde(flatten)]
    pub way: SwitchWay,
    /// Hand-overs.
    pub count: usize,
    /// How often the kernel counted that one of the threads left its CPU.
    pub counted_by_kernel: u64,
    /// Hand-overs that there was no room for.
    pub left_out: u64,
    /// How often one left the CPU at the start, for a pause or around one.
    pub unkept: u64,
    /// What going through the working set takes alone, ns: it is taken off each
    /// hand-over. Absent where there is none.
    pub alone_ns: Option<u64>,
    /// From the instant before a hand-over to the next thread's first, or to when
    /// that has gone through its working set.
    pub took: Option<SwitchTimes>,
    /// The same without what came between: interrupts, softirqs, threads that take
    /// no part, and what the hypervisor took as far as it tells.
    pub net: Option<SwitchTimes>,
    /// What the programs that tell it apart saw.
    pub seen: Option<SwitchSums>,
    /// The median of a stretch that they did not watch, ns: they make each hand-over
    /// longer by what `took` has more.
    pub unwatched_median_ns: Option<f64>,
    /// Why it could not be had here, or not to the end.
    pub absence: Option<Absence>,
}

/// Hand-overs one after the other, as they were.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSeries {
    /// How many threads.
    pub threads: usize,
    /// How, and as what.
    pub way: SwitchWay,
    /// How long each took, ns, in order, with what interrupted it: the first of a
    /// stretch, 1,000 at most.
    pub took_ns: Vec<u32>,
}

/// The first hand-overs among `threads` threads, or among the fewest where there were
/// never so many; `None`: nobody handed over.
pub fn series(measured: &SwitchesMeasured, threads: usize) -> Option<SwitchSeries> {
    // A stretch in which they never came to hand over, because the machine was busy, has none.
    let had = |run: &SwitchRun<StretchFigures>| {
        let mut stretches = run.stretches.iter();
        let had = stretches.find(|stretch| !stretch.first.is_empty())?;
        Some(SwitchSeries {
            threads: run.threads,
            way: run.way,
            took_ns: had.first.clone(),
        })
    };
    let all = || measured.runs.iter().filter_map(had);
    let asked = all().find(|series| series.threads == threads);
    asked.or_else(|| all().min_by_key(|series| series.threads))
}

/// How long hand-overs took, ns. Stretches count alike, so that ratios of what is
/// told here are those of [`Growth`].
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct SwitchTimes {
    /// The shortest.
    pub least_ns: f64,
    /// The mean of a stretch; the geometric mean over stretches.
    pub mean_ns: f64,
    /// What half of a stretch exceed; the geometric mean over stretches.
    pub median_ns: f64,
    /// What one in 1,000 of a stretch exceeds; the geometric mean over stretches. Absent
    /// where one has fewer than 10,000.
    pub one_in_1000_ns: Option<f64>,
    /// The longest.
    pub largest_ns: f64,
}

/// Whether hand-overs take longer among many threads than among few.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SwitchGrowth {
    /// How, and as what.
    #[serde(flatten)]
    pub way: SwitchWay,
    /// The fewest and the most threads.
    pub threads: [usize; 2],
    /// Of the mean.
    pub mean: Option<Growth>,
    /// Of what one in 1,000 exceeds.
    pub one_in_1000: Option<Growth>,
    /// The answer in a sentence or two.
    pub sentence: String,
}

/// How a figure with many threads stands to that with few.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Growth {
    /// The one over the other, of geometric means over stretches: of many threads over
    /// few, of a load over the first.
    pub ratio: f64,
    /// The lower end of its interval.
    pub ratio_low: f64,
    /// The upper end.
    pub ratio_high: f64,
    /// How often the interval holds the ratio, 0 to 1: such that all that are told
    /// together do with 0.95 (Bonferroni).
    pub confidence: f64,
    /// What that means.
    pub change: GrowthChange,
}

/// What becomes of a figure with more threads.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrowthChange {
    /// It grows: the whole interval is above equal by 5 % and more.
    Grows,
    /// It falls, by as much.
    Falls,
    /// It does not change as far as can be told.
    NotTold,
}

/// What was measured, as an answer.
///
/// # Errors
/// When a stretch has figures that no clock gives.
pub fn switches(measured: &SwitchesMeasured) -> Result<SwitchReport, InputError> {
    let rows = measured.runs.iter().map(row).collect();
    let mut ways: Vec<SwitchWay> = Vec::new();
    for run in &measured.runs {
        if !ways.contains(&run.way) {
            ways.push(run.way);
        }
    }
    let of = |way: &SwitchWay| {
        let is_of = |run: &&SwitchRun<_>| run.way == *way;
        let runs = measured.runs.iter().filter(is_of);
        let had: Vec<&SwitchRun<_>> = runs.filter(|run| run.stretches.len() > 1).collect();
        let few = had.iter().min_by_key(|run| run.threads)?;
        let many = had.iter().max_by_key(|run| run.threads)?;
        (few.threads < many.threads).then(|| [Sides::of(few), Sides::of(many)])
    };
    let pairs: Vec<_> = ways.iter().filter_map(of).collect();
    // Of several intervals one may miss by chance what each holds 19 times of 20.
    let questions: usize = pairs.iter().map(Sides::questions).sum();
    let confidence = 1.0 - (1.0 - CONFIDENCE) / questions.max(1) as f64;
    let growth = pairs.iter().map(|pair| grown(pair, confidence));
    let growth = growth.collect::<Result<_, _>>()?;
    let is_done =
        |run: &SwitchRun<_>| run.absence.is_some() || run.stretches.len() == measured.stretches;
    Ok(SwitchReport {
        schema: SWITCH_SCHEMA,
        host: measured.host.clone(),
        cpu: measured.cpu,
        other_cpu: measured.other_cpu,
        load: measured.load.clone(),
        rows,
        growth,
        is_whole: measured.runs.iter().all(is_done),
        net_absence: measured.unwatched_because.clone(),
        caveats: measured.caveats.clone(),
    })
}

fn row(run: &SwitchRun<StretchFigures>) -> SwitchRow {
    let stretches = &run.stretches;
    let sum = |of: fn(&StretchFigures) -> u64| stretches.iter().map(of).sum();
    let gross = || stretches.iter().filter_map(|one| one.gross);
    let net = || stretches.iter().filter_map(|one| one.net);
    let unwatched = run.unwatched.as_ref().and_then(|one| one.gross);
    let unwatched = unwatched.filter(|_| net().next().is_some());
    SwitchRow {
        threads: run.threads,
        way: run.way,
        count: gross().map(|one| one.count).sum(),
        counted_by_kernel: sum(|one| one.counted_by_kernel),
        left_out: sum(|one| one.left_out),
        unkept: sum(|one| one.unkept),
        alone_ns: stretches
            .iter()
            .map(|one| one.alone_ns)
            .max()
            .filter(|_| run.way.working_set_bytes > 0),
        took: took(gross()),
        net: took(net()),
        seen: stretches
            .iter()
            .filter_map(|one| one.sums)
            .reduce(SwitchSums::and),
        unwatched_median_ns: unwatched.map(|one| one.median),
        absence: run.absence.clone(),
    }
}

/// Of stretches in which there were hand-overs.
fn took(stretches: impl Iterator<Item = HandOverTimes>) -> Option<SwitchTimes> {
    let times: Vec<HandOverTimes> = stretches.collect();
    // As ratios are told of them.
    let mean =
        |of: fn(&HandOverTimes) -> f64| geometric_mean(&times.iter().map(of).collect::<Vec<f64>>());
    let tails: Option<Vec<f64>> = times.iter().map(|one| one.one_in_1000).collect();
    Some(SwitchTimes {
        least_ns: times.iter().map(|one| one.least).reduce(f64::min)?,
        mean_ns: mean(|one| one.mean),
        median_ns: mean(|one| one.median),
        one_in_1000_ns: tails.map(|tails| geometric_mean(&tails)),
        largest_ns: times.iter().map(|one| one.largest).reduce(f64::max)?,
    })
}

/// What is told of growth, of a way with one number of threads.
struct Sides {
    way: SwitchWay,
    threads: usize,
    /// By stretch.
    means: Vec<f64>,
    /// What one in 1,000 exceeds; none where a stretch has too few hand-overs.
    tails: Vec<f64>,
}

impl Sides {
    fn of(run: &SwitchRun<StretchFigures>) -> Self {
        let had = || run.stretches.iter().filter_map(|one| one.gross);
        let tails: Option<Vec<f64>> = had().map(|one| one.one_in_1000).collect();
        Self {
            way: run.way,
            threads: run.threads,
            means: had().map(|one| one.mean).collect(),
            tails: tails.unwrap_or_default(),
        }
    }

    /// How many intervals are told of two.
    fn questions([few, many]: &[Self; 2]) -> usize {
        let of = |figures: fn(&Self) -> &[f64]| {
            usize::from(figures(few).len() > 1 && figures(many).len() > 1)
        };
        of(|side| &side.means) + of(|side| &side.tails)
    }
}

fn grown([few, many]: &[Sides; 2], confidence: f64) -> Result<SwitchGrowth, InputError> {
    let mean = figure([&few.means, &many.means], confidence)?;
    let one_in_1000 = figure([&few.tails, &many.tails], confidence)?;
    let threads = [few.threads, many.threads];
    Ok(SwitchGrowth {
        way: few.way,
        threads,
        mean,
        one_in_1000,
        sentence: format!(
            "{}, {}; {}.",
            by(few.way),
            told("the mean", mean, threads),
            told("what one in 1,000 exceeds", one_in_1000, threads)
        ),
    })
}

/// How it is handed over, as a sentence begins.
fn by(way: SwitchWay) -> String {
    match way.working_set_bytes {
        0 => format!("By {}", way.via),
        bytes => format!(
            "By {} with {} each",
            way.via,
            laggard_model::text::bytes(bytes)
        ),
    }
}

pub(crate) fn figure(
    [few, many]: [&[f64]; 2],
    confidence: f64,
) -> Result<Option<Growth>, InputError> {
    let found = growth(few, many, confidence)?;
    Ok(found.and_then(|found| {
        let interval = found.interval?;
        Some(Growth {
            ratio: found.ratio,
            ratio_low: interval.low,
            ratio_high: interval.high,
            confidence,
            change: match interval {
                all if all.low > LEAST_CHANGE => GrowthChange::Grows,
                all if all.high < 1.0 / LEAST_CHANGE => GrowthChange::Falls,
                _ => GrowthChange::NotTold,
            },
        })
    }))
}

fn told(what: &str, grown: Option<Growth>, [few, many]: [usize; 2]) -> String {
    let Some(grown) = grown else {
        return format!("{what}: too few hand-overs to tell whether it grows");
    };
    let word = match grown.change {
        GrowthChange::Grows => "grows with the number of threads",
        GrowthChange::Falls => "falls with the number of threads",
        GrowthChange::NotTold => "does not grow with the number of threads as far as can be told",
    };
    let [ratio, low, high] = [grown.ratio, grown.ratio_low, grown.ratio_high].map(times_over);
    format!("{what} {word}: {many} take {ratio} times [{low}, {high}] as long as {few}")
}

/// A ratio in three digits.
pub(crate) fn times_over(ratio: f64) -> String {
    match ratio {
        small if small < 9.995 => format!("{small:.2}"),
        _ => format!("{ratio:.0}"),
    }
}

impl SwitchReport {
    /// How sure the intervals of growth are, as a sentence; `None` where there are none.
    pub fn surety(&self) -> Option<String> {
        let told = |one: &SwitchGrowth| [one.mean, one.one_in_1000];
        let told: Vec<Growth> = self.growth.iter().flat_map(told).flatten().collect();
        let confidence = 100.0 * told.first()?.confidence;
        let all = 100.0 * CONFIDENCE;
        Some(match told.len() {
            1 => format!("The interval is of {all:.0} %."),
            2 => format!(
                "Intervals are of {confidence:.1} %, so that both hold together with {all:.0} %."
            ),
            many => format!(
                "Intervals are of {confidence:.1} %, so that all {many} hold together with {all:.0} %."
            ),
        })
    }
}

impl SwitchRow {
    /// What share of all times that one of the threads left the CPU was neither to
    /// the next nor for a pause: somebody else took it. `None` where the kernel's count
    /// and ours agree to 1 %. Who has a turn of its own between two of them is not in it.
    pub fn between(&self) -> Option<f64> {
        let ours = self.count as f64 + self.left_out as f64 + self.unkept as f64;
        let kernel = self.counted_by_kernel as f64;
        let share = 1.0 - ours / kernel;
        (kernel > 0.0 && share > COUNTED_ALIKE).then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{HandOver, Interruption, SwitchPolicy, SwitchWatched};

    use super::*;

    fn run(threads: usize, stretches: &[u32]) -> SwitchRun {
        let stretch = |&ns: &u32| SwitchStretch {
            took_ns: vec![ns; 10_000],
            counted_by_kernel: 10_050,
            watched: None,
            left_out: 0,
            unkept: 0,
            alone_ns: 0,
            ..SwitchStretch::default()
        };
        SwitchRun {
            threads,
            way: SwitchWay {
                via: HandOver::Futex,
                service: SwitchPolicy::Other,
                are_processes: false,
                working_set_bytes: 0,
                is_cross: false,
            },
            absence: None,
            stretches: stretches.iter().map(stretch).collect(),
            unwatched: None,
        }
    }

    fn figures(run: SwitchRun) -> SwitchRun<StretchFigures> {
        run.try_map(|one| StretchFigures::of(&one)).unwrap()
    }

    fn measured(runs: Vec<SwitchRun>) -> SwitchesMeasured {
        SwitchesMeasured {
            host: Host::default(),
            cpu: Cpu(1),
            other_cpu: None,
            load: None,
            stretches: runs.iter().map(|run| run.stretches.len()).max().unwrap(),
            runs: runs.into_iter().map(figures).collect(),
            unwatched_because: None,
            caveats: Vec::new(),
        }
    }

    fn told(runs: Vec<SwitchRun>) -> SwitchReport {
        switches(&measured(runs)).unwrap()
    }

    /// Two questions of each of two ways: of four intervals of 95 % that hold nothing, one
    /// is above 1 by chance in ten such reports.
    #[test]
    fn intervals_are_as_wide_as_there_are_questions() {
        let few = |via| {
            let mut run = run(2, &[1_000, 1_010, 990, 1_005]);
            run.way.via = via;
            run
        };
        let many = |via| {
            let mut run = run(64, &[1_100, 1_190, 1_090, 1_110]);
            run.way.via = via;
            run
        };
        let short = |mut run: SwitchRun| {
            for stretch in &mut run.stretches {
                stretch.took_ns.truncate(9_999);
            }
            run
        };
        let (futex, pipe) = (HandOver::Futex, HandOver::Pipe);

        let one = told(vec![short(few(futex)), short(many(futex))]);
        let two = told(vec![few(futex), many(futex)]);
        let four = told(vec![few(futex), few(pipe), many(futex), many(pipe)]);

        let mean = |report: &SwitchReport| report.growth[0].mean.unwrap();
        let sure = [&one, &two, &four].map(|report| mean(report).confidence);
        for (sure, wanted) in sure.into_iter().zip([0.95, 0.975, 0.9875]) {
            assert!((sure - wanted).abs() < 1e-9, "{sure}, not {wanted}");
        }
        let lows = [&one, &two, &four].map(|report| mean(report).ratio_low);
        assert!(lows.is_sorted_by(|one, next| one > next), "{lows:?}");
        let says = [&one, &two, &four].map(|report| report.surety().unwrap());
        assert_eq!(
            says,
            [
                "The interval is of 95 %.",
                "Intervals are of 97.5 %, so that both hold together with 95 %.",
                "Intervals are of 98.8 %, so that all 4 hold together with 95 %.",
            ]
        );
        assert_eq!(told(vec![run(2, &[1_000])]).surety(), None);
    }

    /// As of a machine that ran something else all through the first stretch.
    #[test]
    fn a_series_is_of_the_first_stretch_in_which_they_handed_over() {
        let mut ten = run(10, &[1_000, 1_100]);
        ten.stretches[0].took_ns.clear();
        let mut none = ten.clone();
        none.stretches.truncate(1);
        let of = |runs| series(&measured(runs), 10).map(|told| (told.threads, told.took_ns[0]));

        assert_eq!(of(vec![run(2, &[900]), ten]), Some((10, 1_100)));
        assert_eq!(of(vec![run(2, &[900]), none.clone()]), Some((2, 900)));
        assert_eq!(of(vec![none]), None);
    }

    #[test]
    fn what_takes_twice_as_long_with_many_threads_grows() {
        let found = &told(vec![
            run(2, &[1_000, 1_010, 990]),
            run(64, &[2_000, 2_010, 1_990]),
        ])
        .growth[0];

        assert_eq!(found.mean.unwrap().change, GrowthChange::Grows);
        assert!(
            found.sentence.starts_with(
                "By futex, the mean grows with the number of threads: 64 take 2.00 times [1.9"
            ),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn a_series_has_the_first_hand_overs_of_one_number_of_threads_in_order() {
        let mut ten = run(10, &[1_000]);
        ten.stretches[0].took_ns[..3].copy_from_slice(&[3, 1, 2]);
        let measured = measured(vec![run(2, &[700]), ten]);

        let found = series(&measured, 10).unwrap();

        assert_eq!((found.threads, found.took_ns.len()), (10, SERIES));
        assert_eq!(found.took_ns[..4], [3, 1, 2, 1_000]);
        assert_eq!(series(&measured, 64).unwrap().threads, 2);
        let none = SwitchesMeasured {
            runs: Vec::new(),
            ..measured
        };
        assert_eq!(series(&none, 10), None);
    }

    #[test]
    fn what_varies_by_itself_is_not_said_to_grow() {
        let found = &told(vec![
            run(2, &[1_000, 1_300, 800]),
            run(8, &[1_100, 900, 1_250]),
        ])
        .growth[0];

        assert_eq!(found.mean.unwrap().change, GrowthChange::NotTold);
    }

    #[test]
    fn what_the_kernel_counts_besides_is_told_from_one_in_a_hundred_on() {
        let mut found = row(&figures(run(2, &[1_000])));
        assert_eq!(found.between(), None);

        found.counted_by_kernel = 20_000;
        assert_eq!(found.between(), Some(0.5));
        found.unkept = 9_900;
        assert_eq!(found.between(), None);
    }

    #[test]
    fn net_figures_are_without_what_came_between_and_gross_ones_with_it() {
        let mut measured = run(2, &[1_000, 1_000]);
        for stretch in &mut measured.stretches {
            let mut between = vec![Interruption::default(); stretch.took_ns.len()];
            stretch.took_ns[7] = 3_001_000;
            between[7].taken_ns = 3_000_000;
            let sums = SwitchSums {
                others: 1,
                ..SwitchSums::default()
            };
            stretch.watched = Some(SwitchWatched { between, sums });
        }
        measured.unwatched = Some(SwitchStretch {
            took_ns: vec![900; 100],
            ..SwitchStretch::default()
        });

        let found = row(&figures(measured));

        assert_eq!(found.took.unwrap().largest_ns, 3_001_000.0);
        assert_eq!(found.net.unwrap().largest_ns, 1_000.0);
        assert_eq!(found.seen.unwrap().others, 2);
        assert_eq!(found.unwatched_median_ns, Some(900.0));
        let unwatched = row(&figures(run(2, &[1_000])));
        assert!(unwatched.net.is_none() && unwatched.seen.is_none());
    }
}
