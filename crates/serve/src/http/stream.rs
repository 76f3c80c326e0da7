//! Connection of a client, plain or with TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

/// Maximum number of consecutive reads of a client whose data contains no message, before other
/// clients are served.
const MAX_READS: usize = 16;
/// Maximum number of bytes that wait to be encrypted, and that wait to be sent.
const MAX_BUFFERED: usize = 16 << 10;

/// Non-blocking socket.
pub(crate) trait ClientSocket: Read + Write + AsFd + Send {
    /// Closes the sending direction.
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

/// Connection of a client.
pub(super) struct ClientStream {
    socket: Box<dyn ClientSocket>,
    tls: Option<Box<ServerConnection>>,
}

impl ClientStream {
    /// Uses TLS if `tls` is given.
    pub(super) fn new(
        socket: Box<dyn ClientSocket>,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let tls = match tls {
            Some(config) => {
                let mut new = ServerConnection::new(config).map_err(io::Error::other)?;
                new.set_buffer_limit(Some(MAX_BUFFERED));
                Some(Box::new(new))
            }
            None => None,
        };
        Ok(Self { socket, tls })
    }

    /// Returns true if data waits to be sent, whatever the connection does next.
    pub(super) fn must_send(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends the rest of the data, then closes the sending direction.
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
        for _ in 0..MAX_READS {
            // The handshake has separate messages. It continues when the client has read them.
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
                // Sends the reason as a TLS alert. A failure is ignored.
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
