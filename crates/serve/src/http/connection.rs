//! Connection of one client, and the listener that accepts it.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::request::{ParsedRequest, parse_request};
use super::stream::{ClientSocket, ClientStream};
use super::{Answer, Answers};
use crate::web::{Admission, Web};

/// Maximum length of a request, bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Maximum number of bytes that are read and discarded from a client that continues to send after
/// its response.
const MAX_DISCARDED: usize = 1 << 20;
/// Mode of a socket: its owner and its group may connect.
const MODE: u32 = 0o660;

/// Source of client connections.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on an address of this machine.
    pub(crate) fn tcp(address: std::net::SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    /// Listens on a socket in the file system. Replaces a socket without a listener, because the
    /// process of its listener was killed.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let is_socket =
            fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
        if is_socket
            && UnixStream::connect(path)
                .is_err_and(|err| err.kind() == ErrorKind::ConnectionRefused)
        {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(MODE))?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener, path.to_owned()))
    }

    /// Returns the bound address, which the system chooses for port 0.
    pub(crate) fn address(&self, has_tls: bool) -> io::Result<String> {
        let scheme = if has_tls { "https" } else { "http" };
        match self {
            Self::Tcp(listener) => Ok(format!("{scheme}://{}", listener.local_addr()?)),
            Self::Unix(_, path) => Ok(format!("unix:{}", path.display())),
        }
    }

    /// Returns true if browsers on this machine can connect, and other machines cannot.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .is_ok_and(|address| address.ip().is_loopback()),
            Self::Unix(..) => false,
        }
    }

    /// Accepts the next client; `None` if it has already disconnected.
    pub(crate) fn accept(&self) -> io::Result<Option<Box<dyn ClientSocket>>> {
        let accepted: io::Result<Box<dyn ClientSocket>> = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream) as _)
            }),
            Self::Unix(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream) as _)
            }),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(err) if is_client_error(&err) => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// Returns true if the error concerns the client, not this machine.
fn is_client_error(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        ErrorKind::WouldBlock | ErrorKind::ConnectionAborted | ErrorKind::Interrupted
    )
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // An error cannot be reported here.
            let _ = fs::remove_file(path);
        }
    }
}

/// Operation that a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wants {
    ToRead,
    ToWrite,
}

/// Connection of one client, from its start to the end of the response.
pub(crate) struct Connection {
    stream: ClientStream,
    began: Instant,
    /// True if requests from pages of other sites, sent by a browser on this machine, are refused.
    is_local: bool,
    state: Exchange,
}

enum Exchange {
    Receiving(Vec<u8>),
    Sending {
        head: Vec<u8>,
        body: Arc<[u8]>,
        written: usize,
        /// True if the client may still send data that is not read.
        may_send_more: bool,
    },
    /// The response was sent. Some systems discard a response that was not yet delivered if the
    /// connection is closed while the client still sends. Up to this many further bytes are
    /// therefore read.
    Discarding(usize),
}

impl Connection {
    pub(crate) fn new(stream: ClientStream, is_local: bool) -> Self {
        Self {
            stream,
            began: Instant::now(),
            is_local,
            state: Exchange::Receiving(Vec::new()),
        }
    }

    pub(crate) const fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn wants(&self) -> Wants {
        match self.state {
            Exchange::Receiving(_) | Exchange::Discarding(_) if self.stream.must_send() => {
                Wants::ToWrite
            }
            Exchange::Receiving(_) | Exchange::Discarding(_) => Wants::ToRead,
            Exchange::Sending { .. } => Wants::ToWrite,
        }
    }

    /// Returns true if the response is complete. Such a connection is closed first.
    pub(crate) const fn has_answer(&self) -> bool {
        matches!(self.state, Exchange::Discarding(_))
    }

    /// Reads and writes until it would block. Returns true if the connection stays open.
    pub(crate) fn proceed(&mut self, answers: &dyn Answers, web: &mut Web) -> bool {
        loop {
            let done = match &mut self.state {
                Exchange::Receiving(_) => self.receive(answers, web),
                Exchange::Sending { .. } => self.write(),
                Exchange::Discarding(left) => {
                    // Reads once, because some clients send faster than this program reads.
                    return match self.stream.read(&mut [0; 16 << 10]) {
                        Ok(bytes) => {
                            *left = left.saturating_sub(bytes);
                            bytes > 0 && *left > 0
                        }
                        Err(err) => is_retryable(&err),
                    };
                }
            };
            match done {
                Ok(true) => {}
                Ok(false) => return false,
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(err) => return is_retryable(&err),
            }
        }
    }

    /// Reads, and prepares the response if the request is complete. Returns true if the connection
    /// stays open.
    fn receive(&mut self, answers: &dyn Answers, web: &mut Web) -> io::Result<bool> {
        let Exchange::Receiving(received) = &mut self.state else {
            return Ok(true);
        };
        let mut part = [0; 2 << 10];
        match self.stream.read(&mut part)? {
            0 => return Ok(false),
            bytes => received.extend_from_slice(&part[..bytes]),
        }
        if let Some(answer) = response(received, self.is_local, answers, web) {
            self.state = answer;
        }
        Ok(true)
    }

    /// Writes the rest of the response. Returns true if the connection stays open.
    fn write(&mut self) -> io::Result<bool> {
        let Exchange::Sending {
            head,
            body,
            written,
            may_send_more,
        } = &mut self.state
        else {
            return Ok(true);
        };
        let left = match head.get(*written..) {
            Some(left) if !left.is_empty() => left,
            _ => &body[*written - head.len()..],
        };
        if left.is_empty() {
            self.stream.end()?;
            let may_send_more = *may_send_more;
            self.state = Exchange::Discarding(MAX_DISCARDED);
            return Ok(may_send_more);
        }
        match self.stream.write(left)? {
            0 => Ok(false),
            bytes => {
                *written += bytes;
                Ok(true)
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Returns true if the operation only has to be repeated later.
fn is_retryable(err: &io::Error) -> bool {
    matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Returns the response to the bytes that were received so far; `None` if the request is
/// incomplete.
fn response(
    received: &[u8],
    is_local: bool,
    answers: &dyn Answers,
    web: &mut Web,
) -> Option<Exchange> {
    let (answer, has_body, may_send_more) = match parse_request(received, is_local) {
        ParsedRequest::Incomplete if received.len() < MAX_REQUEST => return None,
        ParsedRequest::Incomplete => (Answer::plain(431, "the request is too long"), true, true),
        ParsedRequest::Refused(status, why) => (Answer::plain(status, why), true, true),
        ParsedRequest::Complete(request, has_body) => {
            let answer = match web.admits(request.authorization.as_deref()) {
                Admission::Granted => answers.answer(&request),
                Admission::Refused => Answer::plain(401, "a user name and password are required"),
                Admission::Later => Answer::plain(
                    429,
                    "other passwords are tried already; ask again in a second",
                ),
            };
            (answer, has_body, false)
        }
    };
    Some(Exchange::Sending {
        head: answer.head(),
        body: if has_body {
            answer.body
        } else {
            Arc::default()
        },
        written: 0,
        may_send_more,
    })
}
