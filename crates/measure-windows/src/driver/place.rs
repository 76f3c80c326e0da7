//! Path of the driver: one name in the system's driver directory.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

use super::{DriverError, image, service};

/// Maximum length of the system directory's path in UTF-16 units.
const MAX_PATH_UNITS: usize = 512;
const FILE: &str = "wdmlat.sys";
/// Name during the write.
const PARTIAL_FILE: &str = "wdmlat.sys.part";
/// Maximum time that the system keeps the file of an unloaded driver open.
const MAX_HOLD: Duration = Duration::from_secs(5);
/// Interval of the attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

pub(super) struct DriverPlace {
    /// `C:\Windows\system32` on most machines.
    system: PathBuf,
    pub(super) file: PathBuf,
    half: PathBuf,
}

impl DriverPlace {
    pub(super) fn of_system() -> Result<Self, DriverError> {
        let mut path = [0_u16; MAX_PATH_UNITS];
        let most = u32::try_from(MAX_PATH_UNITS).unwrap_or(0);
        // SAFETY: `path` is valid for this number of units.
        let length = unsafe { GetSystemDirectoryW(path.as_mut_ptr(), most) } as usize;
        if length == 0 || length >= MAX_PATH_UNITS {
            let source = io::Error::last_os_error();
            return Err(service::error_of_administrator(
                "find the system directory",
                source,
            ));
        }
        Ok(Self::below(OsString::from_wide(&path[..length]).into()))
    }

    fn below(system: PathBuf) -> Self {
        let drivers = system.join("drivers");
        Self {
            system,
            file: drivers.join(FILE),
            half: drivers.join(PARTIAL_FILE),
        }
    }

    /// Returns the path with a NUL at the end.
    pub(super) fn wide(&self) -> Vec<u16> {
        let units = self.file.as_os_str().encode_wide();
        units.chain(std::iter::once(0)).collect()
    }

    /// Returns the file that a service runs if it is not this driver. `path` is `None` if it is
    /// not the service of a driver.
    pub(super) fn foreign(&self, path: Option<String>) -> Option<String> {
        let Some(path) = path else {
            return Some("a program".into());
        };
        let is_this = same(&self.whole(&path), &self.file);
        (!is_this).then_some(path)
    }

    /// Returns the full path for the path of a service, which may be a kernel name or relative to
    /// the Windows directory.
    fn whole(&self, path: &str) -> PathBuf {
        let lower = path.to_ascii_lowercase();
        let windows = self.system.parent().unwrap_or(&self.system);
        let rest = |start: &str| lower.starts_with(start).then(|| &path[start.len()..]);
        if let Some(rest) = rest(r"\??\") {
            return rest.into();
        }
        if let Some(rest) = rest(r"\systemroot\") {
            return windows.join(rest);
        }
        if lower.starts_with(r"system32\") {
            windows.join(path)
        } else {
            path.into()
        }
    }

    /// Writes the file under a temporary name first, so that a file with the final name is
    /// complete.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), DriverError> {
        let written =
            fs::write(&self.half, bytes).and_then(|()| fs::rename(&self.half, &self.file));
        written.map_err(|err| {
            service::error_of_administrator("write the driver to the system directory", err)
        })
    }

    /// Returns why this file prevents the installation of another one.
    pub(super) fn occupied(&self, there: &[u8]) -> DriverError {
        let path = self.file.clone();
        match image::read(there) {
            Ok(_) => DriverError::OtherVersion { path },
            Err(why) => DriverError::OtherFile { path, why },
        }
    }

    /// Returns whether the driver is installed.
    ///
    /// # Errors
    ///
    /// Returns an error if another file is there.
    pub(super) fn is_ours(&self) -> Result<bool, DriverError> {
        let there = match fs::read(&self.file) {
            Ok(there) => there,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(err) => {
                return Err(service::error_of_administrator(
                    "read the installed driver",
                    err,
                ));
            }
        };
        match image::read(&there) {
            Ok(_) => Ok(true),
            Err(why) => Err(DriverError::OtherFile {
                path: self.file.clone(),
                why,
            }),
        }
    }

    /// Removes the file.
    pub(super) fn clear(&self) -> Result<(), DriverError> {
        for path in [&self.file, &self.half] {
            match remove(path) {
                Ok(()) => {}
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                Err(err) => {
                    return Err(service::error_of_administrator(
                        "remove the driver's file",
                        err,
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Removes a file that the system may still hold for a moment, because its driver was just
/// unloaded or not loaded.
fn remove(path: &Path) -> io::Result<()> {
    let until = Instant::now() + MAX_HOLD;
    loop {
        match fs::remove_file(path) {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied && Instant::now() < until => {
                thread::sleep(RETRY_INTERVAL);
            }
            ended => return ended,
        }
    }
}

/// Compares paths without regard to case.
fn same(first: &Path, other: &Path) -> bool {
    let [first, other] = [first, other].map(|path| path.to_string_lossy().to_lowercase());
    first == other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_recognised_by_its_file_in_any_notation() {
        let place = DriverPlace::below(r"C:\Windows\system32".into());
        let foreign = |path: &str| place.foreign(Some(path.into()));

        for path in [
            r"C:\Windows\system32\drivers\wdmlat.sys",
            r"\??\c:\windows\SYSTEM32\drivers\WDMLAT.SYS",
            r"\SystemRoot\System32\drivers\wdmlat.sys",
            r"System32\drivers\wdmlat.sys",
        ] {
            assert_eq!(foreign(path), None, "{path}");
        }
        for path in [
            "",
            r"C:\Users\x\wdmlat.sys",
            r"\??\D:\Windows\system32\drivers\wdmlat.sys",
            r"system32\drivers\other.sys",
        ] {
            assert_eq!(foreign(path).as_deref(), Some(path));
        }
        assert_eq!(place.foreign(None).as_deref(), Some("a program"));
    }
}
