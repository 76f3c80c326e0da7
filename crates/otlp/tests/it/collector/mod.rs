//! Test collector with scripted answers, which stores the requests.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;

/// Request.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    /// Decompressed body.
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
    /// True if it was answered with 200.
    pub(crate) is_taken: bool,
}

impl Post {
    pub(crate) fn header(&self, name: &str) -> &str {
        let header = self.headers.iter().find(|(key, _)| key == name);
        header.map_or("", |(_, value)| value)
    }
}

#[derive(Clone, Debug)]
enum Answer {
    Bytes(Vec<u8>),
    /// 200, followed by an endless body.
    Endless,
    /// No answer on an open connection.
    Silent,
}

#[derive(Debug)]
struct Shared {
    answer: Mutex<Answer>,
    posts: Mutex<Vec<Post>>,
    written: AtomicU64,
}

pub(crate) struct Collector {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

impl Collector {
    pub(crate) fn new(answer: &[u8]) -> Self {
        Self::with(
            bind("127.0.0.1:0".parse().unwrap()),
            Answer::Bytes(answer.into()),
        )
    }

    pub(crate) fn at(address: SocketAddr, answer: &[u8]) -> Self {
        Self::with(bind(address), Answer::Bytes(answer.into()))
    }

    pub(crate) fn endless() -> Self {
        Self::with(bind("127.0.0.1:0".parse().unwrap()), Answer::Endless)
    }

    pub(crate) fn silent() -> Self {
        Self::with(bind("127.0.0.1:0".parse().unwrap()), Answer::Silent)
    }

    fn with(listener: TcpListener, answer: Answer) -> Self {
        let shared = Arc::new(Shared {
            answer: Mutex::new(answer),
            posts: Mutex::default(),
            written: AtomicU64::new(0),
        });
        let address = listener.local_addr().unwrap().to_string();
        let theirs = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = theirs.clone();
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, shared }
    }

    /// Sets the answer to later requests.
    pub(crate) fn answer(&self, answer: &[u8]) {
        *self.shared.answer.lock().unwrap() = Answer::Bytes(answer.into());
    }

    pub(crate) fn posts(&self) -> Vec<Post> {
        self.shared.posts.lock().unwrap().clone()
    }

    /// Returns the bytes of answers that clients have read.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }
}

fn bind(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).unwrap()
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    let Some(mut post) = read(&mut stream) else {
        return;
    };
    let answer = shared.answer.lock().unwrap().clone();
    post.is_taken = matches!(&answer, Answer::Bytes(bytes) if bytes.starts_with(b"HTTP/1.1 200"));
    shared.posts.lock().unwrap().push(post);
    match answer {
        Answer::Bytes(bytes) => drop(stream.write_all(&bytes)),
        Answer::Silent => thread::sleep(Duration::from_secs(600)),
        Answer::Endless => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
                        Content-Length: 99999999999\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            let much = [0; 64 << 10];
            while let Ok(count) = stream.write(&much) {
                shared.written.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }
}

fn read(stream: &mut TcpStream) -> Option<Post> {
    let mut received = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        received.extend(&part[..count]);
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(end) = request.parse(&received).unwrap() else {
            continue;
        };
        let headers: Vec<(String, String)> = request
            .headers
            .iter()
            .map(|line| {
                let value = String::from_utf8(line.value.into()).unwrap();
                (line.name.to_lowercase(), value)
            })
            .collect();
        assert_eq!(request.method, Some("POST"));
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.expect("no length").1.parse().unwrap();
        let path = request.path.unwrap().to_owned();
        while received.len() < end + length {
            let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
            received.extend(&part[..count]);
        }
        let mut body = Vec::new();
        GzDecoder::new(&received[end..])
            .read_to_end(&mut body)
            .unwrap();
        return Some(Post {
            path,
            headers,
            body,
            at: Instant::now(),
            is_taken: false,
        });
    }
}
