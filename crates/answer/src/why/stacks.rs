//! Time of an episode per cause, culprit and call chain, for flame graphs.
//!
//! The time of a part is divided evenly among the call chains sampled in it. Time when the whole
//! machine stood still (steal, stall) does not have a call chain.

use laggard_analyze::causes::{Part, samples_by_part};
use laggard_model::{CauseClass, Episode, NamedCause, Nanos, StackSample, Symbol, Symbols};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FrameKind {
    Class(CauseClass),
    /// Culprit.
    Who,
    /// Function of user code.
    User,
    /// Function of the kernel.
    Kernel,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Frame {
    /// Name of the culprit or function. Empty for a class.
    pub name: String,
    pub level: FrameKind,
}

/// Returns the stacks of an episode, outermost frame first, with their times, which add up
/// to its latency.
pub fn stacks(episode: &Episode, parts: &[Part], symbols: &Symbols) -> Vec<(Vec<Frame>, Nanos)> {
    let mut sampled: Vec<Vec<&StackSample>> = vec![Vec::new(); parts.len()];
    for (part, sample) in samples_by_part(episode, parts) {
        sampled[part].push(sample);
    }
    let mut stacks = Vec::new();
    for (part, samples) in parts.iter().zip(sampled) {
        let head = head(part, symbols);
        if samples.is_empty() {
            let place = part.culprit.frame.map(|frame| Frame {
                name: symbols.kernel_name(frame),
                level: FrameKind::Kernel,
            });
            stacks.push((head.into_iter().chain(place).collect(), part.time()));
            continue;
        }
        let shares = shares(part.time().ns(), samples.len() as u64);
        for (sample, share) in samples.into_iter().zip(shares) {
            let chain = chain(sample, part.class, symbols);
            stacks.push((head.iter().cloned().chain(chain).collect(), share));
        }
    }
    stacks
}

/// Divides `whole` into `count` parts that add up to it.
fn shares(whole: u64, count: u64) -> impl Iterator<Item = Nanos> {
    (0..count).map(move |index| Nanos::from_ns(whole / count + u64::from(index < whole % count)))
}

/// Returns class and culprit, without the place in the code, which the chain shows.
fn head(part: &Part, symbols: &Symbols) -> Vec<Frame> {
    let class = Frame {
        name: String::new(),
        level: FrameKind::Class(part.class),
    };
    let cause = NamedCause::without_place(part.class, &part.culprit, symbols);
    let who = cause.culprit().map(|name| Frame {
        name,
        level: FrameKind::Who,
    });
    std::iter::once(class).chain(who).collect()
}

/// Returns the call chain of a sample, outermost first. Functions without a name are shown as their
/// module, because each of their addresses would otherwise be a separate tower. The chain of an
/// interrupt starts at its entry, without the interrupted code.
pub(super) fn chain(sample: &StackSample, class: CauseClass, symbols: &Symbols) -> Vec<Frame> {
    let process_symbols = symbols.user.get(&sample.process);
    let user = sample.user.iter().rev().map(|&at| Frame {
        name: named(
            process_symbols.and_then(|process_symbols| process_symbols.get(&at)),
            || symbols.user_name(sample.process, at),
        ),
        level: FrameKind::User,
    });
    let kernel = sample.kernel.iter().rev().map(|&at| Frame {
        name: named(symbols.kernel.get(&at), || symbols.kernel_name(at)),
        level: FrameKind::Kernel,
    });
    let mut chain: Vec<Frame> = user.chain(kernel).collect();
    let is_interrupt = matches!(class, CauseClass::Interrupt | CauseClass::Softirq);
    let entry = chain.iter().position(|frame| {
        frame.name.starts_with("asm_sysvec_") || frame.name.starts_with("asm_common_interrupt")
    });
    if let (true, Some(entry)) = (is_interrupt, entry) {
        chain.drain(..entry);
    }
    chain.dedup();
    chain
}

fn named(symbol: Option<&Symbol>, name: impl Fn() -> String) -> String {
    match symbol {
        Some(Symbol { name: Some(_), .. }) => name(),
        Some(Symbol {
            module: Some(module),
            ..
        }) => ["[", module, "]"].concat(),
        _ => "[unknown]".into(),
    }
}

#[cfg(test)]
mod tests {
    use laggard_analyze::causes::explain;
    use laggard_model::{Address, Steal, Tid};

    use super::*;
    use laggard_made::late::{episode, manifest, notes};

    fn names(stack: &[Frame]) -> Vec<&str> {
        stack.iter().map(|frame| frame.name.as_str()).collect()
    }

    #[test]
    fn the_stacks_of_an_episode_add_up_to_its_latency() {
        let (late, line, notes) = (episode(1), manifest().lines[0], notes());
        let explanation = explain(&late, line.service, line.route);

        let stacks = stacks(&late, &explanation.parts, &notes.symbols);

        let sum: u64 = stacks.iter().map(|(_, time)| time.ns()).sum();
        assert_eq!(sum, late.latency().ns());
        let hog = ["", "hog", "spin [hog]"];
        let (_, time) = stacks.iter().find(|(one, _)| names(one) == hog).unwrap();
        assert!(*time > Nanos::from_us(900), "{stacks:?}");
    }

    #[test]
    fn a_stop_from_outside_has_no_call_chain() {
        let (mut late, line, notes) = (episode(1), manifest().lines[0], notes());
        // The hypervisor had the CPU for most of the time when `hog` is sampled. A timer's sample
        // shows the interrupted code.
        late.evidence.steals = Some(vec![Steal {
            since_ns: late.expiry_ns + Nanos::from_us(100),
            at_ns: late.expiry_ns + Nanos::from_us(1_800),
            time_ns: Nanos::from_us(1_650),
        }]);
        let explanation = explain(&late, line.service, line.route);

        let stacks = stacks(&late, &explanation.parts, &notes.symbols);

        let stolen: Vec<_> = stacks
            .iter()
            .filter(|(one, _)| one[0].level == FrameKind::Class(CauseClass::Stolen))
            .collect();
        assert!(!stolen.is_empty(), "{stacks:?}");
        for (stack, _) in &stolen {
            assert_eq!(stack.len(), 1, "{stolen:?}");
        }
        let sum: u64 = stacks.iter().map(|(_, time)| time.ns()).sum();
        assert_eq!(sum, late.latency().ns());
    }

    #[test]
    fn start_of_latency_is_stated_for_interrupts_and_threads() {
        let mut symbols = Symbols::default();
        let named = [(1, "poll"), (2, "asm_sysvec_apic"), (3, "do_syscall_64")];
        for (at, name) in named {
            let symbol = Symbol::named(name);
            symbols.kernel.insert(Address(at), symbol);
        }
        let sample = StackSample {
            at_ns: Nanos::ZERO,
            tid: Tid(1),
            process: 1,
            priority: None,
            kernel: vec![Address(1), Address(2), Address(3)],
            user: vec![Address(77), Address(78)],
        };

        let softirq = chain(&sample, CauseClass::Softirq, &symbols);
        let thread = chain(&sample, CauseClass::Equal, &symbols);

        assert_eq!(names(&softirq), ["asm_sysvec_apic", "poll"]);
        assert_eq!(
            names(&thread),
            ["[unknown]", "do_syscall_64", "asm_sysvec_apic", "poll"]
        );
    }
}
