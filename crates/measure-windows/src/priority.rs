//! Priorities: a process of the real-time class, and its threads.
//!
//! The class is of the whole process: all of its threads have priorities from 16 on then,
//! which come before every normal thread. So a normal thread is measured apart.

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

/// What `THREAD_PRIORITY_NORMAL` is in the real-time class.
const MIDDLE: u8 = 24;

/// A process that is of the real-time class as long as this lives.
#[derive(Debug)]
pub(super) struct RealtimeClass {
    before: PROCESS_CREATION_FLAGS,
}

impl RealtimeClass {
    /// Makes this process one of the real-time class. Without the right to it Windows
    /// makes it one of a lower class, and says nothing: so it is read back.
    ///
    /// # Errors
    /// When it is not of that class then; it is as it was before.
    pub(super) fn take() -> io::Result<Self> {
        let before = match class() {
            0 => NORMAL_PRIORITY_CLASS,
            class => class,
        };
        let taken = Self { before };
        // SAFETY: takes no pointers.
        done(unsafe { SetPriorityClass(GetCurrentProcess(), REALTIME_PRIORITY_CLASS) })?;
        match class() {
            // It is put back when `taken` goes.
            REALTIME_PRIORITY_CLASS => Ok(taken),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// The class of this process; 0: it cannot be read.
pub(super) fn class() -> PROCESS_CREATION_FLAGS {
    // SAFETY: takes no pointers.
    unsafe { GetPriorityClass(GetCurrentProcess()) }
}

impl Drop for RealtimeClass {
    fn drop(&mut self) {
        // SAFETY: takes no pointers. What it was it can be again.
        unsafe { SetPriorityClass(GetCurrentProcess(), self.before) };
        // Else threads that gave way would be behind every normal one of the machine.
        for thread in locked().drain(..) {
            // SAFETY: the handle is held, whether the thread has ended or not.
            unsafe { SetThreadPriority(thread.as_raw_handle(), THREAD_PRIORITY_NORMAL) };
        }
    }
}

/// Gives the calling thread the priority of `service`, and reads it back.
///
/// # Errors
/// When the system refuses, or has no such priority.
pub(super) fn schedule_as(service: Service) -> io::Result<()> {
    if service == Service::Mmcss {
        return join_audio();
    }
    let level = level_of(service)?;
    // SAFETY: takes no pointers.
    done(unsafe { SetThreadPriority(GetCurrentThread(), level) })?;
    // SAFETY: takes no pointers.
    match unsafe { GetThreadPriority(GetCurrentThread()) } == level {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Makes the calling thread one of the task "Pro Audio" of the Multimedia Class Scheduler
/// (MMCSS), until it ends.
///
/// # Errors
/// When that service does not run, or does not take it.
fn join_audio() -> io::Result<()> {
    let mut task = 0;
    // SAFETY: the name ends in a NUL, and `task` is valid for writes.
    let joined = unsafe { AvSetMmThreadCharacteristicsW(w!("Pro Audio"), &raw mut task) };
    match joined.is_null() {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// What the system calls a priority, beside that of the process.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the others are Linux's, or no thread of ours"
)]
fn level_of(service: Service) -> io::Result<i32> {
    Ok(match service {
        Service::Other => THREAD_PRIORITY_NORMAL,
        Service::Realtime(31) => THREAD_PRIORITY_TIME_CRITICAL,
        Service::Realtime(16) => THREAD_PRIORITY_IDLE,
        // From -7 to 6 in this class.
        Service::Realtime(priority @ 17..=30) => i32::from(priority) - i32::from(MIDDLE),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Lets the calling thread come before all normal ones of a process of normal class: it
/// measures nothing itself, and asks in time for what is measured.
pub(super) fn hurry() -> io::Result<()> {
    // SAFETY: takes no pointers.
    done(unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_TIME_CRITICAL) })
}

/// Puts the calling thread, which does not measure, behind all that do: in a process of
/// the real-time class, at its lowest priority. It still comes before normal threads.
pub fn give_way() {
    if class() != REALTIME_PRIORITY_CLASS {
        return;
    }
    // SAFETY: takes no pointers; a handle that is had is this one's alone.
    let own = unsafe {
        let own = OpenThread(THREAD_SET_INFORMATION, 0, GetCurrentThreadId());
        (!own.is_null()).then(|| OwnedHandle::from_raw_handle(own))
    };
    // What cannot be put back is left as it is.
    if let Some(own) = own {
        // SAFETY: takes no pointers.
        unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_IDLE) };
        locked().push(own);
    }
}

/// The threads that gave way, until the process is of its own class again.
static BEHIND: Mutex<Vec<OwnedHandle>> = Mutex::new(Vec::new());

fn locked() -> MutexGuard<'static, Vec<OwnedHandle>> {
    BEHIND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by tests that ask which class their process is of.
#[cfg(test)]
pub(super) static CLASS: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_gave_way_are_normal_ones_when_measuring_has_ended() {
        let _alone = CLASS.lock().unwrap();
        // SAFETY: takes no pointers.
        let own = || unsafe { GetThreadPriority(GetCurrentThread()) };
        let Ok(class) = RealtimeClass::take() else {
            println!("skipped: this process may not have the real-time class");
            return;
        };
        let (behind, go) = (Barrier::new(2), Barrier::new(2));

        let (while_measuring, afterwards) = std::thread::scope(|all| {
            let writer = all.spawn(|| {
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
    fn every_priority_of_the_class_has_a_level_of_its_own() {
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
