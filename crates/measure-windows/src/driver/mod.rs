//! The driver `wdmlat.sys`: installed and removed when somebody asks, and at no other
//! time.
//!
//! It is a copy in the system's folder for drivers, and a service that is started by
//! hand: what is neither is left alone.

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

/// What helps where a signature is lacking, or not trusted.
const REMEDY_TEST: &str =
    "sign it with a certificate that this machine trusts (windows/driver/README.md says how)";
const REMEDY_OFF: &str = "on a machine for tests alone, `bcdedit /set testsigning on`, restart, and sign it with a certificate that this machine trusts (windows/driver/README.md says how)";
const REMEDY_SECURE_BOOT: &str = "on a machine for tests alone, switch Secure Boot off in its firmware, `bcdedit /set testsigning on`, restart, and sign it with a certificate that this machine trusts (windows/driver/README.md says how)";

impl Signing {
    /// What a driver of one's own needs here.
    pub fn remedy(&self) -> &'static str {
        match (self.is_test, self.has_secure_boot) {
            (Some(true), _) => REMEDY_TEST,
            (_, Some(true)) => REMEDY_SECURE_BOOT,
            (_, Some(false) | None) => REMEDY_OFF,
        }
    }
}

/// What there is of the driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DriverStatus {
    /// Neither a service nor a file.
    Absent,
    /// A file in the system's folder without a service: of no use.
    FileOnly {
        /// Where.
        path: PathBuf,
    },
    /// A service of the same name that runs something else.
    Other {
        /// What it runs.
        path: String,
    },
    /// It is installed.
    Installed {
        /// Where.
        path: PathBuf,
        /// Whether it is loaded.
        is_running: bool,
    },
}

/// What there is of the driver.
///
/// # Errors
/// When the system does not tell.
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

/// Copies the driver to where drivers are, and loads it. Where that fails, nothing of it
/// is left.
///
/// # Errors
/// When the file is not the driver, Windows does not load it, or another one is there.
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
        Err(source) => return Err(service::told("read the driver that is there", source)),
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

/// Unloads the driver and removes all of it; says whether there was anything.
///
/// # Errors
/// When it is in use, or what is there is not this driver.
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
    match image.is_signed || signing.are_checked == Some(false) {
        true => Ok(()),
        false => Err(DriverError::Unsigned {
            path: path.into(),
            remedy: signing.remedy(),
        }),
    }
}

fn refuse_foreign(place: &DriverPlace, service: &DriverService) -> Result<(), DriverError> {
    match place.foreign(service.path()?) {
        Some(path) => Err(DriverError::OtherService { path }),
        None => Ok(()),
    }
}

/// Why the driver was not loaded.
fn refused(err: io::Error, signing: &Signing) -> DriverError {
    // It runs, and not: it waits to be unloaded.
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
        None => service::told("load the driver", err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_a_signature_is_refused_wherever_windows_may_check() {
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
    fn a_driver_that_waits_to_be_unloaded_is_in_use_and_not_loaded() {
        let running = ERROR_SERVICE_ALREADY_RUNNING.cast_signed();

        let said = refused(io::Error::from_raw_os_error(running), &Signing::default());

        assert!(matches!(said, DriverError::InUse), "{said}");
    }

    #[test]
    fn a_signature_that_is_not_trusted_is_told_with_what_helps_on_this_machine() {
        let code = ERROR_INVALID_IMAGE_HASH.cast_signed();
        let said = |is_test, secure| {
            let signing = Signing {
                is_test: Some(is_test),
                has_secure_boot: Some(secure),
                ..Signing::default()
            };
            refused(io::Error::from_raw_os_error(code), &signing).to_string()
        };

        assert!(
            !said(true, false).contains("bcdedit"),
            "{}",
            said(true, false)
        );
        assert!(said(false, false).contains("bcdedit"));
        assert!(!said(false, false).contains("Secure Boot"));
        assert!(said(false, true).contains("Secure Boot off"));
        assert!(said(false, true).contains("(error 577)"));
    }
}
