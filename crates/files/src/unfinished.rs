//! What is half made goes with this program, also where a signal ends it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ending::at_ending;

/// Removes what is half made. Best effort: who ends the program hears nothing more.
pub type Removal = Box<dyn Fn() + Send>;

/// All that is half made. Who ends the program holds it until the end, so that
/// nothing is begun or finished any more.
static ALL: Mutex<All> = Mutex::new(All {
    is_watched: false,
    begun: 0,
    unfinished: Vec::new(),
});

struct All {
    /// Whether a thread waits for the signals.
    is_watched: bool,
    begun: u64,
    unfinished: Vec<(u64, Removal)>,
}

/// What a signal does to this program while something is half made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtSignal {
    /// It ends the program, after what is half made is removed.
    Ends,
    /// It tells who makes it to finish.
    Finishes,
}

/// Something half made. It is removed with this value, unless it is finished.
#[derive(Debug)]
pub struct Unfinished(u64);

impl Unfinished {
    /// Begins what `make` makes, and `removal`, which it gives too, removes. A signal
    /// that comes meanwhile, and ends the program, does so once there is what to remove.
    ///
    /// # Errors
    /// When it cannot be made, or signals not be waited for.
    pub fn begin<T>(
        at_signal: AtSignal,
        make: impl FnOnce() -> anyhow::Result<(T, Removal)>,
    ) -> anyhow::Result<(T, Self)> {
        let mut all = all();
        if at_signal == AtSignal::Ends && !all.is_watched {
            at_ending(remove_all)?;
            all.is_watched = true;
        }
        let (made, removal) = make()?;
        all.begun += 1;
        let number = all.begun;
        all.unfinished.push((number, removal));
        Ok((made, Self(number)))
    }

    /// Calls `last`, and keeps what was made. If `last` fails, it is returned with the
    /// error, and is removed when it is dropped.
    ///
    /// # Errors
    /// As `last`.
    pub fn try_finish<E>(self, last: impl FnOnce() -> Result<(), E>) -> Result<(), (E, Self)> {
        let mut all = all();
        if let Err(error) = last() {
            drop(all);
            return Err((error, self));
        }
        drop(all.take(self.0));
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Where a signal removes it, this waits until the program is ended.
        let mut all = all();
        if let Some(removal) = all.take(self.0) {
            removal();
        }
    }
}

impl All {
    fn take(&mut self, number: u64) -> Option<Removal> {
        let place = self.unfinished.iter().position(|one| one.0 == number)?;
        Some(self.unfinished.swap_remove(place).1)
    }
}

/// Calls `work`. A signal that ends the program does so after it.
pub(crate) fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _held = all();
    work()
}

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all that is half made; whoever holds what is returned lets nothing be begun
/// or finished any more.
fn remove_all() -> MutexGuard<'static, All> {
    let all = all();
    all.unfinished.iter().for_each(|(_, removal)| removal());
    all
}
