//! Late activations as they come, with their causes.

use std::collections::VecDeque;

use laggard_analyze::causes::{Explanation, explain_named};
use laggard_model::name::{cause_name, line_name, who, who_anywhere};
use laggard_model::{
    Batch, Cause, CauseClass, Cpu, Episode, Evidence, Happening, Line, Names, Nanos, STAGES, Stage,
    Tid, is_normal_priority,
};
use laggard_record::{EpisodeSelector, Threshold};

/// How many are kept to scroll through.
const MOST: usize = 1_000;
/// Late activations in a minute that are listed where nothing explains them.
const PER_MINUTE: u64 = 600;

/// Causes told one by one of a late activation, at most.
const MOST_CAUSES: usize = 4;
/// A cause with less than this part of the latency is not told by itself.
const SMALL_PART: u64 = 20;

/// One late activation.
#[derive(Clone, Debug)]
pub struct LateActivation {
    /// The programmed time, since measuring began.
    pub at: Nanos,
    /// The service and how it is reached.
    pub line: Line,
    /// The same as a name.
    pub name: String,
    /// The CPU that it ran on.
    pub cpu: Cpu,
    /// How late it was.
    pub latency: Nanos,
    /// Whether it had still not run when measuring ended: it was at least so late.
    pub censored: bool,
    /// Each stage that was seen, after the programmed time, in order.
    pub stages: Vec<(Stage, Nanos)>,
    /// Its number in the recording, where it is in one.
    pub number: Option<u64>,
    /// Who took how much of it, most first; empty: nobody watched.
    pub causes: Vec<LatePart>,
}

/// A part of a late activation's time, and what took it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LatePart {
    /// How much it took.
    pub time: Nanos,
    /// What sort of cause it is.
    pub class: CauseClass,
    /// Who it was, with the place in the code; `None` where the class says it all.
    pub who: Option<String>,
    /// The same without the place, which samples show here or there.
    pub who_anywhere: Option<String>,
}

impl LatePart {
    /// Its class, and who.
    pub fn words(&self) -> String {
        cause_name(self.class, self.who.as_deref())
    }
}

impl LateActivation {
    /// The causes in words, those that took more first; small ones together.
    pub fn why(&self, write: impl Fn(Nanos) -> String) -> String {
        if self.causes.is_empty() {
            return "not explained".into();
        }
        let small = self.latency.ns() / SMALL_PART;
        let is_told = |(index, cause): &(usize, &LatePart)| {
            *index == 0 || (*index < MOST_CAUSES && cause.time.ns() >= small)
        };
        let told_of = |cause: &LatePart| format!("{} {}", write(cause.time), cause.words());
        let told = self.causes.iter().enumerate().take_while(is_told).count();
        let (large, rest) = self.causes.split_at(told);
        let mut parts: Vec<String> = large.iter().map(told_of).collect();
        let left = rest.iter().fold(Nanos::ZERO, |sum, one| sum + one.time);
        if let [one] = rest {
            parts.push(told_of(one));
        } else if !rest.is_empty() {
            parts.push(format!("{} of {} others", write(left), rest.len()));
        }
        parts.join("; ")
    }
}

/// Finds late activations in what comes.
#[derive(Debug)]
pub struct LateFinder {
    lines: Vec<Line>,
    by: By,
}

#[derive(Debug)]
enum By {
    /// The flight recorder's episodes, explained.
    Episodes(Box<dyn Names>),
    /// The latency alone.
    Latency(EpisodeSelector),
}

impl LateFinder {
    /// In a measurement of `lines`. With `names`, episodes will come with
    /// evidence and are explained; without, what is later than `threshold` (or
    /// than a line's first seconds tell) is listed.
    #[must_use]
    pub fn new(lines: &[Line], names: Option<Box<dyn Names>>, threshold: Option<Nanos>) -> Self {
        let by = match names {
            Some(names) => By::Episodes(names),
            None => {
                let threshold = threshold.map_or(Threshold::Automatic, Threshold::Fixed);
                By::Latency(EpisodeSelector::new(lines.len(), threshold, PER_MINUTE))
            }
        };
        Self {
            lines: lines.to_vec(),
            by,
        }
    }

    /// What is late of `batch`, or of the `episodes` found in it, in the order
    /// of time.
    pub fn find(
        &mut self,
        batch: &Batch,
        episodes: &[Episode],
        start: Nanos,
    ) -> Vec<LateActivation> {
        let lines = &self.lines;
        let late = |line: Line, at: Nanos, latency: Nanos| LateActivation {
            at: at.saturating_sub(start),
            line,
            name: line_name(line.service, line.route),
            cpu: line.cpu,
            latency,
            censored: false,
            stages: Vec::new(),
            number: None,
            causes: Vec::new(),
        };
        let mut found: Vec<LateActivation> = match &mut self.by {
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
                            .map(|(&at, &time)| (at, time))
                            .collect(),
                        ..late(line, episode.expiry_ns, episode.latency())
                    })
                })
                .collect(),
            By::Latency(selector) => selector
                .choose(batch)
                .into_iter()
                .filter_map(|one| {
                    let line = *lines.get(usize::from(one.activation.line.0))?;
                    let activation = &one.activation;
                    let until = |stage| Some((stage, activation.until(stage)?));
                    Some(LateActivation {
                        censored: activation.censored,
                        stages: STAGES.into_iter().filter_map(until).collect(),
                        ..late(line, activation.expiry, activation.latency())
                    })
                })
                .collect(),
        };
        // They came line by line.
        found.sort_by_key(|one| one.at);
        found
    }
}

/// Looks up what is in it.
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
    for group in evidence.throttles.iter().filter_map(|one| one.group) {
        names.learn_quota(group);
    }
}

/// Looks up the groups of a normal thread that waited, and of those that ran.
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
        class: cause.class,
        who: who(&cause.culprit, symbols),
        who_anywhere: who_anywhere(&cause.culprit, symbols),
    };
    explained.causes.iter().map(part).collect()
}

/// The newest late activations.
#[derive(Clone, Debug, Default)]
pub struct LateList {
    newest: VecDeque<LateActivation>,
    /// How many came, those that are no longer listed included.
    pub count: u64,
}

impl LateList {
    /// Adds one; the oldest goes where the list is full.
    pub fn push(&mut self, late: LateActivation) {
        self.newest.push_back(late);
        self.count += 1;
        if self.newest.len() > MOST {
            self.newest.pop_front();
        }
    }

    /// The late activations that were kept, oldest first.
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
        batch.push(&Activation {
            line: LineId(0),
            seq: 0,
            expiry: Nanos::from_secs(12),
            missed: false,
            censored: false,
            steps,
        });
        batch
    }

    const LINE: Line = Line {
        cpu: Cpu(3),
        service: Service::Fifo(90),
        route: Route::Direct,
    };

    #[test]
    fn without_evidence_a_late_activation_is_listed_as_not_explained() {
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
        assert_eq!(late[0].why(|time| time.to_string()), "not explained");
    }

    #[test]
    fn small_causes_are_told_together_and_no_time_is_left_out() {
        let cause = |us, class, who: Option<&str>| LatePart {
            time: Nanos::from_us(us),
            class,
            who: who.map(str::to_owned),
            who_anywhere: None,
        };
        let late = LateActivation {
            at: Nanos::ZERO,
            line: LINE,
            name: "fifo:90".into(),
            cpu: Cpu(0),
            latency: Nanos::from_us(1_000),
            censored: false,
            stages: Vec::new(),
            number: None,
            causes: vec![
                cause(700, CauseClass::Stolen, None),
                cause(240, CauseClass::Softirq, Some("NET_RX")),
                cause(40, CauseClass::Interrupt, Some("irq work")),
                cause(20, CauseClass::ContextSwitch, None),
            ],
        };

        assert_eq!(
            late.why(|time| time.to_string()),
            "700us stolen by the hypervisor; 240us softirq: NET_RX; 60us of 2 others"
        );
    }

    #[test]
    fn the_list_keeps_the_newest_and_counts_all() {
        let mut list = LateList::default();
        let mut finder = LateFinder::new(&[LINE], None, Some(Nanos::ZERO));
        let one = finder.find(&batch(Nanos::from_us(5)), &[], Nanos::ZERO);
        for _ in 0..MOST + 7 {
            list.push(one[0].clone());
        }

        assert_eq!(list.listed().len(), MOST);
        assert_eq!(list.count, MOST as u64 + 7);
    }
}
