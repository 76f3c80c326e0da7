//! Causes of late wakeups for the report page.

use std::collections::{BTreeMap, HashMap};

use laggard_answer::why::{Explained, ExplainedEpisode, Part, WhyReport, frames, layers};
use laggard_model::name::series_words;
use laggard_model::{CauseClass, Cpu, NamedCause, Nanos, Route, Service, Stage, Symbols};
use schemars::JsonSchema;
use serde::Serialize;

use super::flame::{Flame, FlameNode};
use crate::doc::Document;
use crate::phrase::cause;
use crate::phrase::why as phrase;
use crate::why::{layer, series_document};

/// Number of causes and episodes of a series.
const TOP: usize = 20;
/// Number of episodes per service with a timeline on the page.
const DRAWN: usize = 10;
/// Maximum number of parts of a timeline. If there are more, the shortest are joined with their
/// neighbours.
const MOST_SLICES: usize = 250;
/// Maximum number of call chains of a timeline, and of frames of a chain.
const MOST_SAMPLES: usize = 100;
const MOST_FRAMES: usize = 24;

/// Late wakeups of a recording for the report page.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CausesView {
    /// The report. Its documents are [`Self::series`].
    #[serde(skip)]
    #[schemars(skip)]
    pub why: WhyReport,
    /// Causes of each series with late wakeups, most urgent thread first.
    pub series: Vec<Document>,
    /// Gaps of the whole recording.
    pub gaps: Vec<String>,
    /// Classes that occur, longest total time first.
    pub classes: Vec<ClassView>,
    /// Time of all episodes per class, culprit and function.
    pub flame: FlameNode,
    /// Texts to which episodes refer by number.
    pub texts: Vec<String>,
    /// Latest episodes of each service, largest latency first.
    pub episodes: Vec<EpisodeView>,
    /// Number of other episodes.
    pub left_out: usize,
}

/// Class of causes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ClassView {
    /// The class.
    pub class: CauseClass,
    /// Description in words.
    pub words: String,
    /// Total time in all episodes.
    pub total_ns: Nanos,
}

/// Timeline of an episode.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EpisodeView {
    /// Number of the episode.
    pub number: u64,
    /// Name of its service and route.
    pub name: String,
    /// CPU of the late wakeup.
    pub cpu: Cpu,
    /// Expiry, from the start of the recording.
    pub at_ns: Nanos,
    /// Latency of the wakeup.
    pub latency_ns: Nanos,
    /// Class with the most time.
    pub class: Option<CauseClass>,
    /// Cause with the most time, in words.
    pub main: String,
    /// Stages after the expiry.
    pub stages_ns: BTreeMap<Stage, Nanos>,
    /// Activity from the expiry to the service, without a gap.
    pub slices: Vec<SliceView>,
    /// Call chains that were sampled during this time.
    pub samples: Vec<SampleView>,
    /// Number of further call chains.
    pub samples_left_out: usize,
}

/// Part of an episode.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SliceView {
    /// Length of the part.
    pub ns: Nanos,
    /// Time of other activities in it, each too short to be visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_ns: Option<Nanos>,
    /// Class of the cause; absent if several short parts are combined.
    pub class: Option<CauseClass>,
    /// Number of the text with the culprit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<usize>,
    /// Numbers of the texts with the thread and its activities, outermost first.
    pub layers: Vec<usize>,
}

/// Call chain of a sample.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SampleView {
    /// Time after the expiry.
    pub after_ns: Nanos,
    /// Functions, innermost first, as numbers of texts.
    pub frames: Vec<usize>,
}

impl CausesView {
    /// Describes the report again, after gains were added to it.
    pub fn describe(&mut self) {
        self.series = self.why.series.iter().map(series_document).collect();
    }
}

/// Returns the late wakeups for the page.
pub(super) fn causes(late: &Explained<'_>) -> CausesView {
    let symbols = late.symbols();
    let mut totals: BTreeMap<CauseClass, Nanos> = BTreeMap::new();
    let mut flame = Flame::default();
    for episode in &late.episodes {
        for cause in episode.causes() {
            *totals.entry(cause.class).or_default() += cause.time_ns;
        }
        flame.add(&episode.explanation.parts, episode.episode, symbols);
    }
    let mut texts = Texts::default();
    let start = late.late.manifest.clock.start_ns;
    let episodes: Vec<EpisodeView> = worst(&late.episodes)
        .into_iter()
        .map(|explained| timeline(explained, start, symbols, &mut texts))
        .collect();
    let mut classes: Vec<ClassView> = totals
        .into_iter()
        .map(|(class, total_ns)| ClassView {
            class,
            words: class.words().into(),
            total_ns,
        })
        .collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.total_ns));
    let why = late.why(TOP);
    CausesView {
        series: why.series.iter().map(series_document).collect(),
        gaps: phrase::gaps(&why),
        why,
        classes,
        flame: flame.into_node(),
        texts: texts.all,
        left_out: late.episodes.len() - episodes.len(),
        episodes,
    }
}

/// Returns the latest wakeups of each service, largest latency first.
fn worst<'a, 'e>(known: &'a [ExplainedEpisode<'e>]) -> Vec<&'a ExplainedEpisode<'e>> {
    let mut episodes: Vec<_> = known.iter().collect();
    episodes.sort_by_key(|explained| std::cmp::Reverse(explained.episode.latency()));
    let mut of_service: HashMap<(Service, Route), usize> = HashMap::new();
    episodes.retain(|explained| {
        let line = (explained.line.service, explained.line.route);
        let drawn = of_service.entry(line).or_default();
        *drawn += 1;
        *drawn <= DRAWN
    });
    episodes
}

/// Numbered texts, each stored once.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Texts {
    fn number(&mut self, text: String) -> usize {
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            self.all.len() - 1
        })
    }
}

fn timeline(
    explained: &ExplainedEpisode<'_>,
    start: Nanos,
    symbols: &Symbols,
    texts: &mut Texts,
) -> EpisodeView {
    let (episode, line) = (explained.episode, explained.line);
    let first = explained.causes().first();
    let within: Vec<_> = episode
        .evidence
        .samples
        .iter()
        .filter(|sample| sample.at_ns >= episode.here_from() && sample.at_ns < episode.end())
        .collect();
    let samples: Vec<SampleView> = within
        .iter()
        .take(MOST_SAMPLES)
        .map(|sample| SampleView {
            after_ns: sample.at_ns.saturating_sub(episode.expiry_ns),
            frames: frames(sample, symbols)
                .into_iter()
                .take(MOST_FRAMES)
                .map(|frame| texts.number(frame))
                .collect(),
        })
        .collect();
    EpisodeView {
        number: episode.number,
        name: series_words(line.service, line.route),
        cpu: line.cpu,
        at_ns: episode.expiry_ns.saturating_sub(start),
        latency_ns: episode.latency(),
        class: first.map(|cause| cause.class),
        main: first
            .map(|first| {
                let named = NamedCause::from_culprit(first.class, &first.culprit, symbols);
                cause::name(&named, &[])
            })
            .unwrap_or_default(),
        stages_ns: episode.stages.clone(),
        slices: slices(&explained.merged(), symbols, texts),
        samples_left_out: within.len() - samples.len(),
        samples,
    }
}

/// Part that includes interruptions too short to be visible.
struct Stretch<'a> {
    /// `None` if it consists only of short parts.
    part: Option<&'a Part>,
    time: Nanos,
    others: Nanos,
}

fn slices(parts: &[Part], symbols: &Symbols, texts: &mut Texts) -> Vec<SliceView> {
    runs(parts)
        .into_iter()
        .map(|run| SliceView {
            ns: run.time,
            others_ns: (run.part.is_some() && run.others > Nanos::ZERO).then_some(run.others),
            class: run.part.map(|part| part.class),
            who: run
                .part
                .and_then(|part| {
                    NamedCause::from_culprit(part.class, &part.culprit, symbols).culprit()
                })
                .map(|who| texts.number(who)),
            layers: run.part.map_or_else(Vec::new, |part| {
                layers(&part.slice.context, symbols)
                    .iter()
                    .map(|shown| texts.number(layer(shown)))
                    .collect()
            }),
        })
        .collect()
}

/// Returns at most [`MOST_SLICES`] runs. The minimum length grows from round to round. A thread
/// that many ticks interrupt is therefore joined before its stretches between two ticks are too
/// short.
fn runs(parts: &[Part]) -> Vec<Stretch<'_>> {
    let mut runs: Vec<Stretch<'_>> = parts
        .iter()
        .map(|part| Stretch {
            part: Some(part),
            time: part.time(),
            others: Nanos::ZERO,
        })
        .collect();
    let mut shortest = Nanos::from_us(1);
    while runs.len() > MOST_SLICES {
        runs = collapsed(runs, shortest);
        shortest += Nanos::from_ns(shortest.ns() / 4);
    }
    runs
}

/// Joins runs shorter than `shortest` with the run that they interrupt, or with each other.
fn collapsed(runs: Vec<Stretch<'_>>, shortest: Nanos) -> Vec<Stretch<'_>> {
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for run in runs {
        let is_short = run.time < shortest;
        match stretches.as_mut_slice() {
            [.., last] if last.part.is_none() && (is_short || run.part.is_none()) => {
                last.time += run.time;
                last.others += run.time;
            }
            [.., before, short]
                if !is_short
                    && short.part.is_none()
                    && short.time < shortest
                    && run.goes_on(before) =>
            {
                before.time += short.time + run.time;
                before.others += short.time + run.others;
                stretches.pop();
            }
            _ if is_short => stretches.push(Stretch {
                part: None,
                time: run.time,
                others: run.time,
            }),
            _ => stretches.push(run),
        }
    }
    stretches
}

impl Stretch<'_> {
    /// Returns true if it continues the activity of `before`.
    fn goes_on(&self, before: &Self) -> bool {
        let (Some(one), Some(other)) = (self.part, before.part) else {
            return false;
        };
        one.class == other.class
            && one.culprit == other.culprit
            && one.slice.context == other.slice.context
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::why::{Context, Slice};
    use laggard_model::Culprit;

    use super::*;

    /// Returns consecutive parts with these classes and lengths.
    fn parts(all: impl IntoIterator<Item = (CauseClass, u64)>) -> Vec<Part> {
        let mut time = Nanos::ZERO;
        all.into_iter()
            .map(|(class, us)| {
                let from = time;
                time += Nanos::from_us(us);
                Part {
                    slice: Slice {
                        from,
                        to: time,
                        context: Context::default(),
                    },
                    class,
                    culprit: Culprit::default(),
                }
            })
            .collect()
    }

    #[test]
    fn a_short_interruption_is_drawn_as_part_of_what_it_interrupts() {
        let parts = parts([
            (CauseClass::Equal, 250),
            (CauseClass::Interrupt, 3),
            (CauseClass::Equal, 250),
            (CauseClass::Stolen, 400),
        ]);

        let alone = |part| Stretch {
            part: Some(part),
            time: Part::time(part),
            others: Nanos::ZERO,
        };
        let runs = collapsed(parts.iter().map(alone).collect(), Nanos::from_us(10));

        let shown: Vec<_> = runs
            .iter()
            .map(|run| (run.part.map(|part| part.class), run.time, run.others))
            .collect();
        assert_eq!(
            shown,
            [
                (
                    Some(CauseClass::Equal),
                    Nanos::from_us(503),
                    Nanos::from_us(3)
                ),
                (Some(CauseClass::Stolen), Nanos::from_us(400), Nanos::ZERO),
            ]
        );
    }

    #[test]
    fn a_thread_that_ticks_interrupt_a_thousand_times_is_one_run() {
        let classes = [(CauseClass::Equal, 250), (CauseClass::Interrupt, 4)];
        let ticks = parts((0..2_000).map(|n| classes[n % 2]));

        let runs = runs(&ticks);

        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].time, Nanos::from_us(254 * 1_000 - 4));
        assert_eq!(runs[0].others, Nanos::from_us(4 * 999));
    }

    #[test]
    fn a_timeline_of_any_length_has_few_slices_and_all_of_the_time() {
        let classes = [
            CauseClass::Equal,
            CauseClass::Interrupt,
            CauseClass::Softirq,
        ];
        let many = parts((0..20_000).map(|n| (classes[n % 3], 1 + n as u64 * 7_919 % 1_000)));

        let runs = runs(&many);

        let time =
            |stretches: &[Stretch<'_>]| stretches.iter().map(|run| run.time.ns()).sum::<u64>();
        assert!(runs.len() <= MOST_SLICES, "{}", runs.len());
        assert_eq!(
            time(&runs),
            many.iter().map(|part| part.time().ns()).sum::<u64>()
        );
    }
}
