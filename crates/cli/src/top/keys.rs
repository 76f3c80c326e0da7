//! Whether somebody has pressed a key, and whether the terminal is still there.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event;

/// Where keys come from: the standard input, or the terminal itself where the
/// input is something else. The choice is the same as the event reader's.
pub(super) enum Keys {
    Input(io::Stdin),
    Terminal(File),
}

impl Keys {
    pub(super) fn open() -> anyhow::Result<Self> {
        let input = io::stdin();
        Ok(if input.is_terminal() {
            Self::Input(input)
        } else {
            Self::Terminal(File::open("/dev/tty").context("open the terminal")?)
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Input(input) => input.as_fd(),
            Self::Terminal(terminal) => terminal.as_fd(),
        }
    }

    /// Whether the terminal has something to say within `time`. An error once it
    /// is gone: the event reader would read its end over and over.
    pub(super) fn are_pressed(&self, time: Duration) -> anyhow::Result<bool> {
        let mut terminal = [PollFd::new(self.fd(), PollFlags::POLLIN)];
        // Above the time, not below it: a wait of zero would be a busy one.
        let ms = time.as_micros().div_ceil(1000);
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
        match poll(&mut terminal, timeout) {
            // A signal came: the run looks at it.
            Err(Errno::EINTR) => return Ok(false),
            ready => ready.context("wait for the terminal")?,
        };
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        let seen = terminal[0].revents();
        if seen.is_none_or(|seen| seen.intersects(gone)) {
            bail!("the terminal is gone");
        }
        match event::poll(Duration::ZERO) {
            Err(err) if err.kind() == io::ErrorKind::Interrupted => Ok(false),
            ready => ready.context("read the terminal"),
        }
    }
}
