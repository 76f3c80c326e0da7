//! Handler for the closing of the window and the end of the session. Windows ends the program when
//! the handler returns, at the latest after some seconds.

use std::io;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use windows_sys::Win32::Foundation::FALSE;
use windows_sys::Win32::System::Console::{
    CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT, SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

/// Function that is called then.
static END: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
/// Wait of the handler. It is longer than Windows waits for a program: 5 s by default.
const ENDING: Duration = Duration::from_mins(1);

/// Calls `end` when the window is closed. `end` requests the end of the program, which then has
/// some seconds. Ctrl-C and Ctrl-Break are handled elsewhere.
///
/// # Errors
///
/// Returns an error if the system refuses, or if a function is installed already.
pub fn at_closing(end: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    END.set(Box::new(end))
        .map_err(|_| io::ErrorKind::AlreadyExists)?;
    // SAFETY: the handler lives until the end of the program.
    match unsafe { SetConsoleCtrlHandler(Some(closing), 1) } {
        FALSE => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Runs in a thread of the system.
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
    fn closing_requests_the_end_and_waits() {
        let (sender, requests) = mpsc::channel();
        at_closing(move || sender.send(()).unwrap()).unwrap();

        // SAFETY: it accepts any number.
        assert_eq!(unsafe { closing(CTRL_C_EVENT) }, FALSE);
        assert!(requests.try_recv().is_err());
        // SAFETY: as above.
        let handler = std::thread::spawn(|| unsafe { closing(CTRL_CLOSE_EVENT) });
        requests.recv_timeout(Duration::from_secs(20)).unwrap();
        sleep(Duration::from_millis(100));

        assert!(!handler.is_finished());
        assert!(at_closing(|| ()).is_err());
    }
}
