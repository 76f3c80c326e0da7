//! Late wakeups during a measurement, with their causes.

use std::collections::VecDeque;

use laggard_analyze::causes::{Explanation, explain_named};
use laggard_model::name::series_words;
use laggard_model::{
    Batch, Cause, Cpu, Episode, Evidence, Happening, Line, NamedCause, Names, Nanos, STAGES, Stage,
    Tid, is_normal_priority,
};
use laggard_record::{EpisodeSelector, Threshold};

/// Late wakeups that are kept for scrolling.
const MAX_KEPT: usize = 1_000;
/// Late wakeups per minute that are listed without trace data.
const MAX_PER_MINUTE: u64 = 600;

/// Late wakeup.
#[derive(Clone, Debug)]
pub struct LateActivation {
    /// Expiry, since the start of measuring.
    pub at: Nanos,
    /// CPU, service and route.
    pub line: Line,
    /// Service and route in words.
    pub name: String,
    /// CPU that the thread ran on.
    pub cpu: Cpu,
    pub latency: Nanos,
    /// Whether the thread was still waiting at the end. The latency is then a lower bound.
    pub censored: bool,
    /// Stages with their times since the expiry, in order.
    pub stages: Vec<(Stage, Nanos)>,
    /// Number in the recording, if there is one.
    pub number: Option<u64>,
    /// Causes, the longest first. Empty without trace data.
    pub causes: Vec<LatePart>,
}

/// Part of a latency with its cause.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LatePart {
    pub time: Nanos,
    /// Cause with the place in the code.
    pub cause: NamedCause,
    /// Cause without the place, which differs between samples.
    pub without_place: NamedCause,
}

/// Finds late wakeups in batches of samples.
#[derive(Debug)]
pub struct LateFinder {
    lines: Vec<Line>,
    by: By,
}

#[derive(Debug)]
enum By {
    /// Episodes of the flight recorder, with their causes.
    Episodes(Box<dyn Names>),
    /// Latencies above the threshold.
    Latency(EpisodeSelector),
}

impl LateFinder {
    /// Creates a finder for a measurement of `lines`. With `names`, the finder uses episodes with
    /// trace data. Otherwise, it uses latencies above `threshold` or, without a threshold, above a
    /// threshold from the first seconds of each series.
    #[must_use]
    pub fn new(lines: &[Line], names: Option<Box<dyn Names>>, threshold: Option<Nanos>) -> Self {
        let by = match names {
            Some(names) => By::Episodes(names),
            None => {
                let threshold = threshold.map_or(Threshold::Automatic, Threshold::Fixed);
                By::Latency(EpisodeSelector::new(lines.len(), threshold, MAX_PER_MINUTE))
            }
        };
        Self {
            lines: lines.to_vec(),
            by,
        }
    }

    /// Returns the late wakeups of `batch`, or of its `episodes`, in order of time.
    pub fn find(
        &mut self,
        batch: &Batch,
        episodes: &[Episode],
        start: Nanos,
    ) -> Vec<LateActivation> {
        let lines = &self.lines;
        let late = |line: Line, expiry: Nanos, latency: Nanos| LateActivation {
            at: expiry.saturating_sub(start),
            line,
            name: series_words(line.service, line.route),
            cpu: line.cpu,
            latency,
            censored: false,
            stages: Vec::new(),
            number: None,
            causes: Vec::new(),
        };
        let mut wakeups: Vec<LateActivation> = match &mut self.by {
            By::Episodes(names) => episodes
                .iter()
                .filter_map(|episode| {
                    let line = *lines.get(usize::from(episode.line.0))?;
                    Some(LateActivation {
                        number: (episode.number > 0).then_some(episode.number),
                        causes: causes(episode, line, &mut **names),
                        censored: episode.censored,
                        stages: episode
                            .stages
                            .iter()
                            .map(|(&index, &time)| (index, time))
                            .collect(),
                        ..late(line, episode.expiry_ns, episode.latency())
                    })
                })
                .collect(),
            By::Latency(selector) => selector
                .choose(batch)
                .into_iter()
                .filter_map(|wakeup| {
                    let line = *lines.get(usize::from(wakeup.activation.line.0))?;
                    let activation = &wakeup.activation;
                    let until = |stage| Some((stage, activation.until(stage)?));
                    Some(LateActivation {
                        censored: activation.censored,
                        stages: STAGES.into_iter().filter_map(until).collect(),
                        ..late(line, activation.expiry, activation.latency())
                    })
                })
                .collect(),
        };
        // They come in order of the series.
        wakeups.sort_by_key(|late| late.at);
        wakeups
    }
}

/// Looks up the names of the trace data.
pub(crate) fn learn(evidence: &Evidence, names: &mut dyn Names) {
    for event in &evidence.events {
        match event.what {
            Happening::Begin(activity) => names.learn_activity(activity),
            Happening::Switch { tid, .. } => names.learn_thread(tid),
            Happening::End(_) => {}
        }
    }
    for sample in &evidence.samples {
        names.learn_stack(&sample.kernel);
    }
    for group in evidence
        .throttles
        .iter()
        .filter_map(|throttle| throttle.group)
    {
        names.learn_quota(group);
    }
}

/// Looks up the control groups of a waiting `SCHED_OTHER` thread and of the threads that ran.
pub(crate) fn learn_competitors(waiter: Tid, evidence: &Evidence, names: &mut dyn Names) {
    names.learn_entities(waiter);
    for event in &evidence.events {
        if let Happening::Switch { tid, priority, .. } = event.what
            && is_normal_priority(priority)
        {
            names.learn_entities(tid);
        }
    }
}

/// Explains a late wakeup during the measurement, and looks up the names in it.
pub(super) fn explain_live(episode: &Episode, line: Line, names: &mut dyn Names) -> Explanation {
    learn(&episode.evidence, names);
    if let Some(waiter) = episode.thread.filter(|_| line.service.is_normal_thread()) {
        learn_competitors(waiter, &episode.evidence, names);
    }
    let explained = explain_named(episode, line.service, line.route, names.symbols());
    for cause in &explained.causes {
        names.learn(&cause.culprit);
    }
    explained
}

fn causes(episode: &Episode, line: Line, names: &mut dyn Names) -> Vec<LatePart> {
    let explained = explain_live(episode, line, names);
    let symbols = names.symbols();
    let part = |cause: &Cause| LatePart {
        time: cause.time_ns,
        cause: NamedCause::from_culprit(cause.class, &cause.culprit, symbols),
        without_place: NamedCause::without_place(cause.class, &cause.culprit, symbols),
    };
    explained.causes.iter().map(part).collect()
}

/// The newest late wakeups.
#[derive(Clone, Debug, Default)]
pub struct LateList {
    newest: VecDeque<LateActivation>,
    /// Number of late wakeups, including wakeups that were removed from the list.
    pub count: u64,
}

impl LateList {
    /// Adds a late wakeup. Removes the oldest one if the list is full.
    pub fn push(&mut self, late: LateActivation) {
        self.newest.push_back(late);
        self.count += 1;
        if self.newest.len() > MAX_KEPT {
            self.newest.pop_front();
        }
    }

    /// Returns the late wakeups in the list, the oldest first.
    pub const fn listed(&self) -> &VecDeque<LateActivation> {
        &self.newest
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Activation, LineId, Route, STAGES, Service, Stage};

    use super::*;

    fn batch(latency: Nanos) -> Batch {
        let mut steps = [None; STAGES.len()];
        steps[Stage::User.index()] = Some(latency);
        let mut batch = Batch::default();
        batch.push(&Activation::new(LineId(0), 0, Nanos::from_secs(12), steps));
        batch
    }

    const LINE: Line = Line::new(Cpu(3), Service::Fifo(90), Route::Direct);

    #[test]
    fn a_late_wakeup_without_trace_data_is_listed_without_causes() {
        let mut finder = LateFinder::new(&[LINE], None, Some(Nanos::from_us(100)));
        let start = Nanos::from_secs(10);

        assert!(
            finder
                .find(&batch(Nanos::from_us(99)), &[], start)
                .is_empty()
        );
        let late = finder.find(&batch(Nanos::from_us(101)), &[], start);

        assert_eq!(late.len(), 1);
        assert_eq!(late[0].at, Nanos::from_secs(2));
        assert_eq!(late[0].cpu, Cpu(3));
        assert_eq!(late[0].name, "SCHED_FIFO 90");
        assert!(late[0].causes.is_empty());
    }

    #[test]
    fn the_list_keeps_the_newest_and_counts_all() {
        let mut list = LateList::default();
        let mut finder = LateFinder::new(&[LINE], None, Some(Nanos::ZERO));
        let chosen = finder.find(&batch(Nanos::from_us(5)), &[], Nanos::ZERO);
        for _ in 0..MAX_KEPT + 7 {
            list.push(chosen[0].clone());
        }

        assert_eq!(list.listed().len(), MAX_KEPT);
        assert_eq!(list.count, MAX_KEPT as u64 + 7);
    }
}
