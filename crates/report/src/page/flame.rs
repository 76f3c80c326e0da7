//! Where the time of all episodes went: class, then culprit, then call chain.

use std::collections::BTreeMap;

use laggard_analyze::causes::Part;
use laggard_model::{Episode, Nanos, Sampler, StackSample, Symbols};
use schemars::JsonSchema;
use serde::Serialize;

use crate::why::episode::frames;
use crate::why::words;

/// A node with less of the whole than one in so many is drawn with its like:
/// less than a pixel wide.
const FINEST: u64 = 20_000;

/// Time of episodes, and of what it consists.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct FlameNode {
    /// The class, the culprit, or a function.
    pub name: String,
    /// Time within it.
    pub ns: Nanos,
    /// What is called within it, most time first. What their sum lacks is its
    /// own time, or has no call chain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<Self>,
}

/// A tree that grows.
#[derive(Debug, Default)]
pub(super) struct Flame {
    ns: Nanos,
    within: BTreeMap<String, Self>,
}

impl Flame {
    /// Adds the parts of an episode; the time of each is divided evenly among
    /// the call chains sampled in it.
    pub(super) fn add(&mut self, parts: &[Part], episode: &Episode, symbols: &Symbols) {
        let sampled = sampled(parts, episode);
        for (part, samples) in parts.iter().zip(sampled) {
            let culprit = words::who(&part.culprit, symbols);
            let head: Vec<String> = std::iter::once(part.class.words().to_owned())
                .chain(culprit)
                .collect();
            if samples.is_empty() {
                self.grow(part.time(), head);
                continue;
            }
            let each = part.time().ns() / samples.len() as u64;
            let mut left = part.time().ns();
            for (index, sample) in samples.iter().enumerate() {
                let is_last = index + 1 == samples.len();
                let ns = if is_last { left } else { each };
                left -= ns;
                let chain = frames(sample, symbols);
                let path = head.iter().chain(chain.iter().rev()).cloned();
                self.grow(Nanos::from_ns(ns), path);
            }
        }
    }

    fn grow(&mut self, time: Nanos, path: impl IntoIterator<Item = String>) {
        self.ns += time;
        let mut node = self;
        for name in path {
            node = node.within.entry(name).or_default();
            node.ns += time;
        }
    }

    /// The whole tree, without what is too narrow to be seen.
    pub(super) fn into_node(self) -> FlameNode {
        let finest = Nanos::from_ns(self.ns.ns() / FINEST);
        self.named("all episodes".into(), finest)
    }

    fn named(self, name: String, finest: Nanos) -> FlameNode {
        let mut narrow = Nanos::ZERO;
        let mut within: Vec<FlameNode> = Vec::new();
        for (name, node) in self.within {
            if node.ns <= finest {
                narrow += node.ns;
            } else {
                within.push(node.named(name, finest));
            }
        }
        if narrow > finest {
            within.push(FlameNode {
                name: "others, each too small to see".into(),
                ns: narrow,
                within: Vec::new(),
            });
        }
        within.sort_by_key(|node| std::cmp::Reverse(node.ns));
        FlameNode {
            name,
            ns: self.ns,
            within,
        }
    }
}

/// The call chains sampled in each part. A sample by the CPU's clock is taken
/// in the interrupt of that clock and shows what this interrupted, so it
/// belongs to the part before the interrupt.
fn sampled<'a>(parts: &[Part], episode: &'a Episode) -> Vec<Vec<&'a StackSample>> {
    let mut sampled: Vec<Vec<&StackSample>> = vec![Vec::new(); parts.len()];
    let by_interrupt = matches!(episode.evidence.sampler, Some((Sampler::CpuClock, _)));
    for sample in &episode.evidence.samples {
        let Some(within) = parts
            .iter()
            .position(|part| sample.at_ns >= part.slice.from && sample.at_ns < part.slice.to)
        else {
            continue;
        };
        let interrupted = parts[..=within]
            .iter()
            .rposition(|part| part.slice.context.interrupt().is_none());
        let shown = match by_interrupt {
            true => interrupted.unwrap_or(within),
            false => within,
        };
        sampled[shown].push(sample);
    }
    sampled
}

#[cfg(test)]
mod tests {
    use laggard_analyze::causes::{Context, Open, Slice};
    use laggard_model::{
        Activation, Activity, CauseClass, Cpu, Culprit, LineId, STAGES, Tid, Vector,
    };

    use super::*;

    fn path(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_node_holds_the_time_of_all_that_is_within_it() {
        let mut flame = Flame::default();
        flame.grow(Nanos::from_us(30), path(&["softirq", "NET_RX", "poll"]));
        flame.grow(Nanos::from_us(20), path(&["softirq", "NET_RX"]));
        flame.grow(Nanos::from_us(70), path(&["stolen"]));

        let root = flame.into_node();

        let names: Vec<(&str, u64)> = root
            .within
            .iter()
            .map(|node| (node.name.as_str(), node.ns.ns()))
            .collect();
        assert_eq!(root.ns, Nanos::from_us(120));
        assert_eq!(names, [("stolen", 70_000), ("softirq", 50_000)]);
        assert_eq!(root.within[1].within[0].ns, Nanos::from_us(50));
        assert_eq!(root.within[1].within[0].within[0].ns, Nanos::from_us(30));
    }

    #[test]
    fn a_sample_by_the_clock_belongs_to_what_the_clock_interrupted() {
        let part = |from: u64, to: u64, activities: Vec<Activity>| Part {
            slice: Slice {
                from: Nanos::from_us(from),
                to: Nanos::from_us(to),
                context: Context {
                    activities: activities
                        .into_iter()
                        .map(|activity| Open {
                            activity,
                            since: Nanos::ZERO,
                        })
                        .collect(),
                    ..Context::default()
                },
            },
            class: CauseClass::Equal,
            culprit: Culprit::default(),
        };
        let clock = vec![Activity::Vector(Vector::LocalTimer)];
        let parts = [
            part(0, 10, vec![]),
            part(10, 12, clock),
            part(12, 20, vec![]),
        ];
        let stages = Activation {
            line: LineId(0),
            seq: 1,
            expiry: Nanos::ZERO,
            missed: false,
            steps: [None; STAGES.len()],
        };
        let mut episode = Episode::new(1, Cpu(0), &stages, Nanos::ZERO);
        episode.evidence.samples.push(StackSample {
            at_ns: Nanos::from_us(11),
            tid: Tid(1),
            process: 1,
            kernel: Vec::new(),
            user: Vec::new(),
        });
        let counts = |sampler, episode: &mut Episode| {
            episode.evidence.sampler = Some((sampler, Nanos::from_ms(1)));
            sampled(&parts, episode)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };

        assert_eq!(counts(Sampler::CpuClock, &mut episode), [1, 0, 0]);
        assert_eq!(counts(Sampler::Nmi, &mut episode), [0, 1, 0]);
    }

    #[test]
    fn what_is_too_narrow_is_drawn_together_and_not_dropped() {
        let mut flame = Flame::default();
        flame.grow(Nanos::from_ms(1), path(&["stolen"]));
        for index in 0..50 {
            flame.grow(Nanos::from_ns(100), path(&[&format!("small {index}")]));
        }

        let root = flame.into_node();

        assert_eq!(root.within.len(), 2);
        assert_eq!(root.within[1].ns, Nanos::from_us(5));
        assert_eq!(
            root.within.iter().map(|node| node.ns.ns()).sum::<u64>(),
            root.ns.ns()
        );
    }
}
