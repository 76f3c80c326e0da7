//! Interrupts that took long where the kernel asks the hypervisor for
//! something: the interrupt's code, or a stop from outside?
//!
//! After its last timer's function the timer's interrupt only programs the next
//! one; the sampler's function asks for an interrupt of its own. On a real
//! machine both are a write to a register and take a microsecond or so. On a
//! virtual one the CPU leaves the guest for it, and when it comes back is the
//! hypervisor's affair: 2 to 4 ms were seen of which its steal clock knew
//! nothing, while the other CPU went on.

use laggard_model::{
    Activity, Address, CauseClass, Culprit, Episode, Happening, Nanos, Symbols, Vector,
};

use super::{Explanation, Part};

/// What the kernel does there takes less, in an emulator too.
const ASKING: Nanos = Nanos::from_us(200);
/// The sampler's function.
const SAMPLER: &str = "perf_swevent_hrtimer";
const DOUBT: &str = "or a stop from outside";

/// Says of such parts that nothing tells who took them.
pub(super) fn doubt_interrupts(found: &mut Explanation, episode: &Episode, symbols: &Symbols) {
    for part in &mut found.parts {
        if part.time() > ASKING && is_explained_by_interrupt(part) && asks(part, episode, symbols) {
            part.class = CauseClass::Interrupt;
            part.culprit = Culprit {
                activity: Some(Activity::Vector(Vector::LocalTimer)),
                because: Some(DOUBT.into()),
                ..Culprit::default()
            };
        }
    }
}

/// Whether nothing better is known of the part than that an interrupt ran.
fn is_explained_by_interrupt(part: &Part) -> bool {
    let interrupt = part.slice.context.interrupt();
    let is_timer =
        interrupt.is_some_and(|open| open.activity == Activity::Vector(Vector::LocalTimer));
    is_timer && matches!(part.class, CauseClass::Interrupt | CauseClass::OwnPath)
}

/// Whether the kernel asked for something in the part.
fn asks(part: &Part, episode: &Episode, symbols: &Symbols) -> bool {
    match part.slice.context.function() {
        Some(function) => {
            matches!(function.activity, Activity::Hrtimer(at) if is_sampler(at, symbols))
        }
        None => {
            let before = episode
                .evidence
                .events
                .iter()
                .rfind(|event| event.at_ns <= part.slice.from);
            before.is_some_and(|event| matches!(event.what, Happening::End(Activity::Hrtimer(_))))
        }
    }
}

fn is_sampler(at: Address, symbols: &Symbols) -> bool {
    let name = symbols.kernel.get(&at).and_then(|one| one.name.as_deref());
    name == Some(SAMPLER)
}
