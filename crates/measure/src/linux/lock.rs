//! A mutex whose protocol can be chosen, which the standard library's cannot.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

/// What a lock does about priority inversion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockProtocol {
    /// The holder keeps its own priority (`PTHREAD_PRIO_NONE`).
    Plain,
    /// The holder inherits the waiter's priority (`PTHREAD_PRIO_INHERIT`).
    Inherit,
}

/// A pthread mutex.
#[derive(Debug)]
pub struct ChosenMutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a pthread mutex is made to be used by many threads; the box keeps it
//         at one address, and only the functions below touch it.
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
        // SAFETY: the attributes are initialised first, used, then destroyed;
        //         the mutex is at its final address and not yet shared.
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
        // SAFETY: the mutex is initialised and stays where it is.
        done(unsafe { libc::pthread_mutex_lock(self.0.get()) })
    }

    /// By who holds it.
    pub fn unlock(&self) -> io::Result<()> {
        // SAFETY: as above; of a mutex that the caller does not hold, this is at
        //         worst an error that is told.
        done(unsafe { libc::pthread_mutex_unlock(self.0.get()) })
    }

    /// For calls that take it along.
    pub fn get(&self) -> *mut libc::pthread_mutex_t {
        self.0.get()
    }
}

impl Drop for ChosenMutex {
    fn drop(&mut self) {
        // SAFETY: who uses it holds the value that is dropped here.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}

/// pthread functions return the error instead of setting `errno`.
pub fn done(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
