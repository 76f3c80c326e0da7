//! Notifications of systemd, if the unit requests them (`Type=notify`).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Time between two notifications of the watchdog.
const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// Reports that measuring has started.
pub(crate) fn ready() {
    tell(NotifyState::Ready);
}

/// Reports that data was collected at `now`. This feeds the watchdog.
pub(crate) fn alive(now: Instant) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Ok(mut last) = LAST.lock() else { return };
    if last.is_some_and(|last| now < last + ALIVE_EVERY) {
        return;
    }
    *last = Some(now);
    tell(NotifyState::Watchdog);
}

/// Reports that the program is about to end.
pub(crate) fn stopping() {
    tell(NotifyState::Stopping);
}

/// Without a service manager, the notification is not received. A failed notification is not a
/// reason to end.
fn tell(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}
