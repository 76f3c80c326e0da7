//! One client, and where clients come from.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::request::{Heard, hear};
use super::{Answer, Answers};

/// Bytes of a request that are read, at most.
const LONGEST: usize = 8 << 10;
/// Who may connect to a socket of ours: its owner and its group.
const MODE: u32 = 0o660;

/// A connection's socket.
pub(crate) trait ClientStream: Read + Write + AsFd + Send {}

impl<T: Read + Write + AsFd + Send> ClientStream for T {}

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
    pub(crate) fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
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
    pub(crate) fn accept(&self) -> io::Result<Option<Box<dyn ClientStream>>> {
        let accepted: io::Result<Box<dyn ClientStream>> = match self {
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
    stream: Box<dyn ClientStream>,
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
    },
}

impl Connection {
    pub(crate) fn new(stream: Box<dyn ClientStream>, is_local: bool) -> Self {
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

    pub(crate) const fn wants(&self) -> Wants {
        match self.state {
            Talk::Asks(_) => Wants::ToRead,
            Talk::Hears { .. } => Wants::ToWrite,
        }
    }

    /// Reads and writes what can be at once. Returns whether there is more to come.
    pub(crate) fn go_on(&mut self, answers: &dyn Answers) -> bool {
        if let Talk::Asks(heard) = &mut self.state {
            let mut part = [0; 2 << 10];
            let answer = loop {
                match self.stream.read(&mut part) {
                    Ok(0) => return false,
                    Ok(bytes) => heard.extend_from_slice(&part[..bytes]),
                    Err(err) if err.kind() == ErrorKind::Interrupted => continue,
                    Err(err) => return err.kind() == ErrorKind::WouldBlock,
                }
                if let Some(answer) = answered(heard, self.is_local, answers) {
                    break answer;
                }
            };
            self.state = answer;
        }
        self.write()
    }

    fn write(&mut self) -> bool {
        let Talk::Hears {
            head,
            body,
            written,
        } = &mut self.state
        else {
            return true;
        };
        loop {
            let left = match head.get(*written..) {
                Some(left) if !left.is_empty() => left,
                _ => &body[*written - head.len()..],
            };
            if left.is_empty() {
                return false;
            }
            match self.stream.write(left) {
                Ok(0) => return false,
                Ok(bytes) => *written += bytes,
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(err) => return err.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The answer to what was heard so far; `None` where more is to come.
fn answered(heard: &[u8], is_local: bool, answers: &dyn Answers) -> Option<Talk> {
    let (answer, has_body) = match hear(heard, is_local) {
        Heard::Part if heard.len() < LONGEST => return None,
        Heard::Part => (Answer::plain(431, "the request is too long"), true),
        Heard::Refused(status, why) => (Answer::plain(status, why), true),
        Heard::Asked(asked, has_body) => (answers.answer(&asked), has_body),
    };
    Some(Talk::Hears {
        head: answer.head(),
        body: match has_body {
            true => answer.body,
            false => Arc::default(),
        },
        written: 0,
    })
}
