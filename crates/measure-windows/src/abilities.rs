//! What can be measured on this Windows, and why not where it cannot.

use laggard_model::{Ability, Absence, Lacks};
use windows_sys::Win32::System::Threading::{
    AvRevertMmThreadCharacteristics, AvSetMmThreadCharacteristicsW,
};
use windows_sys::core::w;

use super::driver::{DriverStatus, driver_status};
use super::etw::{self, NoEvents};
use super::rights::ProcessToken;

const ADMINISTRATOR: &str = "start the terminal with `Run as administrator`";

/// What measuring would take here, and which of it there is.
pub fn abilities() -> Vec<Ability> {
    let token = ProcessToken::own();
    let token = token.as_ref();
    let held = |name| token.and_then(|token| token.holds(name));
    vec![
        ability(
            "timers",
            "which timer does what it says (`laggard timers`)",
            None,
        ),
        ability(
            "recordings",
            "how late threads run that wait for a timer (`laggard record`)",
            None,
        ),
        Ability {
            is_needed: true,
            ..ability(
                "kernel events",
                "who made them late, and how long each stage took (ETW)",
                etw::events().err().map(of_events),
            )
        },
        ability(
            "administrator",
            "the kernel's events, the driver",
            of_rights(
                token.and_then(ProcessToken::is_elevated),
                "no administrator's rights are in use",
            ),
        ),
        ability(
            "real-time priorities",
            "threads of the REALTIME class (SeIncreaseBasePriorityPrivilege)",
            of_rights(
                held(w!("SeIncreaseBasePriorityPrivilege")),
                "the privilege is not held",
            ),
        ),
        ability(
            "profiling",
            "what ran, by samples (SeSystemProfilePrivilege)",
            of_rights(
                held(w!("SeSystemProfilePrivilege")),
                "the privilege is not held",
            ),
        ),
        ability("MMCSS", "threads scheduled as `Pro Audio`", of_mmcss()),
        ability(
            "wdmlat.sys",
            "how late DPCs and kernel threads run",
            of_driver(),
        ),
    ]
}

fn ability(name: &str, gives: &str, absence: Option<Absence>) -> Ability {
    Ability {
        name: name.into(),
        gives: gives.into(),
        is_needed: false,
        absence,
    }
}

/// Where the system does not tell, that is why.
fn of_rights(is_held: Option<bool>, lacks: &str) -> Option<Absence> {
    let reason = match is_held {
        Some(true) => return None,
        Some(false) => lacks,
        None => "Windows does not tell this process its rights",
    };
    Some(Absence {
        reason: reason.into(),
        remedy: ADMINISTRATOR.into(),
        lacks: Lacks::Rights,
    })
}

/// Tried on this thread, and undone.
fn of_mmcss() -> Option<Absence> {
    let mut index = 0;
    // SAFETY: the name ends in a NUL, and `index` is valid for writes.
    let handle = unsafe { AvSetMmThreadCharacteristicsW(w!("Pro Audio"), &raw mut index) };
    if handle.is_null() {
        return Some(Absence {
            reason: std::io::Error::last_os_error().to_string(),
            remedy: "start the service: `net start mmcss`".into(),
            lacks: Lacks::Kernel,
        });
    }
    // SAFETY: the handle is of the call above, and given back once.
    unsafe { AvRevertMmThreadCharacteristics(handle) };
    None
}

fn of_events(why: NoEvents) -> Absence {
    Absence {
        reason: why.to_string(),
        remedy: why.remedy().into(),
        lacks: match why {
            NoEvents::Rights => Lacks::Rights,
            NoEvents::Taken
            | NoEvents::Refused(_)
            | NoEvents::Unreadable(_)
            | NoEvents::NoThread
            | NoEvents::Groups => Lacks::Kernel,
        },
    }
}

fn of_driver() -> Option<Absence> {
    const STATUS: &str = "see `laggard driver status`";
    let (reason, remedy) = match driver_status() {
        Ok(DriverStatus::Installed {
            is_running: true, ..
        }) => return None,
        Ok(DriverStatus::Installed {
            is_running: false, ..
        }) => (
            "it is installed, and not loaded".into(),
            "`laggard driver install FILE` loads it",
        ),
        Ok(DriverStatus::Absent) => (
            "it is not installed".into(),
            "`laggard driver install FILE`, on a machine that may crash; `laggard driver status` says which drivers are loaded here",
        ),
        Ok(DriverStatus::FileOnly { .. } | DriverStatus::Other { .. }) => {
            ("something else has its name".into(), STATUS)
        }
        Err(err) => (err.to_string(), STATUS),
    };
    Some(Absence {
        reason,
        remedy: remedy.into(),
        lacks: Lacks::Kernel,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_told_with_a_reason_and_a_remedy() {
        let all = [
            NoEvents::Rights,
            NoEvents::Taken,
            NoEvents::Refused(87),
            NoEvents::Unreadable(5),
        ]
        .map(of_events);

        for one in &all {
            assert!(!one.reason.is_empty() && !one.remedy.is_empty(), "{one:?}");
        }
        assert!(all[0].remedy.contains("Run as administrator"));
        assert_eq!(of_rights(Some(true), "x"), None);
        assert_eq!(of_rights(Some(false), "x").unwrap().reason, "x");
        assert!(
            of_rights(None, "x")
                .unwrap()
                .reason
                .contains("does not tell")
        );
    }
}
