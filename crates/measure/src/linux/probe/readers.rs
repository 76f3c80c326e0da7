//! Who reads which line from the board.

use laggard_model::{LineId, Nanos, Stage};

use super::super::collector::{Expected, LineReader, Mirror};
use super::super::lines::CpuLines;
use super::super::programs::Programs;
use super::super::stamps::Stamps;

/// A reader for each line, with the number of its CPU.
pub(super) fn readers(
    plans: &[CpuLines],
    programs: Option<&Programs>,
    are_timed: bool,
) -> Vec<(u32, LineReader)> {
    let has_irq = programs.is_some_and(Programs::has_irq);
    let stamps = programs.map_or_else(Stamps::default, |all| all.stamps);
    let mut readers = Vec::new();
    for plan in plans {
        let first = readers.len();
        for (index, line) in plan.lines.iter().enumerate() {
            let turn = plan.turn_of(index);
            let is_deferred = plan.followers.contains(&index);
            let id = |index: usize| LineId(u16::try_from(index).unwrap_or(u16::MAX));
            let mirror = plan.mirrored().filter(|&(_, thread)| thread == index);
            let reader = LineReader {
                id: id(first + index),
                index,
                expected: Expected {
                    expire: programs.is_some()
                        && stamps.need_expire()
                        && are_timed
                        && line.service.is_thread()
                        && !is_deferred,
                    irq: has_irq,
                    waking: programs.is_some()
                        && stamps.has(Stage::Waking)
                        && line.service.is_thread(),
                },
                last: line.service.last_stage(),
                stamps,
                planned: None,
                stride: turn.stride,
                first: turn.first,
                is_follower: is_deferred && plan.has_callback(),
                next_seq: 0,
                last_end: None,
                last_raise: (!are_timed).then_some(Nanos::ZERO),
                begin: Nanos::ZERO,
                until: Nanos::MAX,
                unrecorded: 0,
                unexplained: 0,
                elsewhere: 0,
                mirror: mirror.map(|(softirq, _)| Mirror::new(id(first + softirq))),
            };
            readers.push((plan.cpu, reader));
        }
    }
    readers
}
