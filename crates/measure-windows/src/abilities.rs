//! Abilities of this Windows, and why some are absent.

use laggard_model::{Ability, Absence, Lacks};
use windows_sys::Win32::System::Threading::{
    AvRevertMmThreadCharacteristics, AvSetMmThreadCharacteristicsW,
};
use windows_sys::core::w;

use super::driver::{DriverStatus, driver_status};
use super::etw::{self, NoEvents};
use super::rights::ProcessToken;

const ADMINISTRATOR: &str = "start the terminal with `Run as administrator`";

/// Returns the abilities that measurements use, and which of them are present.
pub fn abilities() -> Vec<Ability> {
    let token = ProcessToken::own();
    let token = token.as_ref();
    let held = |name| token.and_then(|token| token.holds(name));
    vec![
        ability("timers", None),
        ability("recordings", None),
        Ability {
            is_needed: true,
            ..ability("kernel events", etw::events().err().map(of_events))
        },
        ability(
            "administrator",
            of_rights(
                token.and_then(ProcessToken::is_elevated),
                "the process has no administrator rights",
            ),
        ),
        ability(
            "real-time priorities",
            of_rights(
                held(w!("SeIncreaseBasePriorityPrivilege")),
                "the privilege is not held",
            ),
        ),
        ability(
            "profiling",
            of_rights(
                held(w!("SeSystemProfilePrivilege")),
                "the privilege is not held",
            ),
        ),
        ability("MMCSS", of_mmcss()),
        ability("wdmlat.sys", of_driver()),
    ]
}

fn ability(name: &str, absence: Option<Absence>) -> Ability {
    Ability {
        name: name.into(),
        is_needed: false,
        absence,
    }
}

/// Returns the reason if the right is missing or unknown.
fn of_rights(is_held: Option<bool>, lacks: &str) -> Option<Absence> {
    let reason = match is_held {
        Some(true) => return None,
        Some(false) => lacks,
        None => "Windows does not report the rights of this process",
    };
    Some(Absence::new(reason, ADMINISTRATOR, Lacks::Rights))
}

/// Tried on this thread, and undone.
fn of_mmcss() -> Option<Absence> {
    let mut index = 0;
    // SAFETY: the name ends in a NUL, and `index` is valid for writes.
    let handle = unsafe { AvSetMmThreadCharacteristicsW(w!("Pro Audio"), &raw mut index) };
    if handle.is_null() {
        return Some(Absence::new(
            std::io::Error::last_os_error().to_string(),
            "start the service: `net start mmcss`",
            Lacks::Kernel,
        ));
    }
    // SAFETY: the call above returned the handle, which is released once.
    unsafe { AvRevertMmThreadCharacteristics(handle) };
    None
}

fn of_events(why: NoEvents) -> Absence {
    Absence::new(
        why.to_string(),
        why.remedy(),
        match why {
            NoEvents::Rights => Lacks::Rights,
            _ => Lacks::Kernel,
        },
    )
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
            "it is installed but not loaded".into(),
            "to load it, run `laggard driver install FILE`",
        ),
        Ok(DriverStatus::Absent) => (
            "it is not installed".into(),
            "run `laggard driver install FILE` on a test machine; `laggard driver status` shows which drivers Windows loads",
        ),
        Ok(DriverStatus::FileOnly { .. } | DriverStatus::Other { .. }) => {
            ("another program has its name".into(), STATUS)
        }
        Err(err) => (err.to_string(), STATUS),
    };
    Some(Absence::new(reason, remedy, Lacks::Kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_ability_has_a_reason_and_a_remedy() {
        let absences = [
            NoEvents::Rights,
            NoEvents::Taken,
            NoEvents::Refused(87),
            NoEvents::Unreadable(5),
        ]
        .map(of_events);

        for absence in &absences {
            assert!(
                !absence.reason.is_empty() && !absence.remedy.is_empty(),
                "{absence:?}"
            );
        }
        assert!(absences[0].remedy.contains("Run as administrator"));
        assert_eq!(of_rights(Some(true), "x"), None);
        assert_eq!(of_rights(Some(false), "x").unwrap().reason, "x");
        assert!(
            of_rights(None, "x")
                .unwrap()
                .reason
                .contains("does not report")
        );
    }
}
