//! S3 server: `moto[server]`, a Python program.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Limit that detects a hang, not an expected duration. It is therefore generous.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Server with a bucket `latency`.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Returns `None`, and prints the reason, if this machine lacks a server.
    pub(crate) fn start() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new("moto_server");
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            println!("skipped: no moto_server on the PATH (pip install 'moto[server]')");
            return None;
        };
        let mut server = Self { child, port };
        let began = Instant::now();
        // Before the server listens, a connection may be refused, or connect to its own socket.
        let answers = |line: io::Result<String>| line.is_ok_and(|line| line.starts_with("HTTP/"));
        while !answers(server.try_ask("PUT", "/latency", &[])) {
            if let Some(status) = server.child.try_wait().unwrap() {
                println!(
                    "skipped: moto_server ends at once ({status}); does it have its [server]?"
                );
                return None;
            }
            assert!(began.elapsed() < DEADLINE, "moto_server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// Returns the response to a request with this body, which may be empty.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> String {
        self.try_ask(method, path, body).unwrap()
    }

    fn try_ask(&self, method: &str, path: &str, body: &[u8]) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )?;
        stream.write_all(body)?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Configures a program for this server.
    pub(crate) fn serve(&self, command: &mut Command) {
        command
            .env("AWS_ACCESS_KEY_ID", "of-a-test")
            .env("AWS_SECRET_ACCESS_KEY", "of-a-test")
            .env("AWS_REGION", "us-east-1")
            .env(
                "AWS_ENDPOINT_URL",
                format!("http://127.0.0.1:{}", self.port),
            );
    }
}
