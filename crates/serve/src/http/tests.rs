//! Tests with normal, slow and hostile clients.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;

/// Limit that detects a hang, not an expected duration. It is therefore generous.
const DEADLINE: Duration = Duration::from_secs(60);

/// Answers with the path, and with a large body on request.
struct Echo(Arc<[u8]>);

impl Answers for Echo {
    fn answer(&self, request: &HttpRequest) -> Answer {
        match request.path.as_str() {
            "/large" => Answer {
                status: 200,
                kind: BodyKind::Plain,
                body: self.0.clone(),
            },
            path => Answer::plain(200, path),
        }
    }
}

/// Starts a server that runs until the test ends.
fn server() -> SocketAddr {
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let Listener::Tcp(socket) = &listener else {
        unreachable!("it listens on TCP")
    };
    let address = socket.local_addr().unwrap();
    let body = vec![b'x'; 8 << 20].into();
    std::thread::spawn(move || serve(&listener, &Echo(body), &mut Web::default()));
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn request_gets_a_response_and_the_connection_ends() {
    let text = get(server(), "/x?y=1");

    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Length: 3\r\n"), "{head}");
    assert_eq!(body, "/x\n");
}

#[test]
fn incomplete_requests_do_not_block_other_clients() {
    let address = server();
    // Below the limit of connections per second, so that this test does not wait.
    let slow: Vec<TcpStream> = (0..MAX_CONNECTIONS + 20)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(b"GET / HT").unwrap();
            stream
        })
        .collect();

    assert!(get(address, "/me").ends_with("/me\n"));

    // The first connection was closed to make room for the last.
    let mut first = &slow[0];
    assert!(matches!(first.read(&mut [0; 8]), Ok(0) | Err(_)));
}

#[test]
fn clients_that_do_not_read_share_one_buffer_and_do_not_block_others() {
    let address = server();
    let clients: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
            stream
        })
        .collect();

    assert!(get(address, "/me").ends_with("/me\n"));

    let mut late = &clients[3];
    let mut whole = Vec::new();
    late.read_to_end(&mut whole).unwrap();
    assert!(whole.len() > 8 << 20, "{} bytes", whole.len());
}

#[test]
fn endless_request_is_refused_before_it_is_in_memory() {
    let address = server();
    let mut stream = connect(address);
    let line = format!("X-Long: {}\r\n", "x".repeat(4 << 10));
    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    // The server hangs up during this loop, as expected.
    for _ in 0..1_000 {
        if stream.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    let mut text = Vec::new();
    let read = stream.read_to_end(&mut text);

    let refused = text.starts_with(b"HTTP/1.1 431") || read.is_err();
    assert!(refused, "{}", String::from_utf8_lossy(&text));
    assert!(get(address, "/me").ends_with("/me\n"));
}

/// Some systems discard a response if the connection is closed while the client still sends.
#[test]
fn client_that_still_sends_receives_the_reason_of_the_refusal() {
    let address = server();
    for _ in 0..20 {
        let mut stream = connect(address);
        let request = format!("POST / HTTP/1.1\r\n\r\n{}", "x".repeat(64 << 10));
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();

        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();

        assert!(text.starts_with("HTTP/1.1 405"), "{text}");
    }
}

#[test]
fn client_that_sends_forever_is_cut_off_and_does_not_block_others() {
    let address = server();
    let endless: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = connect(address);
                let _ = stream.write_all(b"POST / HTTP/1.1\r\n\r\n");
                let part = [b'x'; 64 << 10];
                while stream.write_all(&part).is_ok() {}
            })
        })
        .collect();

    for _ in 0..10 {
        assert!(get(address, "/me").ends_with("/me\n"));
    }
    for client in endless {
        client.join().unwrap();
    }
}

#[test]
fn unix_socket_responds_and_a_stale_one_is_replaced() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("s");
    // The listener is dropped without removing its socket.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listener = Listener::unix(&path).unwrap();
    let taken = Listener::unix(&path);
    std::thread::spawn(move || serve(&listener, &Echo(Arc::default()), &mut Web::default()));

    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /u HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();

    assert!(text.ends_with("/u\n"), "{text}");
    assert!(taken.is_err(), "two listen on one socket");
}
