//! Removal of incomplete files at the end of this program, also by a signal.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ending::at_ending;

/// Removes an incomplete file. Best effort: errors cannot be reported at the end of the
/// program.
pub type Removal = Box<dyn Fn() + Send>;

/// All incomplete files. The thread that ends the program holds the lock until the end,
/// so that no file is started or finished any more.
static ALL: Mutex<All> = Mutex::new(All {
    is_watched: false,
    begun: 0,
    unfinished: Vec::new(),
});

struct All {
    /// True if a thread waits for the signals.
    is_watched: bool,
    begun: u64,
    unfinished: Vec<(u64, Removal)>,
}

/// Effect of a signal while a file is incomplete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtSignal {
    /// The program ends after the file is removed.
    Ends,
    /// The writer must finish.
    Finishes,
}

/// Incomplete file. It is removed with this value, unless it is finished.
#[derive(Debug)]
pub struct Unfinished(u64);

impl Unfinished {
    /// Starts a file with `make`, which also returns its removal. A signal during the
    /// call ends the program after the call.
    ///
    /// # Errors
    /// If it cannot be created, or if it is not possible to wait for signals.
    pub fn begin<T>(
        at_signal: AtSignal,
        make: impl FnOnce() -> anyhow::Result<(T, Removal)>,
    ) -> anyhow::Result<(T, Self)> {
        let mut unfinished = lock_all();
        if at_signal == AtSignal::Ends && !unfinished.is_watched {
            at_ending(remove_all)?;
            unfinished.is_watched = true;
        }
        let (made, removal) = make()?;
        unfinished.begun += 1;
        let number = unfinished.begun;
        unfinished.unfinished.push((number, removal));
        Ok((made, Self(number)))
    }

    /// Calls `last` and keeps the file. If `last` fails, returns the unfinished file
    /// with the error.
    ///
    /// # Errors
    /// As for `last`.
    pub fn try_finish<E>(self, last: impl FnOnce() -> Result<(), E>) -> Result<(), (E, Self)> {
        let mut unfinished = lock_all();
        if let Err(error) = last() {
            drop(unfinished);
            return Err((error, self));
        }
        drop(unfinished.take(self.0));
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If a signal removes it, this waits until the program ends.
        let mut unfinished = lock_all();
        if let Some(removal) = unfinished.take(self.0) {
            removal();
        }
    }
}

impl All {
    fn take(&mut self, number: u64) -> Option<Removal> {
        let place = self.unfinished.iter().position(|entry| entry.0 == number)?;
        Some(self.unfinished.swap_remove(place).1)
    }
}

/// Calls `work`. A signal that ends the program does so after it.
pub(crate) fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _held = lock_all();
    work()
}

fn lock_all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all incomplete files. While the returned guard is held, no file is started
/// or finished.
fn remove_all() -> MutexGuard<'static, All> {
    let unfinished = lock_all();
    unfinished
        .unfinished
        .iter()
        .for_each(|(_, removal)| removal());
    unfinished
}
