//! Functions that depend on the system, under the same names on all systems.

#[cfg(target_os = "linux")]
mod linux_files;
#[cfg(target_os = "linux")]
mod unmet;
#[cfg(not(target_os = "linux"))]
mod windows_files;

pub(crate) use laggard_console::system::{
    become_normal, has_room, keep_free_memory, read_symbols_if_asked, survive_file_limit,
};
#[cfg(target_os = "linux")]
pub(crate) use linux_files::{TemporaryLock, is_left, is_safe_around, leave};
#[cfg(target_os = "linux")]
pub(crate) use unmet::is_unmet;
#[cfg(not(target_os = "linux"))]
pub(crate) use windows_files::{LockBeside as TemporaryLock, is_left, is_safe_around, leave};

/// Returns true if this machine cannot do the requested operation. Otherwise an error occurred.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_unmet(err: &anyhow::Error) -> bool {
    let session = err.downcast_ref::<laggard_session::SessionError>();
    session.is_some_and(laggard_session::SessionError::is_unmet)
}
