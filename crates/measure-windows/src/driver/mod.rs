//! The driver `wdmlat.sys`, which is installed and removed only on request.
//!
//! It consists of a file in the system's driver directory and a service that is started manually.
//! laggard changes nothing else.

mod error;
mod image;
mod place;
mod service;
mod signing;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Foundation::{
    ERROR_DRIVER_BLOCKED, ERROR_INVALID_IMAGE_HASH, ERROR_SERVICE_ALREADY_RUNNING,
    ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION,
};

pub use error::DriverError;
pub use signing::{Signing, signing};

use self::image::DriverImage;
use self::place::DriverPlace;
use self::service::{DriverService, Manager, ServiceRights};

/// Remedies for a missing or untrusted signature.
const REMEDY_TEST: &str =
    "sign it with a certificate that this machine trusts (see windows/driver/README.md)";
const REMEDY_OFF: &str = "on a test machine only, run `bcdedit /set testsigning on`, restart, and sign it with a certificate that this machine trusts (windows/driver/README.md says how)";
const REMEDY_SECURE_BOOT: &str = "on a test machine only, disable Secure Boot in the firmware, run `bcdedit /set testsigning on`, restart, and sign it with a certificate that this machine trusts (windows/driver/README.md says how)";

impl Signing {
    /// Returns the remedy that makes a self-signed driver load on this machine.
    pub fn remedy(&self) -> &'static str {
        match (self.is_test, self.has_secure_boot) {
            (Some(true), _) => REMEDY_TEST,
            (_, Some(true)) => REMEDY_SECURE_BOOT,
            (_, Some(false) | None) => REMEDY_OFF,
        }
    }
}

/// State of the driver's installation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DriverStatus {
    /// Neither a service nor a file exists.
    Absent,
    /// A file exists in the system's directory without a service.
    FileOnly {
        path: PathBuf,
    },
    /// A service with this name runs another file.
    Other {
        /// File that it runs.
        path: String,
    },
    Installed {
        path: PathBuf,
        is_running: bool,
    },
}

/// Returns the state of the driver.
///
/// # Errors
///
/// Returns an error if the system does not report it.
pub fn driver_status() -> Result<DriverStatus, DriverError> {
    let place = DriverPlace::of_system()?;
    match Manager::open(ServiceRights::Look)?.find()? {
        None if place.file.exists() => Ok(DriverStatus::FileOnly { path: place.file }),
        None => Ok(DriverStatus::Absent),
        Some(service) => match place.foreign(service.path()?) {
            Some(path) => Ok(DriverStatus::Other { path }),
            None => Ok(DriverStatus::Installed {
                path: place.file,
                is_running: service.is_running()?,
            }),
        },
    }
}

/// Copies the driver to the driver directory and loads it. If that fails, everything is removed
/// again.
///
/// # Errors
///
/// Returns an error if the file is not the driver, if Windows does not load it, or if another one
/// is installed.
pub fn install_driver(from: &Path) -> Result<PathBuf, DriverError> {
    let (bytes, image) = read(from)?;
    let place = DriverPlace::of_system()?;
    let manager = Manager::open(ServiceRights::Change)?;
    let signing = signing();
    refuse_unsigned(from, image, &signing)?;
    let service = manager.find()?;
    if let Some(service) = &service {
        refuse_foreign(&place, service)?;
    }
    let is_new = match fs::read(&place.file) {
        Ok(there) if there == bytes => false,
        Ok(there) => return Err(place.occupied(&there)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => true,
        Err(source) => {
            return Err(service::error_of_administrator(
                "read the installed driver",
                source,
            ));
        }
    };
    let is_made = service.is_none();
    let installed = (|| {
        if is_new {
            place.write(&bytes)?;
        }
        match service {
            Some(service) => Ok(service),
            None => manager.create(&place.wide()),
        }
    })();
    let loaded = installed.and_then(|service| match service.start() {
        Ok(()) => Ok(()),
        Err(err) => {
            if is_made {
                service.delete()?;
            }
            Err(refused(err, &signing))
        }
    });
    match (loaded, is_new) {
        (Ok(()), _) => Ok(place.file),
        (Err(why), false) => Err(why),
        (Err(why), true) => Err(match place.clear() {
            Ok(()) => why,
            Err(left) => DriverError::Left {
                why: Box::new(why),
                left: Box::new(left),
            },
        }),
    }
}

/// Unloads the driver and removes it. Returns whether it was installed.
///
/// # Errors
///
/// Returns an error if it is in use, or if the installed file is not this driver.
pub fn remove_driver() -> Result<bool, DriverError> {
    let place = DriverPlace::of_system()?;
    let manager = Manager::open(ServiceRights::Change)?;
    let service = manager.find()?;
    if let Some(service) = &service {
        refuse_foreign(&place, service)?;
    }
    let is_there = place.is_ours()?;
    let was_there = service.is_some() || is_there;
    if let Some(service) = service {
        service.stop()?;
        service.delete()?;
        if manager.find()?.is_some() {
            return Err(DriverError::MarkedForRemoval);
        }
    }
    place.clear()?;
    Ok(was_there)
}

fn read(path: &Path) -> Result<(Vec<u8>, DriverImage), DriverError> {
    let bytes = fs::read(path).map_err(|source| DriverError::Unreadable {
        path: path.into(),
        source,
    })?;
    match image::read(&bytes) {
        Ok(image) => Ok((bytes, image)),
        Err(why) => Err(DriverError::NotTheDriver {
            path: path.into(),
            why,
        }),
    }
}

fn refuse_unsigned(path: &Path, image: DriverImage, signing: &Signing) -> Result<(), DriverError> {
    if image.is_signed || signing.are_checked == Some(false) {
        Ok(())
    } else {
        Err(DriverError::Unsigned {
            path: path.into(),
            remedy: signing.remedy(),
        })
    }
}

fn refuse_foreign(place: &DriverPlace, service: &DriverService) -> Result<(), DriverError> {
    match place.foreign(service.path()?) {
        Some(path) => Err(DriverError::OtherService { path }),
        None => Ok(()),
    }
}

/// Returns why the driver was not loaded.
fn refused(err: io::Error, signing: &Signing) -> DriverError {
    // It still runs: it waits to be unloaded.
    if service::is(&err, ERROR_SERVICE_ALREADY_RUNNING) {
        return DriverError::InUse;
    }
    let untrusted = [
        ERROR_INVALID_IMAGE_HASH,
        ERROR_DRIVER_BLOCKED,
        ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION,
    ];
    match untrusted.into_iter().find(|&code| service::is(&err, code)) {
        Some(code) => DriverError::Untrusted {
            code: code.cast_signed(),
            remedy: signing.remedy(),
        },
        None => service::error_of_administrator("load the driver", err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_driver_is_refused_if_windows_may_check() {
        let refused = |are_checked, is_signed| {
            let signing = Signing {
                are_checked,
                ..Signing::default()
            };
            let image = DriverImage { is_signed };
            refuse_unsigned(Path::new("wdmlat.sys"), image, &signing).is_err()
        };

        assert!(refused(Some(true), false));
        assert!(refused(None, false));
        assert!(!refused(Some(false), false));
        assert!(!refused(Some(true), true));
    }

    #[test]
    fn driver_that_waits_to_be_unloaded_is_in_use() {
        let running = ERROR_SERVICE_ALREADY_RUNNING.cast_signed();

        let message = refused(io::Error::from_raw_os_error(running), &Signing::default());

        assert!(matches!(message, DriverError::InUse), "{message}");
    }

    #[test]
    fn untrusted_signature_has_the_remedy_for_this_machine() {
        let code = ERROR_INVALID_IMAGE_HASH.cast_signed();
        let message = |is_test, secure| {
            let signing = Signing {
                is_test: Some(is_test),
                has_secure_boot: Some(secure),
                ..Signing::default()
            };
            refused(io::Error::from_raw_os_error(code), &signing).to_string()
        };

        assert!(
            !message(true, false).contains("bcdedit"),
            "{}",
            message(true, false)
        );
        assert!(message(false, false).contains("bcdedit"));
        assert!(!message(false, false).contains("Secure Boot"));
        assert!(message(false, true).contains("disable Secure Boot"));
        assert!(message(false, true).contains("(error 577)"));
    }
}
