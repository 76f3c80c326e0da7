//! What a client asks, and how an answer begins.

use std::net::IpAddr;

use super::Answer;
pub(crate) use super::accept::SeriesFormat;

/// Lines of a request's head, at most.
const MOST_LINES: usize = 64;

/// What is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Asked {
    /// Without what follows a question mark.
    pub(crate) path: String,
    /// Format in which the client prefers series.
    pub(crate) format: SeriesFormat,
    /// By what name and password, if any.
    pub(crate) authorization: Option<String>,
}

/// What an answer's body is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BodyKind {
    Plain,
    Html,
    Json,
    Series(SeriesFormat),
}

/// What was heard so far.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// Less than a whole request.
    Part,
    /// A request, and whether the answer's body is wanted.
    Asked(Asked, bool),
    /// What is not answered: the status, and why.
    Refused(u16, &'static str),
}

/// Reads a request. Where `is_local`, only names of this machine are taken for its
/// own: else a page of any site could have a browser here read what we know.
pub(crate) fn hear(bytes: &[u8], is_local: bool) -> Heard {
    let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Heard::Part,
        Err(httparse::Error::TooManyHeaders) => {
            return Heard::Refused(431, "the request has too many lines");
        }
        Err(_) => return Heard::Refused(400, "this is no request of HTTP/1.1"),
    }
    let has_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Heard::Refused(405, "only GET and HEAD are answered"),
    };
    let values = |name: &'static str| {
        let lines = request.headers.iter();
        lines
            .filter(move |line| line.name.eq_ignore_ascii_case(name))
            .map(|line| std::str::from_utf8(line.value).unwrap_or_default())
    };
    if is_local && !values("host").all(is_of_this_machine) {
        return Heard::Refused(403, "ask by the address 127.0.0.1 or as localhost");
    }
    let path = request.path.unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let accepted: Vec<&str> = values("accept").collect();
    let asked = Asked {
        path: path.into(),
        format: SeriesFormat::preferred_by(&accepted.join(",")),
        authorization: values("authorization").next().map(str::to_owned),
    };
    Heard::Asked(asked, has_body)
}

/// Whether `host`, with a port or without, is this machine's address or its own name
/// for itself.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|letter| letter.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

impl BodyKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::Series(format) => format.content_type(),
        }
    }
}

impl Answer {
    /// How it begins.
    pub(crate) fn head(&self) -> Vec<u8> {
        let words = match self.status {
            200 => "OK",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            500 => "Internal Server Error",
            _ => "Bad Request",
        };
        let more = match (self.status, self.kind) {
            (401, _) => "WWW-Authenticate: Basic realm=\"laggard\", charset=\"UTF-8\"\r\n",
            (429, _) => "Retry-After: 1\r\n",
            (_, BodyKind::Html) => "Refresh: 10\r\n",
            (_, BodyKind::Plain | BodyKind::Json | BodyKind::Series(_)) => "",
        };
        format!(
            "HTTP/1.1 {} {words}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Connection: close\r\nCache-Control: no-store\r\nVary: Accept\r\n\
             X-Content-Type-Options: nosniff\r\n{more}\
             Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
             frame-ancestors 'none'\r\n\r\n",
            self.status,
            self.kind.name(),
            self.body.len()
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Heard {
        hear(text.as_bytes(), true)
    }

    #[test]
    fn a_request_is_heard_when_it_is_whole() {
        let whole = "GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:9477\r\n\r\n";
        let asked = Asked {
            path: "/metrics".into(),
            format: SeriesFormat::Text,
            authorization: None,
        };

        for cut in 0..whole.len() {
            assert_eq!(heard(&whole[..cut]), Heard::Part, "{cut} bytes");
        }
        assert_eq!(heard(whole), Heard::Asked(asked.clone(), true));
        assert_eq!(
            heard(&whole.replace("GET", "HEAD")),
            Heard::Asked(asked, false)
        );
    }

    #[test]
    fn several_accept_lines_are_one_list() {
        let request = "GET /metrics HTTP/1.1\r\nAccept: text/plain;q=0.5\r\n\
                       accept: application/openmetrics-text;version=1.0.0\r\n\r\n";

        let Heard::Asked(asked, _) = heard(request) else {
            panic!("it is whole")
        };

        assert_eq!(asked.format, SeriesFormat::OpenMetrics);
    }

    #[test]
    fn what_is_no_request_of_ours_is_refused() {
        let status = |text: &str| match heard(text) {
            Heard::Refused(status, _) => status,
            other => panic!("{other:?}"),
        };

        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(status("\0\0\0\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/9\r\n\r\n"), 400);
        let many = "X: 1\r\n".repeat(MOST_LINES + 1);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
    }

    #[test]
    fn a_page_of_another_site_cannot_ask_by_way_of_a_browser_here() {
        let asked_as = |host: &str| {
            let heard = heard(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            !matches!(heard, Heard::Refused(403, _))
        };

        for own in [
            "127.0.0.1:9477",
            "localhost",
            "LOCALHOST:1",
            "[::1]:9477",
            "[::1]",
            "10.0.0.7:80",
        ] {
            assert!(asked_as(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:9477",
            "localhost.evil.example",
            "",
            " ",
        ] {
            assert!(!asked_as(foreign), "{foreign}");
        }
        let no_text = hear(b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", true);
        assert!(matches!(no_text, Heard::Refused(403, _)), "{no_text:?}");
        let remote = hear(b"GET / HTTP/1.1\r\nHost: robot-7:9477\r\n\r\n", false);
        assert!(matches!(remote, Heard::Asked(..)), "{remote:?}");
    }
}
