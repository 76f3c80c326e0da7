//! Request to keep the machine awake during the measurement, and detection of a sleep.

use laggard_model::{Caveat, CaveatKind, Nanos};
use windows_sys::Win32::System::Power::{
    ES_CONTINUOUS, ES_SYSTEM_REQUIRED, SetThreadExecutionState,
};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;
use windows_sys::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;

/// Minimum difference of the two clocks that counts as a sleep: one advances in steps of up to 16
/// ms, the other in ticks.
const MIN_SLEEP: Nanos = Nanos::from_ms(500);

/// Request that Windows does not sleep for lack of user activity while the value lives. It belongs
/// to the calling thread, and ends with it.
#[derive(Debug)]
pub(super) struct StayAwake {
    slept: Option<Nanos>,
}

impl StayAwake {
    pub(super) fn ask() -> Self {
        // SAFETY: the call does not take pointers. If it is refused, a sleep is still detected.
        unsafe { SetThreadExecutionState(ES_CONTINUOUS | ES_SYSTEM_REQUIRED) };
        Self { slept: slept() }
    }

    /// Returns the warning that the machine has slept since: on request of its user, with the lid
    /// closed or without power.
    pub(super) fn caveat(&self) -> Option<Caveat> {
        told(slept()?.saturating_sub(self.slept?))
    }
}

impl Drop for StayAwake {
    fn drop(&mut self) {
        // SAFETY: the call does not take pointers.
        unsafe { SetThreadExecutionState(ES_CONTINUOUS) };
    }
}

/// Returns the time that this system has slept since boot.
fn slept() -> Option<Nanos> {
    let mut awake = 0;
    // SAFETY: `awake` is valid for writes; the time is in units of 100 ns.
    if unsafe { QueryUnbiasedInterruptTime(&raw mut awake) } == 0 {
        return None;
    }
    // SAFETY: the call does not take pointers.
    let uptime = Nanos::from_ms(unsafe { GetTickCount64() });
    Some(uptime.saturating_sub(Nanos::from_ns(awake.saturating_mul(100))))
}

fn told(slept: Nanos) -> Option<Caveat> {
    (slept > MIN_SLEEP).then(|| {
        Caveat::new(
            CaveatKind::Stopped,
            format!("the machine slept for {slept} during the measurement; this time counts as latency of the expiries in it"),
            "record again without sleep (plugged in, lid open)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_reported_and_clock_steps_are_not() {
        let stay = StayAwake::ask();

        assert_eq!(stay.caveat(), None);
        assert_eq!(told(MIN_SLEEP), None);
        let text = told(Nanos::from_secs(90)).unwrap().what;
        assert!(text.starts_with("the machine slept for 90s"), "{text}");
    }
}
