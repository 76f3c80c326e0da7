//! Long interrupts and softirqs at points where the kernel calls the hypervisor. Either
//! their code took the time, or the CPU was stopped from outside.
//!
//! After its last timer function, the timer interrupt only programs the next expiry. A
//! function that queues irq work requests an interrupt of its CPU. On a physical
//! machine both are a register write and take about a microsecond. On a virtual machine
//! the CPU exits the guest, and the hypervisor decides when it returns. Exits of 2 to 4
//! ms were measured that the steal clock did not count, while the other CPU continued.

use laggard_model::{Activity, Because, CauseClass, Happening, Nanos, Vector};

use super::Part;
use super::index::EvidenceIndex;

/// Maximum time of these register writes, including in an emulator.
const ASKING: Nanos = Nanos::from_us(200);

/// Marks parts whose evidence does not show which side took the time, this CPU or the outside.
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

/// Returns whether the context of the CPU is the only evidence for the part.
fn is_explained_by_context(part: &Part) -> bool {
    matches!(
        part.class,
        CauseClass::Interrupt | CauseClass::Softirq | CauseClass::OwnPath
    )
}

/// Returns whether the part is the end of a timer interrupt, after its functions.
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

/// Returns whether the part belongs to a function and ends with irq work.
fn asks_for_interrupt(part: &Part, index: &EvidenceIndex<'_>) -> bool {
    part.slice.context.function().is_some()
        && index
            .first_event(part.slice.to)
            .is_some_and(|event| event.what == Happening::Begin(Activity::Vector(Vector::IrqWork)))
}
