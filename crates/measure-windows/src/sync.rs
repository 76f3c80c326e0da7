//! Calls that threads wait in and wake each other with, for the trials. None allocates.

use std::cell::UnsafeCell;
use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::ptr::null;
use std::sync::atomic::AtomicU32;

use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::System::Threading::{
    AcquireSRWLockExclusive, CreateEventW, CreateMutexW, CreateSemaphoreW, INFINITE, ReleaseMutex,
    ReleaseSRWLockExclusive, ReleaseSemaphore, SRWLOCK, SRWLOCK_INIT, SetEvent,
    WaitForSingleObject, WaitOnAddress, WakeByAddressAll, WakeByAddressSingle,
};

use super::timers::done;

/// Waits while the word has this value, until another thread wakes it.
pub fn wait_while(word: &AtomicU32, value: u32) {
    // SAFETY: both addresses are valid for reads of the stated size during the call.
    unsafe {
        WaitOnAddress(
            word.as_ptr().cast(),
            (&raw const value).cast(),
            size_of::<u32>(),
            INFINITE,
        );
    }
}

/// Wakes one thread that waits at the word.
pub fn wake_one(word: &AtomicU32) {
    // SAFETY: the address is only compared.
    unsafe { WakeByAddressSingle(word.as_ptr().cast()) };
}

/// Wakes all threads that wait at the word.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: as above.
    unsafe { WakeByAddressAll(word.as_ptr().cast()) };
}

/// Kernel object that a thread waits for.
#[derive(Debug)]
pub struct KernelObject(OwnedHandle);

impl KernelObject {
    fn new(handle: *mut std::ffi::c_void) -> io::Result<Self> {
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is open, and nothing else owns it.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle) }))
    }

    /// Creates an event that releases one wait each time it is set.
    pub fn event() -> io::Result<Self> {
        // SAFETY: unnamed and with default rights.
        Self::new(unsafe { CreateEventW(null(), 0, 0, null()) })
    }

    /// Creates a semaphore that nobody can pass yet.
    pub fn semaphore() -> io::Result<Self> {
        // SAFETY: as above.
        Self::new(unsafe { CreateSemaphoreW(null(), 0, i32::MAX, null()) })
    }

    /// Waits until the object releases the calling thread.
    pub fn wait(&self) -> io::Result<()> {
        // SAFETY: the handle is open while this value lives.
        match unsafe { WaitForSingleObject(self.0.as_raw_handle(), INFINITE) } {
            WAIT_OBJECT_0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the event.
    pub fn set(&self) -> io::Result<()> {
        // SAFETY: as above.
        done(unsafe { SetEvent(self.0.as_raw_handle()) })
    }

    /// Releases one wait for the semaphore.
    pub fn release(&self) -> io::Result<()> {
        // SAFETY: as above; the previous count is not requested.
        done(unsafe { ReleaseSemaphore(self.0.as_raw_handle(), 1, std::ptr::null_mut()) })
    }
}

/// Lock of Windows. Neither kind lends the holder the priority of a waiting thread.
#[derive(Debug)]
pub enum Lock {
    /// Slim lock of the process.
    Slim(SlimLock),
    /// Mutex object of the kernel.
    Mutex(KernelObject),
}

/// Slim lock at a fixed address.
pub struct SlimLock(Box<UnsafeCell<SRWLOCK>>);

// SAFETY: the lock is made for several threads; the box keeps it at one address.
unsafe impl Send for SlimLock {}
// SAFETY: as above.
unsafe impl Sync for SlimLock {}

impl std::fmt::Debug for SlimLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SlimLock")
    }
}

impl Lock {
    /// Creates a slim lock.
    #[must_use]
    pub fn slim() -> Self {
        Self::Slim(SlimLock(Box::new(UnsafeCell::new(SRWLOCK_INIT))))
    }

    /// Creates a mutex object.
    pub fn mutex() -> io::Result<Self> {
        // SAFETY: unnamed, with default rights, and without an owner.
        KernelObject::new(unsafe { CreateMutexW(null(), 0, null()) }).map(Self::Mutex)
    }

    pub fn lock(&self) -> io::Result<()> {
        match self {
            Self::Slim(lock) => {
                // SAFETY: the lock is initialised and does not move.
                unsafe { AcquireSRWLockExclusive(lock.0.get()) };
                Ok(())
            }
            Self::Mutex(mutex) => mutex.wait(),
        }
    }

    /// Unlocks the lock, which the caller holds.
    pub fn unlock(&self) -> io::Result<()> {
        match self {
            Self::Slim(lock) => {
                // SAFETY: as above.
                unsafe { ReleaseSRWLockExclusive(lock.0.get()) };
                Ok(())
            }
            // SAFETY: the handle is open while this value lives.
            Self::Mutex(mutex) => done(unsafe { ReleaseMutex(mutex.0.as_raw_handle()) }),
        }
    }
}
