//! More urgency for whoever reads the rings, while it comes too late.
//!
//! On a machine with many more threads than CPUs a normal thread can stay
//! away for longer than a ring lasts, and then nothing explains the worst
//! activations. So a thread that stayed away too long gets a larger share of
//! its CPU until it has come in time for a while. It stays a normal thread.

use laggard_model::Nanos;

use super::super::clock;

/// Staying away longer risks that a busy CPU's ring is overwritten.
const TOO_LONG: Nanos = Nanos::from_ms(400);
/// How long it must have come in time to be as before.
const CALM: Nanos = Nanos::from_secs(10);
/// The nice value meanwhile: nine times an ordinary thread's share.
const URGENT: i32 = -10;

/// How the calling thread comes to the rings.
#[derive(Debug)]
pub(super) struct Hurry {
    last: Nanos,
    /// Since when it comes in time; `None`: it is not being hurried.
    calm_since: Option<Nanos>,
}

impl Hurry {
    pub(super) fn new() -> Self {
        Self {
            last: clock::now(),
            calm_since: None,
        }
    }

    /// To be called whenever the thread comes.
    pub(super) fn note(&mut self) {
        let now = clock::now();
        let away = now.saturating_sub(self.last);
        self.last = now;
        match self.calm_since {
            _ if away > TOO_LONG => {
                if self.calm_since.is_none() {
                    set_nice(URGENT);
                }
                self.calm_since = Some(now);
            }
            Some(since) if now >= since + CALM => {
                set_nice(0);
                self.calm_since = None;
            }
            _ => {}
        }
    }
}

/// Sets the calling thread's nice value. Without the right it stays as it is,
/// and what is overwritten is counted anyway.
fn set_nice(nice: i32) {
    // SAFETY: takes no pointers; on Linux, 0 is the calling thread alone.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}
