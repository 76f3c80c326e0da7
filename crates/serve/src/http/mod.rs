//! HTTP/1.1 server that tolerates hostile clients: it uses one thread, and the constants here limit
//! all resources.
//!
//! `httparse` parses the requests. Each connection serves one response. A slow connection is closed
//! after [`MAX_CONNECTION_TIME`], or when a new connection needs its place. Connections that
//! requested the same path share the buffered response.

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
pub(crate) use request::{BodyKind, HttpRequest, SeriesFormat};
use stream::ClientStream;

/// Maximum number of simultaneous connections.
const MAX_CONNECTIONS: usize = 64;
/// Maximum duration of a connection, to the end of its response.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Maximum number of connections per second; more connections wait. 1,000 scrapes per minute are 17
/// per second.
const MAX_PER_SECOND: u32 = 100;
/// The same for TLS, whose handshake takes a millisecond or more.
const MAX_PER_SECOND_TLS: u32 = 40;

/// Response without its head.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: BodyKind,
    pub(crate) body: Arc<[u8]>,
}

impl Answer {
    /// Returns a line of plain text.
    pub(crate) fn plain(status: u16, text: &str) -> Self {
        Self {
            status,
            kind: BodyKind::Plain,
            body: format!("{text}\n").into_bytes().into(),
        }
    }
}

/// Source of the responses.
pub(crate) trait Answers {
    /// Returns the response to a well-formed request.
    fn answer(&self, request: &HttpRequest) -> Answer;
}

/// Serves until an error occurs.
pub(crate) fn serve(listener: &Listener, answers: &dyn Answers, web: &mut Web) -> io::Error {
    let mut open: Vec<Connection> = Vec::new();
    let mut second = (Instant::now(), 0);
    loop {
        let now = Instant::now();
        open.retain(|connection| now < connection.began() + MAX_CONNECTION_TIME);
        if now >= second.0 + Duration::from_secs(1) {
            second = (now, 0);
        }
        let most = if web.has_tls() {
            MAX_PER_SECOND_TLS
        } else {
            MAX_PER_SECOND
        };
        let accepts = second.1 < most;
        let ready = match wait(listener, &open, accepts, second.0 + Duration::from_secs(1)) {
            Ok(ready) => ready,
            Err(err) => return err,
        };
        let mut is_ready = ready.into_iter();
        let is_listener_ready = is_ready.next().unwrap_or(false);
        open.retain_mut(|connection| {
            !is_ready.next().unwrap_or(false) || connection.proceed(answers, web)
        });
        if !is_listener_ready {
            continue;
        }
        match listener.accept() {
            Ok(Some(socket)) => {
                second.1 += 1;
                let stream = match ClientStream::new(socket, web.tls()) {
                    Ok(stream) => stream,
                    Err(err) => return err,
                };
                let mut connection = Connection::new(stream, listener.is_local());
                // Most clients have already sent their request and do not need a place.
                if connection.proceed(answers, web) {
                    make_room(&mut open);
                    open.push(connection);
                }
            }
            Ok(None) => {}
            // All file descriptors are in use. Connections that end free some.
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}

/// Closes a connection if all places are taken: the oldest that has its response, otherwise the
/// oldest that still waits for its request, otherwise the oldest.
fn make_room(open: &mut Vec<Connection>) {
    if open.len() < MAX_CONNECTIONS {
        return;
    }
    let first = |is_it: fn(&Connection) -> bool| open.iter().position(is_it);
    let closed = first(Connection::has_answer)
        .or_else(|| first(|connection| connection.wants() == Wants::ToRead))
        .unwrap_or(0);
    open.remove(closed);
}

/// Waits until a socket is ready. Returns the readiness of the listener, then of each connection in
/// `open`.
fn wait(
    listener: &Listener,
    open: &[Connection],
    accepts: bool,
    next_second: Instant,
) -> io::Result<Vec<bool>> {
    let flags = |connection: &Connection| match connection.wants() {
        Wants::ToRead => PollFlags::POLLIN,
        Wants::ToWrite => PollFlags::POLLOUT,
    };
    let listener_flags = if accepts {
        PollFlags::POLLIN
    } else {
        PollFlags::empty()
    };
    let first: (BorrowedFd<'_>, PollFlags) = (listener.as_fd(), listener_flags);
    let rest = open
        .iter()
        .map(|connection| (connection.as_fd(), flags(connection)));
    let mut descriptors: Vec<PollFd<'_>> = std::iter::once(first)
        .chain(rest)
        .map(|(fd, flags)| PollFd::new(fd, flags))
        .collect();
    let earliest_end = open
        .iter()
        .map(|connection| connection.began() + MAX_CONNECTION_TIME)
        .min();
    let until = [earliest_end, (!accepts).then_some(next_second)]
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
    match poll(&mut descriptors, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(err) => return Err(err.into()),
    }
    Ok(descriptors
        .iter()
        .map(|descriptor| descriptor.any().unwrap_or(true))
        .collect())
}

#[cfg(test)]
mod tests;
