//! A machine that stays awake while it is measured, and whether it did.

use laggard_model::{Caveat, CaveatKind, Nanos};
use windows_sys::Win32::System::Power::{
    ES_CONTINUOUS, ES_SYSTEM_REQUIRED, SetThreadExecutionState,
};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;
use windows_sys::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;

/// Windows counts the one time in steps of up to 16 ms, and the other in its ticks.
const NEAR: Nanos = Nanos::from_ms(500);

/// Has Windows not sleep for want of a user, as long as this lives. It asks for the calling
/// thread, and goes with it.
#[derive(Debug)]
pub(super) struct StayAwake {
    slept: Option<Nanos>,
}

impl StayAwake {
    pub(super) fn ask() -> Self {
        // SAFETY: takes no pointers. Where it is refused, a sleep is still seen.
        unsafe { SetThreadExecutionState(ES_CONTINUOUS | ES_SYSTEM_REQUIRED) };
        Self { slept: slept() }
    }

    /// That the machine slept since: by its user's wish, with its lid or on its last power.
    pub(super) fn caveat(&self) -> Option<Caveat> {
        told(slept()?.saturating_sub(self.slept?))
    }
}

impl Drop for StayAwake {
    fn drop(&mut self) {
        // SAFETY: takes no pointers.
        unsafe { SetThreadExecutionState(ES_CONTINUOUS) };
    }
}

/// How long this system has slept since it was started.
fn slept() -> Option<Nanos> {
    let mut awake = 0;
    // SAFETY: `awake` is valid for writes; it has the time in units of 100 ns.
    if unsafe { QueryUnbiasedInterruptTime(&raw mut awake) } == 0 {
        return None;
    }
    // SAFETY: takes no pointers.
    let all = Nanos::from_ms(unsafe { GetTickCount64() });
    Some(all.saturating_sub(Nanos::from_ns(awake.saturating_mul(100))))
}

fn told(slept: Nanos) -> Option<Caveat> {
    (slept > NEAR).then(|| {
        Caveat::new(
            CaveatKind::Stopped,
            format!("the machine slept for {slept} meanwhile, which counts as latency of what was due then"),
            "record again without sleep: plugged in, with the lid open",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_told_and_the_steps_of_clocks_are_none() {
        let stay = StayAwake::ask();

        assert_eq!(stay.caveat(), None);
        assert_eq!(told(NEAR), None);
        let said = told(Nanos::from_secs(90)).unwrap().what;
        assert!(said.starts_with("the machine slept for 90s"), "{said}");
    }
}
