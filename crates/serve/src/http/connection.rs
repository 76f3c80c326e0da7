//! One client, and where clients come from.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::request::{Heard, hear};
use super::stream::{ClientSocket, ClientStream};
use super::{Answer, Answers};
use crate::web::{Admission, Web};

/// Bytes of a request that are read, at most.
const LONGEST: usize = 8 << 10;
/// Bytes that are read, to no end, of who is refused and still sends.
const UNHEARD: usize = 1 << 20;
/// Who may connect to a socket of ours: its owner and its group.
const MODE: u32 = 0o660;

/// Where clients come from.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// On an address of this machine.
    pub(crate) fn tcp(address: std::net::SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    /// On a socket in the file system. One that nobody listens on any more, because
    /// its process was killed, is replaced.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
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

    /// The address that was taken, where it was left open (port 0).
    pub(crate) fn address(&self, has_tls: bool) -> io::Result<String> {
        let scheme = if has_tls { "https" } else { "http" };
        match self {
            Self::Tcp(listener) => Ok(format!("{scheme}://{}", listener.local_addr()?)),
            Self::Unix(_, path) => Ok(format!("unix:{}", path.display())),
        }
    }

    /// Whether browsers on this machine reach it, and nobody else does.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .is_ok_and(|address| address.ip().is_loopback()),
            Self::Unix(..) => false,
        }
    }

    /// The next client; `None`: it is gone again.
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
            Err(err) if is_of_client(&err) => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// Whether the client is to blame, not this machine.
fn is_of_client(err: &io::Error) -> bool {
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
            // Nobody can be told that it stays.
            let _ = fs::remove_file(path);
        }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wants {
    ToRead,
    ToWrite,
}

/// One client, from its connection to the end of its answer.
pub(crate) struct Connection {
    stream: ClientStream,
    began: Instant,
    /// Whether a page of another site may not ask by way of a browser here.
    is_local: bool,
    state: Talk,
}

enum Talk {
    Asks(Vec<u8>),
    Hears {
        head: Vec<u8>,
        body: Arc<[u8]>,
        written: usize,
        /// Whether the client may still be sending what nobody will read.
        may_go_on: bool,
    },
    /// Has its answer, which a system would take back from one that is hung up on while
    /// it still sends. So much more of that is read.
    Ends(usize),
}

impl Connection {
    pub(crate) fn new(stream: ClientStream, is_local: bool) -> Self {
        Self {
            stream,
            began: Instant::now(),
            is_local,
            state: Talk::Asks(Vec::new()),
        }
    }

    pub(crate) const fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn wants(&self) -> Wants {
        match self.state {
            Talk::Asks(_) | Talk::Ends(_) if self.stream.must_send() => Wants::ToWrite,
            Talk::Asks(_) | Talk::Ends(_) => Wants::ToRead,
            Talk::Hears { .. } => Wants::ToWrite,
        }
    }

    /// Whether it has not got its answer: it is not who has to leave first.
    pub(crate) const fn has_answer(&self) -> bool {
        matches!(self.state, Talk::Ends(_))
    }

    /// Reads and writes what can be at once. Returns whether there is more to come.
    pub(crate) fn go_on(&mut self, answers: &dyn Answers, web: &mut Web) -> bool {
        loop {
            let done = match &mut self.state {
                Talk::Asks(_) => self.hear(answers, web),
                Talk::Hears { .. } => self.write(),
                Talk::Ends(left) => {
                    // Once, because some send faster than is read.
                    return match self.stream.read(&mut [0; 16 << 10]) {
                        Ok(bytes) => {
                            *left = left.saturating_sub(bytes);
                            bytes > 0 && *left > 0
                        }
                        Err(err) => is_to_go_on(&err),
                    };
                }
            };
            match done {
                Ok(true) => {}
                Ok(false) => return false,
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(err) => return is_to_go_on(&err),
            }
        }
    }

    /// Reads, and has an answer made where all is heard. Returns whether to go on.
    fn hear(&mut self, answers: &dyn Answers, web: &mut Web) -> io::Result<bool> {
        let Talk::Asks(heard) = &mut self.state else {
            return Ok(true);
        };
        let mut part = [0; 2 << 10];
        match self.stream.read(&mut part)? {
            0 => return Ok(false),
            bytes => heard.extend_from_slice(&part[..bytes]),
        }
        if let Some(answer) = answered(heard, self.is_local, answers, web) {
            self.state = answer;
        }
        Ok(true)
    }

    /// Writes what there is to write. Returns whether to go on.
    fn write(&mut self) -> io::Result<bool> {
        let Talk::Hears {
            head,
            body,
            written,
            may_go_on,
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
            let goes_on = *may_go_on;
            self.state = Talk::Ends(UNHEARD);
            return Ok(goes_on);
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

/// Whether nothing is wrong but that there is nothing more to do now.
fn is_to_go_on(err: &io::Error) -> bool {
    matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The answer to what was heard so far; `None` where more is to come.
fn answered(heard: &[u8], is_local: bool, answers: &dyn Answers, web: &mut Web) -> Option<Talk> {
    let (answer, has_body, may_go_on) = match hear(heard, is_local) {
        Heard::Part if heard.len() < LONGEST => return None,
        Heard::Part => (Answer::plain(431, "the request is too long"), true, true),
        Heard::Refused(status, why) => (Answer::plain(status, why), true, true),
        Heard::Asked(asked, has_body) => {
            let answer = match web.admits(asked.authorization.as_deref()) {
                Admission::Granted => answers.answer(&asked),
                Admission::Refused => Answer::plain(401, "name and password are asked for"),
                Admission::Later => Answer::plain(
                    429,
                    "other passwords are tried already; ask again in a second",
                ),
            };
            (answer, has_body, false)
        }
    };
    Some(Talk::Hears {
        head: answer.head(),
        body: if has_body {
            answer.body
        } else {
            Arc::default()
        },
        written: 0,
        may_go_on,
    })
}
