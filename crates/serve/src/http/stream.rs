//! What a client is read from and written to: in the clear, or by TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

/// Times that a client is read from until others have their turn, where what it sends
/// says nothing.
const TURNS: usize = 16;
/// Bytes that wait to be encrypted or sent, at most, of each of two sorts.
const WAITING: usize = 16 << 10;

/// A socket that nobody waits for.
pub(crate) trait ClientSocket: Read + Write + AsFd + Send {
    /// Says that no more will be written.
    fn shut(&self) -> io::Result<()>;
}

impl ClientSocket for TcpStream {
    fn shut(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl ClientSocket for UnixStream {
    fn shut(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A client's connection.
pub(super) struct ClientStream {
    socket: Box<dyn ClientSocket>,
    tls: Option<Box<ServerConnection>>,
}

impl ClientStream {
    /// With whom to speak TLS, where `tls` says how.
    pub(super) fn new(
        socket: Box<dyn ClientSocket>,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let tls = match tls {
            Some(config) => {
                let mut new = ServerConnection::new(config).map_err(io::Error::other)?;
                new.set_buffer_limit(Some(WAITING));
                Some(Box::new(new))
            }
            None => None,
        };
        Ok(Self { socket, tls })
    }

    /// Whether something waits to be sent, whatever else is to be done.
    pub(super) fn must_send(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// All was written: sends what waits, and says that this is the end.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        self.flush()?;
        self.socket.shut()
    }
}

impl Read for ClientStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.socket.read(buffer);
        };
        for _ in 0..TURNS {
            // The handshake has its own to say; it goes on when the client has read it.
            while tls.wants_write() {
                tls.write_tls(&mut self.socket)?;
            }
            match tls.reader().read(buffer) {
                Err(err) if err.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            if let Err(err) = tls.process_new_packets() {
                // Why, in the words of TLS. Whether it arrives changes nothing.
                let _ = tls.write_tls(&mut self.socket);
                return Err(io::Error::new(ErrorKind::InvalidData, err));
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Write for ClientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        match &mut self.tls {
            Some(tls) => tls.writer().write(bytes),
            None => self.socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
