//! The driver's service, as the Service Control Manager keeps it.

use std::io;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_INSUFFICIENT_BUFFER, ERROR_SERVICE_ALREADY_RUNNING,
    ERROR_SERVICE_CANNOT_ACCEPT_CTRL, ERROR_SERVICE_DOES_NOT_EXIST,
    ERROR_SERVICE_MARKED_FOR_DELETE, ERROR_SERVICE_NOT_ACTIVE,
};
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, ControlService, CreateServiceW, DeleteService, OpenSCManagerW,
    OpenServiceW, QUERY_SERVICE_CONFIGW, QueryServiceConfigW, QueryServiceStatus, SC_HANDLE,
    SC_MANAGER_CONNECT, SC_MANAGER_CREATE_SERVICE, SERVICE_ALL_ACCESS, SERVICE_CONTROL_STOP,
    SERVICE_DEMAND_START, SERVICE_ERROR_NORMAL, SERVICE_KERNEL_DRIVER, SERVICE_QUERY_CONFIG,
    SERVICE_QUERY_STATUS, SERVICE_RUNNING, SERVICE_STATUS, SERVICE_STOPPED, StartServiceW,
};
use windows_sys::core::{PCWSTR, w};

use super::DriverError;

const NAME: PCWSTR = w!("wdmlat");
/// How long a driver takes to end at most, unless a program has it open: what it armed
/// lasts 1 s at most.
const ENDS: Duration = Duration::from_secs(10);
/// What `QueryServiceConfigW` fills at most, bytes.
const MOST_CONFIG: u32 = 8 << 10;

/// What is asked of services.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ServiceRights {
    /// What everybody may.
    Look,
    /// What administrators may.
    Change,
}

/// The Service Control Manager.
pub(super) struct Manager(SC_HANDLE, ServiceRights);

/// The driver's service.
pub(super) struct DriverService(SC_HANDLE);

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { CloseServiceHandle(self.0) };
    }
}

impl Drop for DriverService {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { CloseServiceHandle(self.0) };
    }
}

impl Manager {
    pub(super) fn open(rights: ServiceRights) -> Result<Self, DriverError> {
        let access = match rights {
            ServiceRights::Look => SC_MANAGER_CONNECT,
            ServiceRights::Change => SC_MANAGER_CONNECT | SC_MANAGER_CREATE_SERVICE,
        };
        // SAFETY: null names this machine and its only database.
        let handle = unsafe { OpenSCManagerW(std::ptr::null(), std::ptr::null(), access) };
        match handle.is_null() {
            true => Err(told_of_rights(
                "reach the Service Control Manager",
                io::Error::last_os_error(),
            )),
            false => Ok(Self(handle, rights)),
        }
    }

    /// The driver's service; none where there is none.
    pub(super) fn find(&self) -> Result<Option<DriverService>, DriverError> {
        let access = match self.1 {
            ServiceRights::Look => SERVICE_QUERY_CONFIG | SERVICE_QUERY_STATUS,
            ServiceRights::Change => SERVICE_ALL_ACCESS,
        };
        // SAFETY: the name ends in a NUL.
        let handle = unsafe { OpenServiceW(self.0, NAME, access) };
        match (handle.is_null(), io::Error::last_os_error()) {
            (false, _) => Ok(Some(DriverService(handle))),
            (true, err) if is(&err, ERROR_SERVICE_DOES_NOT_EXIST) => Ok(None),
            (true, err) => Err(told_of_rights("open the service `wdmlat`", err)),
        }
    }

    /// A service for the driver at this path, which ends in a NUL. It runs when it is
    /// started.
    pub(super) fn create(&self, path: &[u16]) -> Result<DriverService, DriverError> {
        debug_assert!(path.ends_with(&[0]));
        let null = std::ptr::null();
        // SAFETY: all names end in a NUL, and what is not needed is null.
        let handle = unsafe {
            CreateServiceW(
                self.0,
                NAME,
                w!("laggard: latency of DPCs and kernel threads"),
                SERVICE_ALL_ACCESS,
                SERVICE_KERNEL_DRIVER,
                SERVICE_DEMAND_START,
                SERVICE_ERROR_NORMAL,
                path.as_ptr(),
                null,
                std::ptr::null_mut(),
                null,
                null,
                null,
            )
        };
        match handle.is_null() {
            true => Err(last("create the service `wdmlat`")),
            false => Ok(DriverService(handle)),
        }
    }
}

impl DriverService {
    /// The file that it runs, as it was written down, if it is a driver's service.
    pub(super) fn path(&self) -> Result<Option<String>, DriverError> {
        const WHAT: &str = "ask what the service `wdmlat` is";
        let mut words = [0_u64; MOST_CONFIG as usize / 8];
        let mut needed = 0;
        let config: *mut QUERY_SERVICE_CONFIGW = words.as_mut_ptr().cast();
        // SAFETY: `words` is valid for so many bytes, and aligned as what it is filled with.
        let result = unsafe { QueryServiceConfigW(self.0, config, MOST_CONFIG, &raw mut needed) };
        if result == 0 {
            let err = io::Error::last_os_error();
            debug_assert!(!is(&err, ERROR_INSUFFICIENT_BUFFER), "8 KiB is the most");
            return Err(told(WHAT, err));
        }
        // SAFETY: it was filled, and its texts lie behind it and end in a NUL.
        let (kind, path) = unsafe { ((*config).dwServiceType, text((*config).lpBinaryPathName)) };
        Ok((kind == SERVICE_KERNEL_DRIVER).then_some(path))
    }

    pub(super) fn is_running(&self) -> Result<bool, DriverError> {
        Ok(self.state()? == SERVICE_RUNNING)
    }

    fn state(&self) -> Result<u32, DriverError> {
        let mut status = SERVICE_STATUS::default();
        // SAFETY: `status` is valid for writes.
        match unsafe { QueryServiceStatus(self.0, &raw mut status) } {
            0 => Err(last("ask whether the driver runs")),
            _ => Ok(status.dwCurrentState),
        }
    }

    /// Loads the driver; it may run already.
    pub(super) fn start(&self) -> io::Result<()> {
        // SAFETY: there are no arguments.
        if unsafe { StartServiceW(self.0, 0, std::ptr::null()) } != 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            // So it is said too of one that waits for its last user to be unloaded.
            err if is(&err, ERROR_SERVICE_ALREADY_RUNNING) => match self.state() {
                Ok(SERVICE_RUNNING) => Ok(()),
                _ => Err(err),
            },
            err => Err(err),
        }
    }

    /// Unloads the driver, and waits until it has ended.
    pub(super) fn stop(&self) -> Result<(), DriverError> {
        let mut status = SERVICE_STATUS::default();
        // SAFETY: `status` is valid for writes.
        if unsafe { ControlService(self.0, SERVICE_CONTROL_STOP, &raw mut status) } == 0 {
            let err = io::Error::last_os_error();
            // It is ending already: what is waited for below.
            let is_ending = is(&err, ERROR_SERVICE_CANNOT_ACCEPT_CTRL);
            if !is_ending && !is(&err, ERROR_SERVICE_NOT_ACTIVE) {
                return Err(told("unload the driver", err));
            }
        }
        let since = Instant::now();
        while self.state()? != SERVICE_STOPPED {
            if since.elapsed() > ENDS {
                return Err(DriverError::InUse);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Removes it: it is gone when whoever holds it has let go.
    pub(super) fn delete(self) -> Result<(), DriverError> {
        // SAFETY: takes no pointers but the handle, which is open.
        match unsafe { DeleteService(self.0) } {
            0 => Err(last("remove the service `wdmlat`")),
            _ => Ok(()),
        }
    }
}

/// What the system refused last.
fn last(what: &'static str) -> DriverError {
    told(what, io::Error::last_os_error())
}

/// What the system refused to who is an administrator.
pub(super) fn told(what: &'static str, source: io::Error) -> DriverError {
    match is(&source, ERROR_SERVICE_MARKED_FOR_DELETE) {
        true => DriverError::MarkedForRemoval,
        false => DriverError::Refused { what, source },
    }
}

/// What the system refused to whoever this is.
fn told_of_rights(what: &'static str, source: io::Error) -> DriverError {
    match is(&source, ERROR_ACCESS_DENIED) {
        true => DriverError::NotAdministrator,
        false => told(what, source),
    }
}

pub(super) fn is(err: &io::Error, code: u32) -> bool {
    err.raw_os_error().map(i32::cast_unsigned) == Some(code)
}

/// # Safety
/// `units` is null, or valid up to a NUL.
unsafe fn text(units: *const u16) -> String {
    if units.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    let units = unsafe {
        let length = (0..).take_while(|&at| *units.add(at) != 0).count();
        std::slice::from_raw_parts(units, length)
    };
    String::from_utf16_lossy(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_is_not_told_to_be_one() {
        let denied = || io::Error::from_raw_os_error(ERROR_ACCESS_DENIED.cast_signed());
        let marked = io::Error::from_raw_os_error(ERROR_SERVICE_MARKED_FOR_DELETE.cast_signed());

        let of_anybody = told_of_rights("open it", denied());
        let of_administrator = told("load it", denied());
        let of_removed = told_of_rights("open it", marked);

        assert!(matches!(of_anybody, DriverError::NotAdministrator));
        assert!(matches!(of_administrator, DriverError::Refused { .. }));
        assert!(matches!(of_removed, DriverError::MarkedForRemoval));
    }
}
