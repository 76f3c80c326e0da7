//! A server of HTTP/1.1 that can wait for hostile clients: one thread, and no more
//! of anything than the constants here say.
//!
//! Requests are parsed by `httparse`; the rest is below. A client has a connection
//! for one answer. One that is slow is dropped after [`PATIENCE`], or when there is
//! no room for another; what waits to be written to it is shared by all who asked
//! for the same.

mod accept;
mod connection;
mod request;
mod stream;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::web::Web;

pub(crate) use connection::Listener;
use connection::{Connection, Wants};
pub(crate) use request::{Asked, BodyKind, SeriesFormat};
use stream::ClientStream;

/// Connections at a time.
const MOST: usize = 64;
/// How long a client may take, from its connection to the end of its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are answered in a second; more wait. 1,000 scrapes a minute are 17.
const A_SECOND: u32 = 100;
/// The same by TLS, whose handshake takes a millisecond or more.
const A_SECOND_BY_TLS: u32 = 40;

/// An answer, without its head.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: BodyKind,
    pub(crate) body: Arc<[u8]>,
}

impl Answer {
    /// A line of plain text.
    pub(crate) fn plain(status: u16, text: &str) -> Self {
        Self {
            status,
            kind: BodyKind::Plain,
            body: format!("{text}\n").into_bytes().into(),
        }
    }
}

/// What answers are made of.
pub(crate) trait Answers {
    /// The answer to a request that is well-formed.
    fn answer(&self, asked: &Asked) -> Answer;
}

/// Serves for ever.
pub(crate) fn serve(listener: &Listener, answers: &dyn Answers, web: &mut Web) -> io::Error {
    let mut open: Vec<Connection> = Vec::new();
    let mut second = (Instant::now(), 0);
    loop {
        let now = Instant::now();
        open.retain(|one| now < one.began() + PATIENCE);
        if now >= second.0 + Duration::from_secs(1) {
            second = (now, 0);
        }
        let most = if web.has_tls() {
            A_SECOND_BY_TLS
        } else {
            A_SECOND
        };
        let takes = second.1 < most;
        let ready = match wait(listener, &open, takes, second.0 + Duration::from_secs(1)) {
            Ok(ready) => ready,
            Err(err) => return err,
        };
        let mut is_ready = ready.into_iter();
        let is_called = is_ready.next().unwrap_or(false);
        open.retain_mut(|one| !is_ready.next().unwrap_or(false) || one.go_on(answers, web));
        if !is_called {
            continue;
        }
        match listener.accept() {
            Ok(Some(socket)) => {
                second.1 += 1;
                let stream = match ClientStream::new(socket, web.tls()) {
                    Ok(stream) => stream,
                    Err(err) => return err,
                };
                let mut one = Connection::new(stream, listener.is_local());
                // Most clients have asked already: they need no place.
                if one.go_on(answers, web) {
                    make_room(&mut open);
                    open.push(one);
                }
            }
            Ok(None) => {}
            // No more file descriptors: those that are in use come back.
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}

/// Whom the slowest must leave for: who has its answer, or who has not asked yet, for
/// longest.
fn make_room(open: &mut Vec<Connection>) {
    if open.len() < MOST {
        return;
    }
    let first = |is_it: fn(&Connection) -> bool| open.iter().position(is_it);
    let leaves = first(Connection::has_answer)
        .or_else(|| first(|one| one.wants() == Wants::ToRead))
        .unwrap_or(0);
    open.remove(leaves);
}

/// Waits until something can be done; which of the listener and `open` can.
fn wait(
    listener: &Listener,
    open: &[Connection],
    takes: bool,
    next_second: Instant,
) -> io::Result<Vec<bool>> {
    let flags = |one: &Connection| match one.wants() {
        Wants::ToRead => PollFlags::POLLIN,
        Wants::ToWrite => PollFlags::POLLOUT,
    };
    let called = if takes {
        PollFlags::POLLIN
    } else {
        PollFlags::empty()
    };
    let first: (BorrowedFd<'_>, PollFlags) = (listener.as_fd(), called);
    let rest = open.iter().map(|one| (one.as_fd(), flags(one)));
    let mut all: Vec<PollFd<'_>> = std::iter::once(first)
        .chain(rest)
        .map(|(fd, flags)| PollFd::new(fd, flags))
        .collect();
    let ends = open.iter().map(|one| one.began() + PATIENCE).min();
    let until = [ends, (!takes).then_some(next_second)]
        .into_iter()
        .flatten()
        .min();
    let timeout = match until {
        None => PollTimeout::NONE,
        Some(until) => {
            let left = until.saturating_duration_since(Instant::now());
            let rounded = left.saturating_add(Duration::from_millis(1));
            PollTimeout::try_from(rounded).unwrap_or(PollTimeout::MAX)
        }
    };
    match poll(&mut all, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(err) => return Err(err.into()),
    }
    Ok(all.iter().map(|one| one.any().unwrap_or(true)).collect())
}

#[cfg(test)]
mod tests;
