//! Readers of the board's lines.

use laggard_model::{LineId, Service, Stage};

use super::super::lines::CpuLines;
use crate::board::{Asker, ExpectedStages, LineReader, Stamps};

/// Returns a reader for each line, with the number of its CPU. `stages` are the stages that are
/// stamped, and whether `irq` is.
pub(super) fn readers(
    plans: &[CpuLines],
    stages: Option<(Stamps, bool)>,
    are_timed: bool,
) -> Vec<(u32, LineReader)> {
    let has_irq = stages.is_some_and(|(_, has_irq)| has_irq);
    let stamps = stages.map_or_else(Stamps::default, |(stamps, _)| stamps);
    let mut readers = Vec::new();
    for plan in plans {
        let first = readers.len();
        for (index, line) in plan.lines.iter().enumerate() {
            let turn = plan.turn_of(index);
            let is_deferred = plan.followers.contains(&index);
            let id = |place| LineId::at(place).expect("more lines are refused before");
            let mirror = plan.mirrored().filter(|&(_, thread)| thread == index);
            let asker = match line.service {
                _ if !are_timed => Asker::Device,
                Service::Softirq if plan.mirrored().is_some() => Asker::Mirrored,
                Service::Softirq => Asker::Callback,
                _ if is_deferred && plan.has_callback() => Asker::Follower,
                Service::Worker => Asker::Carrier,
                _ => Asker::Thread,
            };
            let last = line.service.last_stage();
            let mut reader = LineReader::new(id(first + index), index, last, asker);
            let is_stamped_thread = stages.is_some() && line.service.is_thread();
            // No timer or wakeup leads to a thread that computes all the time.
            let is_led_to = !plan.is_contender(index);
            // A borrower that was displaced at its own priority is runnable when it gets the other.
            let is_woken = line.service.lent().is_none();
            reader.expected = ExpectedStages {
                expire: is_stamped_thread
                    && stamps.need_expire()
                    && are_timed
                    && !is_deferred
                    && is_led_to,
                irq: has_irq && is_led_to,
                waking: is_stamped_thread && stamps.has(Stage::Waking) && is_led_to && is_woken,
            };
            reader.stamps = if is_led_to {
                stamps
            } else {
                Stamps::from_stages(&[])
            };
            (reader.stride, reader.first) = (turn.stride, turn.first);
            if let Some((softirq, _)) = mirror {
                reader.tell_softirq(id(first + softirq));
            }
            readers.push((plan.cpu, reader));
        }
    }
    readers
}
