//! Wakers of a thread.

use laggard_model::WokenBy;

use super::line::LineState;

const MAX_WAKERS: usize = 16;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Waker {
    Function(laggard_model::Address),
    Thread(laggard_model::ThreadName),
    None,
}

impl LineState {
    pub(super) fn note_waker(&mut self, woken: WokenBy) {
        let who = match woken {
            WokenBy::Timer(function) | WokenBy::Wheel(function) => Waker::Function(function),
            WokenBy::Thread(_, name) | WokenBy::Sender(_, name) => Waker::Thread(name),
            WokenBy::Irq(_) | WokenBy::Vector | WokenBy::Softirq(_) | WokenBy::Interrupt => {
                Waker::None
            }
        };
        if let WokenBy::Thread(tid, _) = woken
            && (self.waker_tids.len() < MAX_WAKERS || self.waker_tids.contains_key(&tid))
        {
            *self.waker_tids.entry(tid).or_default() += 1;
        }
        if self.wakers.len() == MAX_WAKERS && !self.wakers.contains_key(&who) {
            self.other_wakers += 1;
        } else {
            *self.wakers.entry(who).or_default() += 1;
        }
    }
}
