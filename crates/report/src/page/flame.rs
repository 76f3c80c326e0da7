//! Where the time of all episodes went: class, then culprit, then call chain.

use std::collections::BTreeMap;

use laggard_analyze::causes::{Part, samples_by_part};
use laggard_model::{CauseClass, Episode, Nanos, StackSample, Symbols};
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
        let mut sampled: Vec<Vec<&StackSample>> = vec![Vec::new(); parts.len()];
        for (part, sample) in samples_by_part(episode, parts) {
            sampled[part].push(sample);
        }
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
                let chain = chain(sample, part.class, symbols);
                self.grow(Nanos::from_ns(ns), head.iter().cloned().chain(chain));
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

/// The call chain of a sample, outermost first. Functions without a name are
/// told by their module only, because each address of them would be a tower of
/// its own; an interrupt is told from where it began, whatever it interrupted.
fn chain(sample: &StackSample, class: CauseClass, symbols: &Symbols) -> Vec<String> {
    let mut chain: Vec<String> = frames(sample, symbols)
        .into_iter()
        .rev()
        .map(|name| match name.strip_prefix("0x") {
            Some(rest) => rest
                .split_once(' ')
                .map_or("[not known]", |(_, module)| module)
                .to_owned(),
            None => name,
        })
        .collect();
    let is_interrupt = matches!(class, CauseClass::Interrupt | CauseClass::Softirq);
    let entry = chain.iter().position(|name| {
        name.starts_with("asm_sysvec_") || name.starts_with("asm_common_interrupt")
    });
    if let (true, Some(entry)) = (is_interrupt, entry) {
        chain.drain(..entry);
    }
    chain.dedup();
    chain
}

#[cfg(test)]
mod tests {
    use laggard_model::{Address, Symbol, Tid};

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
    fn an_interrupt_is_told_from_where_it_began_and_a_thread_from_its_start() {
        let mut symbols = Symbols::default();
        let named = [(1, "poll"), (2, "asm_sysvec_apic"), (3, "do_syscall_64")];
        for (at, name) in named {
            let symbol = Symbol {
                name: Some(name.into()),
                ..Symbol::default()
            };
            symbols.kernel.insert(Address(at), symbol);
        }
        let sample = StackSample {
            at_ns: Nanos::ZERO,
            tid: Tid(1),
            process: 1,
            kernel: vec![Address(1), Address(2), Address(3)],
            user: vec![Address(77), Address(78)],
        };

        let softirq = chain(&sample, CauseClass::Softirq, &symbols);
        let thread = chain(&sample, CauseClass::Equal, &symbols);

        assert_eq!(softirq, ["asm_sysvec_apic", "poll"]);
        assert_eq!(
            thread,
            ["[not known]", "do_syscall_64", "asm_sysvec_apic", "poll"]
        );
    }

    #[test]
    fn what_is_too_narrow_is_drawn_together_and_not_dropped() {
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
