//! Mutex with a selectable protocol, which the standard library does not offer.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

/// Protocol of a lock against priority inversion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockProtocol {
    /// The holder keeps its own priority (`PTHREAD_PRIO_NONE`).
    Plain,
    /// The holder inherits the waiter's priority (`PTHREAD_PRIO_INHERIT`).
    Inherit,
}

#[derive(Debug)]
pub struct ChosenMutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a pthread mutex is made for several threads; the box keeps it at one address, and only
// the functions below access it.
unsafe impl Send for ChosenMutex {}
// SAFETY: as above.
unsafe impl Sync for ChosenMutex {}

impl ChosenMutex {
    pub fn new(protocol: LockProtocol) -> io::Result<Self> {
        let protocol = match protocol {
            LockProtocol::Plain => libc::PTHREAD_PRIO_NONE,
            LockProtocol::Inherit => libc::PTHREAD_PRIO_INHERIT,
        };
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised, used and then destroyed; the mutex is at its
        // final address and not yet shared.
        unsafe {
            done(libc::pthread_mutexattr_init(attributes))?;
            let made = done(libc::pthread_mutexattr_setprotocol(attributes, protocol))
                .and_then(|()| done(libc::pthread_mutex_init(mutex.get(), attributes)));
            done(libc::pthread_mutexattr_destroy(attributes))?;
            made?;
        }
        Ok(Self(mutex))
    }

    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the mutex is initialised and does not move.
        done(unsafe { libc::pthread_mutex_lock(self.0.get()) })
    }

    /// Unlocks the mutex, which the caller holds.
    pub fn unlock(&self) -> io::Result<()> {
        // SAFETY: as above; for a mutex that the caller does not hold, the call at worst returns
        // an error.
        done(unsafe { libc::pthread_mutex_unlock(self.0.get()) })
    }

    /// Returns the pointer for calls that take the mutex.
    pub fn get(&self) -> *mut libc::pthread_mutex_t {
        self.0.get()
    }
}

impl Drop for ChosenMutex {
    fn drop(&mut self) {
        // SAFETY: every user holds the value that is dropped here.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}

/// Converts the result of a pthread function, which returns the error instead of setting `errno`.
pub fn done(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
