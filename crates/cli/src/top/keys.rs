//! Waits for keys, and detects a closed terminal.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event;

/// Source of keys: standard input or, if that is not a terminal, the terminal itself. The
/// event reader makes the same choice.
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
            Self::Terminal(File::open("/dev/tty").context("cannot open the terminal")?)
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Input(input) => input.as_fd(),
            Self::Terminal(terminal) => terminal.as_fd(),
        }
    }

    /// Returns whether the terminal has an event within `time`. A closed terminal is an
    /// error: the event reader would return its end again and again.
    pub(super) fn are_pressed(&self, time: Duration) -> anyhow::Result<bool> {
        let mut terminal = [PollFd::new(self.fd(), PollFlags::POLLIN)];
        // Rounded up, because a wait of zero would be a busy loop.
        let ms = time.as_micros().div_ceil(1000);
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
        match poll(&mut terminal, timeout) {
            // The run handles signals.
            Err(Errno::EINTR) => return Ok(false),
            ready => ready.context("cannot wait for the terminal")?,
        };
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        let events = terminal[0].revents();
        if events.is_none_or(|events| events.intersects(gone)) {
            bail!("the terminal is gone");
        }
        match event::poll(Duration::ZERO) {
            Err(err) if err.kind() == io::ErrorKind::Interrupted => Ok(false),
            ready => ready.context("cannot read the terminal"),
        }
    }
}
