//! Priorities: a process of the real-time class, and its threads.
//!
//! The class applies to the whole process: all its threads then have priorities of at least 16,
//! above every normal thread. A normal thread must therefore be measured separately.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::sync::{Mutex, MutexGuard, PoisonError};

use laggard_model::Service;
use windows_sys::Win32::System::Threading::{
    AvSetMmThreadCharacteristicsW, GetCurrentProcess, GetCurrentThread, GetCurrentThreadId,
    GetPriorityClass, GetThreadPriority, NORMAL_PRIORITY_CLASS, OpenThread, PROCESS_CREATION_FLAGS,
    REALTIME_PRIORITY_CLASS, SetPriorityClass, SetThreadPriority, THREAD_PRIORITY_IDLE,
    THREAD_PRIORITY_NORMAL, THREAD_PRIORITY_TIME_CRITICAL, THREAD_SET_INFORMATION,
};
use windows_sys::core::w;

use super::timers::done;

/// Value of `THREAD_PRIORITY_NORMAL` in the real-time class.
const MIDDLE: u8 = 24;

/// Real-time class of the process while the value lives.
#[derive(Debug)]
pub struct RealtimeClass {
    before: PROCESS_CREATION_FLAGS,
}

impl RealtimeClass {
    /// Sets the real-time class for this process. Without the right, Windows sets a lower class
    /// without an error, so the class is read back.
    ///
    /// # Errors
    ///
    /// Returns an error if the process does not get this class; its class is then restored.
    pub fn take() -> io::Result<Self> {
        let before = match class() {
            0 => NORMAL_PRIORITY_CLASS,
            class => class,
        };
        let taken = Self { before };
        // SAFETY: the call does not take pointers.
        done(unsafe { SetPriorityClass(GetCurrentProcess(), REALTIME_PRIORITY_CLASS) })?;
        match class() {
            // Dropping `taken` restores the class.
            REALTIME_PRIORITY_CLASS => Ok(taken),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Returns the class of this process, or 0 if it is not readable.
pub(super) fn class() -> PROCESS_CREATION_FLAGS {
    // SAFETY: the call does not take pointers.
    unsafe { GetPriorityClass(GetCurrentProcess()) }
}

/// Returns whether this process has the real-time class.
pub fn has_realtime_class() -> bool {
    class() == REALTIME_PRIORITY_CLASS
}

impl Drop for RealtimeClass {
    fn drop(&mut self) {
        // SAFETY: the call does not take pointers. The process may always return to its previous
        // class.
        unsafe { SetPriorityClass(GetCurrentProcess(), self.before) };
        // Otherwise threads that gave way would be behind every normal thread of the machine.
        for thread in locked().drain(..) {
            // SAFETY: the handle is open, whether the thread has ended or not.
            unsafe { SetThreadPriority(thread.as_raw_handle(), THREAD_PRIORITY_NORMAL) };
        }
    }
}

/// Sets the priority of `service` for the calling thread, and reads it back.
///
/// # Errors
///
/// Returns an error if the system refuses, or lacks this priority.
pub fn schedule_as(service: Service) -> io::Result<()> {
    if service == Service::Mmcss {
        return join_audio();
    }
    let level = level_of(service)?;
    // SAFETY: the call does not take pointers.
    done(unsafe { SetThreadPriority(GetCurrentThread(), level) })?;
    // SAFETY: the call does not take pointers.
    if unsafe { GetThreadPriority(GetCurrentThread()) } == level {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Adds the calling thread to the task "Pro Audio" of the Multimedia Class Scheduler (MMCSS),
/// until it ends.
///
/// # Errors
///
/// Returns an error if the service does not run or refuses.
fn join_audio() -> io::Result<()> {
    let mut task = 0;
    // SAFETY: the name ends in a NUL, and `task` is valid for writes.
    let joined = unsafe { AvSetMmThreadCharacteristicsW(w!("Pro Audio"), &raw mut task) };
    if joined.is_null() {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Returns the system's name of a priority relative to the process's.
fn level_of(service: Service) -> io::Result<i32> {
    Ok(match service {
        Service::Other => THREAD_PRIORITY_NORMAL,
        Service::Realtime(31) => THREAD_PRIORITY_TIME_CRITICAL,
        Service::Realtime(16) => THREAD_PRIORITY_IDLE,
        // -7 to 6 in this class.
        Service::Realtime(priority @ 17..=30) => i32::from(priority) - i32::from(MIDDLE),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Raises the calling thread above all normal threads, in a process of normal class. It does not
/// measure, and makes requests on time.
pub(super) fn hurry() -> io::Result<()> {
    // SAFETY: the call does not take pointers.
    done(unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_TIME_CRITICAL) })
}

/// Places the calling thread, which does not measure, behind all measuring threads: in a process
/// of the real-time class, at its lowest priority. It still runs before normal threads.
pub fn give_way() {
    if class() != REALTIME_PRIORITY_CLASS {
        return;
    }
    // SAFETY: the call does not take pointers; nothing else owns the returned handle.
    let own = unsafe {
        let own = OpenThread(THREAD_SET_INFORMATION, 0, GetCurrentThreadId());
        (!own.is_null()).then(|| OwnedHandle::from_raw_handle(own))
    };
    // Without a handle the priority could not be restored, so it is not changed.
    if let Some(own) = own {
        // SAFETY: the call does not take pointers.
        unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_IDLE) };
        locked().push(own);
    }
}

/// Threads that gave way, until the process returns to its previous class.
static BEHIND: Mutex<Vec<OwnedHandle>> = Mutex::new(Vec::new());

fn locked() -> MutexGuard<'static, Vec<OwnedHandle>> {
    BEHIND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lock for tests that check the class of their process.
#[cfg(test)]
pub(super) static CLASS: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_gave_way_are_normal_after_the_measurement() {
        let _alone = CLASS.lock().unwrap();
        // SAFETY: the call does not take pointers.
        let own = || unsafe { GetThreadPriority(GetCurrentThread()) };
        let Ok(class) = RealtimeClass::take() else {
            println!("skipped: this process may not have the real-time class");
            return;
        };
        let (behind, go) = (Barrier::new(2), Barrier::new(2));

        let (while_measuring, afterwards) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                give_way();
                behind.wait();
                go.wait();
                own()
            });
            give_way();
            behind.wait();
            let while_measuring = own();
            drop(class);
            go.wait();
            (while_measuring, [own(), writer.join().unwrap()])
        });

        assert_eq!(while_measuring, THREAD_PRIORITY_IDLE);
        assert_eq!(afterwards, [THREAD_PRIORITY_NORMAL; 2]);
    }

    #[test]
    fn every_priority_of_the_class_has_a_distinct_level() {
        let (least, most) = Service::REALTIME;
        let levels: Vec<i32> = (least..=most)
            .map(|priority| level_of(Service::Realtime(priority)).unwrap())
            .collect();

        assert_eq!(levels.first(), Some(&THREAD_PRIORITY_IDLE));
        assert_eq!(levels.last(), Some(&THREAD_PRIORITY_TIME_CRITICAL));
        assert!(levels.is_sorted_by(|a, b| a < b), "{levels:?}");
        assert!(level_of(Service::Fifo(90)).is_err());
    }
}
