//! Running `laggard serve` that plays a script, for tests of its exported data.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::scripted;

/// A limit against hanging, not an expectation: generous on purpose.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// An answer may be so old.
pub(crate) const FRESH: Duration = Duration::from_millis(1_100);

/// A running `serve`; ended when it is dropped.
pub(crate) struct Serve {
    child: Child,
    pub(crate) address: String,
}

impl Serve {
    /// Starts it with `script` and `options`. The shell words `shell` come first, such as `ulimit
    /// -f 1`.
    pub(crate) fn start(dir: &Path, script: &str, options: &[&str], shell: &str) -> Self {
        let program = assert_cmd::cargo::cargo_bin("laggard");
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("{shell} exec \"$@\""))
            .arg("sh")
            .arg(program)
            .args(["serve", "--listen=127.0.0.1:0"])
            .arg(scripted::backend(dir, script))
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines_printed: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
        let lines_printed = lines_printed.join("\n");
        let Some((_, rest)) = lines_printed.split_once("http://") else {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!(
                "{lines_printed}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        let address = rest.split(": ").next().unwrap().to_owned();
        Self { child, address }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        get(&self.address, path)
    }

    /// Asks until `is_there` is in the answer, which is returned.
    pub(crate) fn until(&self, path: &str, is_there: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let text = self.get(path);
            if is_there(&text) {
                return text;
            }
            assert!(begin.elapsed() < DEADLINE, "in {path}:\n{text}");
            sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(done.success());
    }

    /// Returns the exit code and the messages.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.signal("-TERM");
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the value of the only series that starts with `begin`.
pub(crate) fn value(text: &str, begin: &str) -> Option<f64> {
    let mut matches = text.lines().filter(|line| line.starts_with(begin));
    let line = matches.next()?;
    assert!(matches.next().is_none(), "{begin} is there twice:\n{text}");
    line[begin.len()..].split_whitespace().next()?.parse().ok()
}

/// Returns a server's response, with its head.
pub(crate) fn get(address: &str, path: &str) -> String {
    String::from_utf8(get_bytes(address, path, "")).unwrap()
}

/// Returns the answer as bytes. The request has additional header lines.
pub(crate) fn get_bytes(address: &str, path: &str, headers: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // HTTP/1.0 prevents chunked responses.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}
