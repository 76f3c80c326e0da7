//! Breakdown of the time of all episodes: class, then culprit, then call chain.

use std::collections::BTreeMap;

use laggard_answer::why::{FrameKind, Part, stacks};
use laggard_model::{Episode, Nanos, Symbols};
use schemars::JsonSchema;
use serde::Serialize;

/// Inverse of the smallest share of a node. Smaller ones are less than a pixel wide and are
/// combined.
const FINEST: u64 = 20_000;

/// Time of episodes, and its parts.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct FlameNode {
    /// Name of a class, a culprit or a function.
    pub name: String,
    /// Time in this node.
    pub ns: Nanos,
    /// Calls within it, longest time first. The time missing in their sum is the node's, or has no
    /// call chain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<Self>,
}

/// Tree under construction.
#[derive(Debug, Default)]
pub(super) struct Flame {
    ns: Nanos,
    within: BTreeMap<String, Self>,
}

impl Flame {
    pub(super) fn add(&mut self, parts: &[Part], episode: &Episode, symbols: &Symbols) {
        for (stack, time) in stacks(episode, parts, symbols) {
            let names = stack.into_iter().map(|frame| match frame.level {
                FrameKind::Class(class) => class.words().to_owned(),
                FrameKind::Who | FrameKind::User | FrameKind::Kernel => frame.name,
            });
            self.grow(time, names);
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

    /// Returns the tree, with narrow nodes combined.
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

#[cfg(test)]
mod tests {
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
    fn narrow_boxes_are_combined_and_not_dropped() {
        let mut flame = Flame::default();
        flame.grow(Nanos::from_ms(1), path(&["stolen"]));
        for index in 0..50 {
            flame.grow(Nanos::from_ns(10), path(&[&format!("small {index}")]));
        }

        let root = flame.into_node();

        assert_eq!(root.within.len(), 2);
        assert_eq!(root.within[1].ns, Nanos::from_ns(500));
        assert_eq!(
            root.within.iter().map(|node| node.ns.ns()).sum::<u64>(),
            root.ns.ns()
        );
    }
}
