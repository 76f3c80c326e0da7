//! Processes that are held by a descriptor, so that a later process with the same number is not
//! mistaken for them.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::descriptors;

/// Process that can be signalled.
#[derive(Debug)]
pub struct HeldProcess(OwnedFd);

impl HeldProcess {
    /// Holds the process with this number, and checks that this process may signal it.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist, is a thread of a process or of the kernel, or
    /// belongs to another user.
    pub fn open(process: u32) -> io::Result<Self> {
        let held = Self(hold(process)?);
        if is_kernel_thread(process) {
            return Err(io::Error::other(
                "it is a kernel thread, which does not accept signals",
            ));
        }
        // Signal 0 only checks.
        held.signal(0)?;
        Ok(held)
    }

    /// Sends the signal with this number.
    ///
    /// # Errors
    ///
    /// Returns an error if the process has ended, or the system refuses.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        // A zombie accepts signals without an effect.
        if self.has_ended() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // SAFETY: takes numbers and a null pointer, which stands for the default information.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        let mut descriptors = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptors, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }
}

/// Returns whether a process is a thread of the kernel. `false` if `/proc` shows other processes
/// than the numbers of this one name, as in a namespace.
fn is_kernel_thread(process: u32) -> bool {
    /// Index of the flags after the name, and `PF_KTHREAD`: proc(5).
    const FLAGS: usize = 6;
    const KERNEL_THREAD: u32 = 0x0020_0000;
    let own = fs::read_link("/proc/self").ok();
    if own.is_none_or(|own| own.as_os_str() != std::process::id().to_string().as_str()) {
        return false;
    }
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let flags = fields.split_whitespace().nth(FLAGS);
    flags
        .and_then(|flags| flags.parse::<u32>().ok())
        .is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// Holds a process. If too many files are open, raises the limit of this process first.
pub(super) fn hold(process: u32) -> io::Result<OwnedFd> {
    match open(process) {
        Err(err) if err.raw_os_error() == Some(libc::EMFILE) => {
            descriptors::allow_all();
            open(process)
        }
        held => held,
    }
}

fn open(process: u32) -> io::Result<OwnedFd> {
    let number =
        libc::pid_t::try_from(process).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: takes two numbers, and gives a new descriptor or an error.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
    if opened < 0 {
        let err = io::Error::last_os_error();
        // The number belongs to a thread that is not the first of its process.
        return Err(match err.raw_os_error() {
            Some(libc::ENOENT) | Some(libc::EINVAL) => io::Error::from_raw_os_error(libc::ESRCH),
            _ => err,
        });
    }
    let opened = i32::try_from(opened).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created the descriptor, and nothing else uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn ended_process_is_not_signalled_even_if_it_is_not_reaped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let held = HeldProcess::open(child.id()).unwrap();
        held.signal(0).unwrap();

        child.kill().unwrap();
        while !held.has_ended() {
            std::thread::yield_now();
        }

        let refused = held.signal(0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ESRCH));
        child.wait().unwrap();
    }

    #[test]
    fn kernel_thread_is_refused() {
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            let refused = HeldProcess::open(2).unwrap_err();

            assert!(refused.to_string().contains("kernel thread"), "{refused}");
        } else {
            println!("skipped: kernel threads are not visible here");
        }
    }

    #[test]
    fn process_that_does_not_exist_is_refused() {
        let refused = HeldProcess::open(u32::MAX).unwrap_err();

        assert_eq!(refused.raw_os_error(), Some(libc::ESRCH));
    }
}
