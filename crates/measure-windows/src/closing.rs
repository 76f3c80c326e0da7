//! The closing of the window, and the end of the session. As soon as a handler of it
//! returns Windows ends the program, and some seconds later anyway.

use std::io;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use windows_sys::Win32::Foundation::FALSE;
use windows_sys::Win32::System::Console::{
    CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT, SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

/// What is done then.
static END: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
/// Longer than Windows waits for a program: 5 s, unless its registry says otherwise.
const ENDING: Duration = Duration::from_mins(1);

/// Has `end` called when the window is closed: it asks the program to end, which then has
/// some seconds to do so. Ctrl-C and Ctrl-Break are left to others.
///
/// # Errors
/// When the system refuses, or something else is to be called already.
pub fn at_closing(end: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    END.set(Box::new(end))
        .map_err(|_| io::ErrorKind::AlreadyExists)?;
    // SAFETY: the handler is there as long as the program is.
    match unsafe { SetConsoleCtrlHandler(Some(closing), 1) } {
        FALSE => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Called in a thread of the system's own.
unsafe extern "system" fn closing(event: u32) -> BOOL {
    let is_end = matches!(
        event,
        CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT
    );
    if is_end && let Some(end) = END.get() {
        end();
        sleep(ENDING);
    }
    FALSE
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use windows_sys::Win32::System::Console::CTRL_C_EVENT;

    use super::*;

    #[test]
    fn a_program_is_asked_to_end_and_has_the_time_for_it() {
        let (asked, asking) = mpsc::channel();
        at_closing(move || asked.send(()).unwrap()).unwrap();

        // SAFETY: it takes any number.
        assert_eq!(unsafe { closing(CTRL_C_EVENT) }, FALSE);
        assert!(asking.try_recv().is_err());
        // SAFETY: as above.
        let handler = std::thread::spawn(|| unsafe { closing(CTRL_CLOSE_EVENT) });
        asking.recv_timeout(Duration::from_secs(20)).unwrap();
        sleep(Duration::from_millis(100));

        assert!(!handler.is_finished());
        assert!(at_closing(|| ()).is_err());
    }
}
