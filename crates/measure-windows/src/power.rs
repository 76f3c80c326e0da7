//! Power source of this Windows, and its power saving of CPUs.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use laggard_model::{Caveat, CaveatKind};
use windows_sys::Win32::Foundation::{ERROR_SUCCESS, LocalFree};
use windows_sys::Win32::System::Power::{
    GetSystemPowerStatus, PowerGetActiveScheme, SYSTEM_POWER_STATUS,
};
use windows_sys::Win32::System::SystemServices::{
    GUID_PROCESSOR_CORE_PARKING_MIN_CORES, GUID_PROCESSOR_SETTINGS_SUBGROUP,
};
use windows_sys::core::GUID;

use super::procedure;

/// Reads a setting of a power plan for one power source: user key, plan, group of settings,
/// setting, and the address for its value. Returns an error, or 0.
type ReadValue =
    unsafe extern "system" fn(*mut c_void, *const GUID, *const GUID, *const GUID, *mut u32) -> u32;

/// Power saving of Windows; `None` if Windows does not report it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Power {
    pub(super) is_on_battery: Option<bool>,
    /// Minimum share of CPUs that is never parked, in percent.
    pub(super) unparked_percent: Option<u32>,
}

impl Power {
    pub(super) fn read() -> Self {
        let is_on_battery = is_on_battery();
        Self {
            is_on_battery,
            unparked_percent: unparked_percent(is_on_battery == Some(true)),
        }
    }

    pub(super) fn caveats(self) -> impl Iterator<Item = Caveat> {
        let on_battery = (self.is_on_battery == Some(true)).then(|| {
            Caveat::new(
                CaveatKind::Governor,
                "the machine runs on battery, so Windows and the firmware slow it down",
                "plug it in",
            )
        });
        let parked = self.unparked_percent.filter(|percent| *percent < 100);
        let parked = parked.map(|percent| {
            let source = if self.is_on_battery == Some(true) { "dc" } else { "ac" };
            Caveat::new(
                CaveatKind::IdleStates,
                format!(
                    "cores may be parked: only {percent} % of them always stay ready, and a wakeup on another core waits until the core is back"
                ),
                format!(
                    "run powercfg /set{source}valueindex scheme_current sub_processor CPMINCORES 100, then powercfg /setactive scheme_current"
                ),
            )
        });
        on_battery.into_iter().chain(parked)
    }
}

fn is_on_battery() -> Option<bool> {
    let mut status = SYSTEM_POWER_STATUS::default();
    // SAFETY: `status` is valid for writes.
    let result = unsafe { GetSystemPowerStatus(&raw mut status) };
    match (result, status.ACLineStatus) {
        (0, _) => None,
        (_, 0) => Some(true),
        (_, 1) => Some(false),
        // 255 means unknown.
        _ => None,
    }
}

fn unparked_percent(on_battery: bool) -> Option<u32> {
    let name: &[u8] = if on_battery {
        b"PowerReadDCValueIndex\0"
    } else {
        b"PowerReadACValueIndex\0"
    };
    let read = procedure::find(b"powrprof.dll\0", name)?;
    // SAFETY: both functions have this signature.
    let read: ReadValue = unsafe { transmute(read) };
    let mut plan = ptr::null_mut();
    // SAFETY: `plan` is valid for writes.
    if unsafe { PowerGetActiveScheme(ptr::null_mut(), &raw mut plan) } != ERROR_SUCCESS {
        return None;
    }
    let mut percent = 0;
    // SAFETY: the call above returned the plan; all pointers are valid, `percent` for writes.
    let error = unsafe {
        read(
            ptr::null_mut(),
            plan,
            &GUID_PROCESSOR_SETTINGS_SUBGROUP,
            &GUID_PROCESSOR_CORE_PARKING_MIN_CORES,
            &raw mut percent,
        )
    };
    // SAFETY: the plan must be freed this way, and is not used any more.
    unsafe { LocalFree(plan.cast()) };
    (error == ERROR_SUCCESS).then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(is_on_battery: bool, percent: u32) -> Vec<Caveat> {
        let power = Power {
            is_on_battery: Some(is_on_battery),
            unparked_percent: Some(percent),
        };
        power.caveats().collect()
    }

    #[test]
    fn parked_cores_have_the_remedy_for_this_power_source() {
        let [plugged] = &told(false, 10)[..] else {
            panic!("{:?}", told(false, 10));
        };
        let [_, on_battery] = &told(true, 10)[..] else {
            panic!("{:?}", told(true, 10));
        };

        assert!(plugged.what.contains("only 10 % of them"), "{plugged:?}");
        assert!(plugged.advice.starts_with("run powercfg /setacvalueindex"));
        assert!(
            on_battery
                .advice
                .starts_with("run powercfg /setdcvalueindex")
        );
    }

    #[test]
    fn unknown_settings_and_unparked_cores_give_no_caveat() {
        assert_eq!(Power::default().caveats().count(), 0);
        assert_eq!(told(false, 100), []);
        // On any system there is at most one warning of each kind.
        assert!(
            Power::read()
                .unparked_percent
                .is_none_or(|percent| percent <= 100)
        );
    }
}
