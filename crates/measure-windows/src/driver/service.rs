//! Service of the driver in the Service Control Manager.

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
/// Maximum time for a driver to stop, unless a program has it open: its timers last at most 1 s.
const MAX_STOP_TIME: Duration = Duration::from_secs(10);
/// Maximum size of the result of `QueryServiceConfigW` in bytes.
const MAX_CONFIG_BYTES: u32 = 8 << 10;

/// Rights to request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ServiceRights {
    /// Rights of every user.
    Look,
    /// Rights of administrators.
    Change,
}

pub(super) struct Manager(SC_HANDLE, ServiceRights);

pub(super) struct DriverService(SC_HANDLE);

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and closed once.
        unsafe { CloseServiceHandle(self.0) };
    }
}

impl Drop for DriverService {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and closed once.
        unsafe { CloseServiceHandle(self.0) };
    }
}

impl Manager {
    pub(super) fn open(rights: ServiceRights) -> Result<Self, DriverError> {
        let access = match rights {
            ServiceRights::Look => SC_MANAGER_CONNECT,
            ServiceRights::Change => SC_MANAGER_CONNECT | SC_MANAGER_CREATE_SERVICE,
        };
        // SAFETY: null selects this machine and its only database.
        let handle = unsafe { OpenSCManagerW(std::ptr::null(), std::ptr::null(), access) };
        if handle.is_null() {
            Err(error_of_any_user(
                "reach the Service Control Manager",
                io::Error::last_os_error(),
            ))
        } else {
            Ok(Self(handle, rights))
        }
    }

    /// Returns the driver's service, if it exists.
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
            (true, err) => Err(error_of_any_user("open the service `wdmlat`", err)),
        }
    }

    /// Creates a service for the driver at this path, which ends in a NUL. It is started
    /// manually.
    pub(super) fn create(&self, path: &[u16]) -> Result<DriverService, DriverError> {
        debug_assert!(path.ends_with(&[0]));
        let null = std::ptr::null();
        // SAFETY: all names end in a NUL, and unused arguments are null.
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
        if handle.is_null() {
            Err(last("create the service `wdmlat`"))
        } else {
            Ok(DriverService(handle))
        }
    }
}

impl DriverService {
    /// Returns the path of the file that it runs, as configured, if it is the service of a
    /// driver.
    pub(super) fn path(&self) -> Result<Option<String>, DriverError> {
        const WHAT: &str = "query the service `wdmlat`";
        let mut words = [0_u64; MAX_CONFIG_BYTES as usize / 8];
        let mut needed = 0;
        let config: *mut QUERY_SERVICE_CONFIGW = words.as_mut_ptr().cast();
        // SAFETY: `words` is valid for this number of bytes and sufficiently aligned.
        let result =
            unsafe { QueryServiceConfigW(self.0, config, MAX_CONFIG_BYTES, &raw mut needed) };
        if result == 0 {
            let err = io::Error::last_os_error();
            debug_assert!(!is(&err, ERROR_INSUFFICIENT_BUFFER), "8 KiB is the maximum");
            return Err(error_of_administrator(WHAT, err));
        }
        // SAFETY: the call filled it; its texts are in the same buffer and end in a NUL.
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
            0 => Err(last("query the state of the driver")),
            _ => Ok(status.dwCurrentState),
        }
    }

    /// Loads the driver, which may be loaded already.
    pub(super) fn start(&self) -> io::Result<()> {
        // SAFETY: without arguments.
        if unsafe { StartServiceW(self.0, 0, std::ptr::null()) } != 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            // The same error is returned for a driver that waits for its last user before it is
            // unloaded.
            err if is(&err, ERROR_SERVICE_ALREADY_RUNNING) => match self.state() {
                Ok(SERVICE_RUNNING) => Ok(()),
                _ => Err(err),
            },
            err => Err(err),
        }
    }

    /// Unloads the driver, and waits until it has stopped.
    pub(super) fn stop(&self) -> Result<(), DriverError> {
        let mut status = SERVICE_STATUS::default();
        // SAFETY: `status` is valid for writes.
        if unsafe { ControlService(self.0, SERVICE_CONTROL_STOP, &raw mut status) } == 0 {
            let err = io::Error::last_os_error();
            // It is stopping already; the wait below covers this.
            let is_ending = is(&err, ERROR_SERVICE_CANNOT_ACCEPT_CTRL);
            if !is_ending && !is(&err, ERROR_SERVICE_NOT_ACTIVE) {
                return Err(error_of_administrator("unload the driver", err));
            }
        }
        let since = Instant::now();
        while self.state()? != SERVICE_STOPPED {
            if since.elapsed() > MAX_STOP_TIME {
                return Err(DriverError::InUse);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Removes the service. It disappears when the last handle to it is closed.
    pub(super) fn delete(self) -> Result<(), DriverError> {
        // SAFETY: the only argument is the open handle.
        match unsafe { DeleteService(self.0) } {
            0 => Err(last("remove the service `wdmlat`")),
            _ => Ok(()),
        }
    }
}

/// Returns the error of the last call.
fn last(what: &'static str) -> DriverError {
    error_of_administrator(what, io::Error::last_os_error())
}

/// Returns the error of an operation of an administrator.
pub(super) fn error_of_administrator(what: &'static str, source: io::Error) -> DriverError {
    if is(&source, ERROR_SERVICE_MARKED_FOR_DELETE) {
        DriverError::MarkedForRemoval
    } else {
        DriverError::Refused { what, source }
    }
}

/// Returns the error of an operation of any user.
fn error_of_any_user(what: &'static str, source: io::Error) -> DriverError {
    if is(&source, ERROR_ACCESS_DENIED) {
        DriverError::NotAdministrator
    } else {
        error_of_administrator(what, source)
    }
}

pub(super) fn is(err: &io::Error, code: u32) -> bool {
    err.raw_os_error().map(i32::cast_unsigned) == Some(code)
}

/// # Safety
///
/// `units` is null, or valid up to a NUL.
unsafe fn text(units: *const u16) -> String {
    if units.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    let units = unsafe {
        let length = (0..).take_while(|&index| *units.add(index) != 0).count();
        std::slice::from_raw_parts(units, length)
    };
    String::from_utf16_lossy(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrator_gets_no_remedy_to_run_as_administrator() {
        let denied = || io::Error::from_raw_os_error(ERROR_ACCESS_DENIED.cast_signed());
        let marked = io::Error::from_raw_os_error(ERROR_SERVICE_MARKED_FOR_DELETE.cast_signed());

        let of_anybody = error_of_any_user("open it", denied());
        let of_administrator = error_of_administrator("load it", denied());
        let of_removed = error_of_any_user("open it", marked);

        assert!(matches!(of_anybody, DriverError::NotAdministrator));
        assert!(matches!(of_administrator, DriverError::Refused { .. }));
        assert!(matches!(of_removed, DriverError::MarkedForRemoval));
    }
}
