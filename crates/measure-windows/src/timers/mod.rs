//! Waits for timers of Windows.

mod calling;
mod clocks;
mod waits;

use std::io;
use std::os::windows::io::OwnedHandle;

use laggard_model::TimerApi;

pub use self::clocks::clocks;
pub(super) use self::clocks::{TickLengths, tick_lengths};
pub use self::waits::WaitableTimer;
pub(super) use self::waits::done;
use laggard_measure::TimedWait;

/// Opens the timer for the calling thread. `stop` is a handle that is signalled when the waits
/// must end. It interrupts waits that can wait for a second handle.
pub fn open(api: TimerApi, stop: Option<&OwnedHandle>) -> io::Result<Box<dyn TimedWait>> {
    let own = || stop.map(OwnedHandle::try_clone).transpose();
    match waits::open(api, own()?) {
        Some(wait) => wait,
        None => calling::open(api, own()?)
            .unwrap_or_else(|| Err(io::Error::other("this timer does not exist on Windows"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_of_another_system_is_refused() {
        let refused = open(TimerApi::Timerfd, None)
            .err()
            .map(|err| err.to_string());

        assert_eq!(
            refused.as_deref(),
            Some("this timer does not exist on Windows")
        );
    }
}
