//! `laggard driver`: installs and removes the driver for Windows.

use anyhow::Context as _;
use laggard_measure_windows::{
    DriverStatus, Signing, driver_status, install_driver, remove_driver, signing,
};

use crate::args::{DriverArgs, DriverCommand};
use crate::exit::Exit;
use crate::pipe;

pub(crate) fn driver(args: DriverArgs) -> anyhow::Result<Exit> {
    match args.command {
        DriverCommand::Install { file } => {
            let path = install_driver(&file).context("cannot install the driver")?;
            pipe::print(&format!(
                "The driver is loaded: {}\nIt stays loaded until `laggard driver remove`. After a restart of Windows, run `install` again.\n",
                path.display()
            ))?;
        }
        DriverCommand::Remove => {
            let was_there = remove_driver().context("cannot remove the driver")?;
            pipe::print(if was_there {
                "The driver is unloaded and its files are removed.\n"
            } else {
                "The driver is not installed; nothing was changed.\n"
            })?;
        }
        DriverCommand::Status => pipe::print(&status_text(&driver_status()?, &signing()))?,
    }
    Ok(Exit::Ok)
}

/// Describes the installed driver, and the drivers that this machine loads.
fn status_text(status: &DriverStatus, signing: &Signing) -> String {
    let status = match status {
        DriverStatus::Absent => "not installed".into(),
        DriverStatus::FileOnly { path } => format!(
            "not installed, but its file exists: {}\n                   remedy: laggard driver remove",
            path.display()
        ),
        DriverStatus::Other { path } => format!(
            "another service has this name and runs {path}\n                   remedy: `sc delete wdmlat`, if you installed it"
        ),
        DriverStatus::Installed { path, is_running } => format!(
            "installed, {}: {}",
            if *is_running { "loaded" } else { "not loaded" },
            path.display()
        ),
    };
    let loaded = match (signing.are_checked, signing.is_test) {
        (Some(false), _) => "not checked here",
        (_, Some(true)) => {
            "drivers with a certificate of this machine are loaded (test signing is on)"
        }
        (_, Some(false)) => "only drivers signed by Microsoft are loaded (test signing is off)",
        (_, None) => "unknown",
    };
    let remedy = match signing.are_checked {
        Some(false) => String::new(),
        _ => format!(
            "                   for a driver that you built: {}\n",
            signing.remedy()
        ),
    };
    format!(
        "wdmlat.sys:        {status}\nsignatures:        {loaded}\n{remedy}Secure Boot:       {}\nmemory integrity:  {}\n",
        switch(signing.has_secure_boot),
        switch(signing.has_memory_integrity),
    )
}

const fn switch(is_on: Option<bool>) -> &'static str {
    match is_on {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_setting_is_not_reported_as_off() {
        let unknown = status_text(&DriverStatus::Absent, &Signing::default());
        let signing = Signing {
            are_checked: Some(true),
            is_test: Some(false),
            has_memory_integrity: Some(false),
            has_secure_boot: Some(true),
        };
        let signing = status_text(&DriverStatus::Absent, &signing);

        assert_eq!(unknown.matches("unknown").count(), 3, "{unknown}");
        assert!(!unknown.contains("off\n"), "{unknown}");
        assert!(
            signing.contains("only drivers signed by Microsoft are loaded"),
            "{signing}"
        );
        assert!(signing.contains("Secure Boot:       on\n"), "{signing}");
        assert!(signing.contains("memory integrity:  off\n"), "{signing}");
    }
}
