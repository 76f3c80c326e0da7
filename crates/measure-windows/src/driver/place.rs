//! Where the driver lies: under one name in the system's folder for drivers, and
//! nowhere else.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

use super::{DriverError, image, service};

/// More than the path of the system's folder takes, in UTF-16 units.
const PATH: usize = 512;
const FILE: &str = "wdmlat.sys";
/// What it is while it is written.
const HALF: &str = "wdmlat.sys.part";
/// How long the system may hold the file of a driver that is not loaded.
const HELD: Duration = Duration::from_secs(5);
/// How often it is tried again.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct DriverPlace {
    /// `C:\Windows\system32`, on most.
    system: PathBuf,
    pub(super) file: PathBuf,
    half: PathBuf,
}

impl DriverPlace {
    pub(super) fn of_system() -> Result<Self, DriverError> {
        let mut path = [0_u16; PATH];
        let most = u32::try_from(PATH).unwrap_or(0);
        // SAFETY: `path` is valid for so many units.
        let length = unsafe { GetSystemDirectoryW(path.as_mut_ptr(), most) } as usize;
        if length == 0 || length >= PATH {
            let source = io::Error::last_os_error();
            return Err(service::told("find the system's folder", source));
        }
        Ok(Self::below(OsString::from_wide(&path[..length]).into()))
    }

    fn below(system: PathBuf) -> Self {
        let drivers = system.join("drivers");
        Self {
            system,
            file: drivers.join(FILE),
            half: drivers.join(HALF),
        }
    }

    /// With the NUL at the end.
    pub(super) fn wide(&self) -> Vec<u16> {
        let units = self.file.as_os_str().encode_wide();
        units.chain(std::iter::once(0)).collect()
    }

    /// What a service runs, where that is not this file; `path` is none where it is no
    /// driver's service.
    pub(super) fn foreign(&self, path: Option<String>) -> Option<String> {
        let Some(path) = path else {
            return Some("a program".into());
        };
        let is_this = same(&self.whole(&path), &self.file);
        (!is_this).then_some(path)
    }

    /// A path as services have it, of the kernel's names or below the system's folder.
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
        match lower.starts_with(r"system32\") {
            true => windows.join(path),
            false => path.into(),
        }
    }

    /// Writes it under another name first: what has its name is whole.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), DriverError> {
        let written =
            fs::write(&self.half, bytes).and_then(|()| fs::rename(&self.half, &self.file));
        written.map_err(|err| service::told("write the driver into the system's folder", err))
    }

    /// Why this file keeps another one from being installed.
    pub(super) fn occupied(&self, there: &[u8]) -> DriverError {
        let path = self.file.clone();
        match image::read(there) {
            Ok(_) => DriverError::OtherVersion { path },
            Err(why) => DriverError::OtherFile { path, why },
        }
    }

    /// Whether a driver lies there.
    ///
    /// # Errors
    /// When something else does.
    pub(super) fn is_ours(&self) -> Result<bool, DriverError> {
        let there = match fs::read(&self.file) {
            Ok(there) => there,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(err) => return Err(service::told("read the driver that is there", err)),
        };
        match image::read(&there) {
            Ok(_) => Ok(true),
            Err(why) => Err(DriverError::OtherFile {
                path: self.file.clone(),
                why,
            }),
        }
    }

    /// Leaves no file of it.
    pub(super) fn clear(&self) -> Result<(), DriverError> {
        for path in [&self.file, &self.half] {
            match remove(path) {
                Ok(()) => {}
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                Err(err) => return Err(service::told("remove the driver's file", err)),
            }
        }
        Ok(())
    }
}

/// Removes a file that the system may hold for a moment yet: of a driver that has just
/// been unloaded, or that was not loaded.
fn remove(path: &Path) -> io::Result<()> {
    let until = Instant::now() + HELD;
    loop {
        match fs::remove_file(path) {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied && Instant::now() < until => {
                thread::sleep(LOOK);
            }
            ended => return ended,
        }
    }
}

/// Names do not tell capitals from others.
fn same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| path.to_string_lossy().to_lowercase());
    one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_its_file_however_that_is_written() {
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
