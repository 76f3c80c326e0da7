//! What systemd is told, where it asked to be (`Type=notify`).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// How often systemd is told that measuring goes on.
const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// Measuring has begun.
pub(crate) fn ready() {
    tell(NotifyState::Ready);
}

/// Something was collected at `now`: what a watchdog waits for.
pub(crate) fn alive(now: Instant) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Ok(mut last) = LAST.lock() else { return };
    if last.is_some_and(|last| now < last + ALIVE_EVERY) {
        return;
    }
    *last = Some(now);
    tell(NotifyState::Watchdog);
}

/// The end has begun.
pub(crate) fn stopping() {
    tell(NotifyState::Stopping);
}

/// Nobody listens where no service manager started us; one that is deaf ends nothing.
fn tell(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}
