//! Device of the driver: queried, configured and read.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::fs::OpenOptionsExt as _;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::ptr::{null, null_mut};
use std::time::Duration;

use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, HANDLE, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_OVERLAPPED, ReadFile};
use windows_sys::Win32::System::IO::{
    CancelIoEx, DeviceIoControl, GetOverlappedResult, OVERLAPPED,
};
use windows_sys::Win32::System::Threading::{CreateEventW, WaitForSingleObject};

use super::layout::{DriverConfig, DriverInfo, DriverSample, GET_INFO, SET_CONFIG};
use crate::timers::done;

const PATH: &str = r"\\.\wdmlat";

/// Open device. Only one thread at a time uses it.
#[derive(Debug)]
pub(super) struct Device {
    file: File,
    /// Set when a request is complete.
    event: OwnedHandle,
}

impl Device {
    /// Opens the device.
    ///
    /// # Errors
    ///
    /// Returns an error if the driver is not loaded, or if this process lacks the right.
    pub(super) fn open() -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(FILE_FLAG_OVERLAPPED)
            .open(PATH)?;
        // SAFETY: the event is unnamed and has default rights; it is reset manually.
        let event = unsafe { CreateEventW(null(), 1, 0, null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is open, and nothing else owns it.
        let event = unsafe { OwnedHandle::from_raw_handle(event) };
        Ok(Self { file, event })
    }

    /// Returns the driver's information about itself.
    pub(super) fn info(&self) -> io::Result<DriverInfo> {
        let mut info = MaybeUninit::<DriverInfo>::zeroed();
        let size = size_of_u32::<DriverInfo>();
        let begin = |file, overlapped: *mut OVERLAPPED| {
            let out = info.as_mut_ptr().cast();
            // SAFETY: `out` has room for `size` bytes, and both live until the request is
            // complete.
            unsafe { DeviceIoControl(file, GET_INFO, null(), 0, out, size, null_mut(), overlapped) }
        };
        match self.ask(begin, || true)? {
            Some(bytes) if bytes == size => {
                // SAFETY: all of it was written, and any bytes are valid.
                Ok(unsafe { info.assume_init() })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Configures the service of reads.
    pub(super) fn configure(&self, config: &DriverConfig) -> io::Result<()> {
        let begin = |file, overlapped: *mut OVERLAPPED| {
            let (from, size) = ((&raw const *config).cast(), size_of_u32::<DriverConfig>());
            // SAFETY: `from` has `size` bytes, and both live until the request is complete.
            unsafe {
                DeviceIoControl(
                    file,
                    SET_CONFIG,
                    from,
                    size,
                    null_mut(),
                    0,
                    null_mut(),
                    overlapped,
                )
            }
        };
        self.ask(begin, || true).map(drop)
    }

    /// Makes one read. `None`: it was given up, because `goes_on` returned false.
    pub(super) fn read(&self, goes_on: impl Fn() -> bool) -> io::Result<Option<DriverSample>> {
        let mut sample = MaybeUninit::<DriverSample>::zeroed();
        let size = size_of_u32::<DriverSample>();
        let begin = |file, overlapped: *mut OVERLAPPED| {
            // SAFETY: there is room for `size` bytes, and both live until the request is
            // complete.
            unsafe {
                ReadFile(
                    file,
                    sample.as_mut_ptr().cast(),
                    size,
                    null_mut(),
                    overlapped,
                )
            }
        };
        match self.ask(begin, goes_on)? {
            None => Ok(None),
            Some(bytes) if bytes == size => {
                // SAFETY: all of it was written, and any bytes are valid.
                Ok(Some(unsafe { sample.assume_init() }))
            }
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Starts a request, waits until it is complete and returns the number of bytes. Memory of
    /// the request is not released before the driver has completed it.
    fn ask(
        &self,
        begin: impl FnOnce(HANDLE, *mut OVERLAPPED) -> i32,
        goes_on: impl Fn() -> bool,
    ) -> io::Result<Option<u32>> {
        const CHECK_INTERVAL: Duration = Duration::from_millis(50);
        let file = self.file.as_raw_handle();
        let mut overlapped = OVERLAPPED {
            hEvent: self.event.as_raw_handle(),
            ..OVERLAPPED::default()
        };
        if begin(file, &raw mut overlapped) == 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(ERROR_IO_PENDING.cast_signed()) {
                return Err(error);
            }
        }
        let look = u32::try_from(CHECK_INTERVAL.as_millis()).unwrap_or(u32::MAX);
        let mut was_given_up = false;
        loop {
            // SAFETY: the event is open.
            match unsafe { WaitForSingleObject(overlapped.hEvent, look) } {
                WAIT_OBJECT_0 => break,
                WAIT_TIMEOUT if !was_given_up && !goes_on() => {
                    was_given_up = true;
                    // SAFETY: the request is pending, or has just completed.
                    unsafe { CancelIoEx(file, &raw const overlapped) };
                }
                WAIT_TIMEOUT => {}
                // The wait failed, so the code waits for the end of the request instead.
                _ => break,
            }
        }
        let mut bytes = 0;
        // SAFETY: the request is complete, or this call waits for it; `bytes` is valid for
        // writes.
        let ended = unsafe { GetOverlappedResult(file, &raw const overlapped, &raw mut bytes, 1) };
        match done(ended) {
            Ok(()) => Ok(Some(bytes)),
            Err(_) if was_given_up => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the size in bytes.
fn size_of_u32<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("the shared structures are small")
}
