//! Watcher of a session that acts on its late wakeups.

use std::collections::HashMap;

use laggard_model::{Episode, Line, Manifest, Nanos};
use laggard_record::{ChosenActivation, EpisodeSelector, Threshold};

use super::{LateActions, LateInput};
use crate::{News, Next, Plan, WatchError, Watcher};

/// Latency threshold of wakeups whose series does not have a threshold yet. Automatic thresholds
/// never exceed it.
const MAX_AUTOMATIC: Nanos = Nanos::from_ms(1);

/// Function that describes a late wakeup as JSON. The episode has the number 0 if it is not in a
/// recording, and may lack trace data.
pub type DescribeLate<'a> = dyn FnMut(&Episode, Line) -> Vec<u8> + 'a;

/// Watcher that acts on late wakeups.
pub(crate) struct LateWatcher<'a> {
    actions: &'a mut LateActions,
    describe: &'a mut DescribeLate<'a>,
    selector: EpisodeSelector,
    lines: Vec<Line>,
    /// Whether the time of the measurement stands still while an action runs, as in a script.
    waits: bool,
}

impl<'a> LateWatcher<'a> {
    /// Creates the watcher of a measurement by `plan` with this manifest. `waits` is set if each
    /// action ends before the measurement continues.
    pub(crate) fn new(
        actions: &'a mut LateActions,
        describe: &'a mut DescribeLate<'a>,
        plan: &Plan,
        manifest: &Manifest,
        waits: bool,
    ) -> Self {
        let fixed = actions.threshold().or(plan.threshold);
        let threshold = fixed.map_or(Threshold::Automatic, Threshold::Fixed);
        Self {
            actions,
            describe,
            // The limit per minute applies to trace data, which are not kept here.
            selector: EpisodeSelector::new(manifest.lines.len(), threshold, u64::MAX),
            lines: manifest.lines.clone(),
            waits,
        }
    }

    /// Returns the late wakeups of the news. Skips series without a threshold.
    fn late(&mut self, news: &News<'_>) -> Vec<ChosenActivation> {
        let mut late = self.selector.choose(news.batch);
        if !late.is_empty() {
            let thresholds = self.selector.notes().thresholds_ns;
            late.retain(|chosen| {
                let line = usize::from(chosen.activation.line.0);
                let threshold = thresholds.get(line).copied().flatten();
                chosen.activation.latency() > threshold.unwrap_or(MAX_AUTOMATIC)
            });
        }
        late
    }
}

impl Watcher for LateWatcher<'_> {
    fn begun(&mut self, start: Nanos) {
        self.actions.measure_from(start);
    }

    /// Acts on the first late wakeup of the news. Late wakeups with trace data precede the others.
    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        let late = self.late(news);
        let traced: HashMap<(u16, u64), &Episode> = news
            .late
            .iter()
            .map(|episode| ((episode.line.0, episode.seq), episode))
            .collect();
        let first = late.iter().min_by_key(|chosen| {
            let activation = &chosen.activation;
            let has_trace = traced.contains_key(&(activation.line.0, activation.seq));
            (!has_trace, activation.expiry + activation.latency())
        });
        if let Some(chosen) = first
            && let Some(&line) = self.lines.get(usize::from(chosen.activation.line.0))
        {
            let activation = &chosen.activation;
            let episode = match traced.get(&(activation.line.0, activation.seq)) {
                Some(episode) => (*episode).clone(),
                None => Episode::new(0, line.cpu, activation, chosen.threshold),
            };
            let wakeup = (episode.end(), episode.latency());
            let describe = &mut *self.describe;
            self.actions
                .act(late.len() as u64, wakeup, news.now, || LateInput {
                    json: describe(&episode, line),
                    variables: vec![
                        ("LAGGARD_LATENCY_NS", episode.latency().ns().to_string()),
                        ("LAGGARD_CPU", line.cpu.to_string()),
                        ("LAGGARD_SERVICE", line.service.to_string()),
                    ],
                });
        }
        if self.waits {
            self.actions.wait();
        }
        Ok(if self.actions.is_stopped() {
            Next::End
        } else {
            Next::GoOn
        })
    }
}
