//! Interrupts and softirqs that took long where the kernel asks the hypervisor
//! for something: their code, or a stop from outside?
//!
//! After its last timer's function the timer's interrupt only programs the next
//! one; a function that wants irq work asks for an interrupt of its own CPU. On
//! a real machine both are a write to a register and take a microsecond or so.
//! On a virtual one the CPU leaves the guest for it, and when it comes back is
//! the hypervisor's affair: 2 to 4 ms were seen of which its steal clock knew
//! nothing, while the other CPU went on.

use laggard_model::{Activity, Because, CauseClass, Happening, Nanos, Vector};

use super::Part;
use super::index::EvidenceIndex;

/// What the kernel does there takes less, in an emulator too.
const ASKING: Nanos = Nanos::from_us(200);

/// Says of such parts that nothing tells who took them.
pub(super) fn doubt_interrupts(parts: &mut [Part], index: &EvidenceIndex<'_>) {
    for part in parts {
        if part.time() > ASKING
            && is_explained_by_context(part)
            && (programs_timer(part, index) || asks_for_interrupt(part, index))
        {
            part.culprit.because = Some(Because::OrOutside);
        }
    }
}

/// Whether nothing better is known of the part than what the CPU was at.
fn is_explained_by_context(part: &Part) -> bool {
    matches!(
        part.class,
        CauseClass::Interrupt | CauseClass::Softirq | CauseClass::OwnPath
    )
}

/// Whether the part is the end of a timer's interrupt, after its functions.
fn programs_timer(part: &Part, index: &EvidenceIndex<'_>) -> bool {
    let context = &part.slice.context;
    let is_timer = context
        .interrupt()
        .is_some_and(|open| open.activity == Activity::Vector(Vector::LocalTimer));
    is_timer
        && context.function().is_none()
        && index
            .last_event(part.slice.from)
            .is_some_and(|event| matches!(event.what, Happening::End(Activity::Hrtimer(_))))
}

/// Whether the part is a function's, and ends with irq work.
fn asks_for_interrupt(part: &Part, index: &EvidenceIndex<'_>) -> bool {
    part.slice.context.function().is_some()
        && index
            .first_event(part.slice.to)
            .is_some_and(|event| event.what == Happening::Begin(Activity::Vector(Vector::IrqWork)))
}
