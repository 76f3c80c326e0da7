//! Requests of clients, and the head of a response.

use std::net::IpAddr;

use super::Answer;
pub(crate) use super::accept::SeriesFormat;

/// Maximum number of header lines of a request.
const MAX_LINES: usize = 64;

/// Request of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HttpRequest {
    /// Without the query.
    pub(crate) path: String,
    /// Format of series that the client prefers.
    pub(crate) format: SeriesFormat,
    /// Name and password, if the client sent any.
    pub(crate) authorization: Option<String>,
}

/// Type of a response's body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BodyKind {
    Plain,
    Html,
    Json,
    Series(SeriesFormat),
}

/// Result of parsing the bytes that were received so far.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum ParsedRequest {
    Incomplete,
    /// Complete request; true if the client wants the body of the response.
    Complete(HttpRequest, bool),
    /// Refused request: status and reason.
    Refused(u16, &'static str),
}

/// Parses a request. If `is_local`, `Host` must be an IP address or `localhost`. Otherwise a page
/// of any site could make a browser on this machine read the metrics.
pub(crate) fn parse_request(bytes: &[u8], is_local: bool) -> ParsedRequest {
    let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return ParsedRequest::Incomplete,
        Err(httparse::Error::TooManyHeaders) => {
            return ParsedRequest::Refused(431, "the request has too many lines");
        }
        Err(_) => return ParsedRequest::Refused(400, "not an HTTP/1.1 request"),
    }
    let has_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return ParsedRequest::Refused(405, "only GET and HEAD are answered"),
    };
    let values = |name: &'static str| {
        let lines = request.headers.iter();
        lines
            .filter(move |line| line.name.eq_ignore_ascii_case(name))
            .map(|line| std::str::from_utf8(line.value).unwrap_or_default())
    };
    if is_local && !values("host").all(is_of_this_machine) {
        return ParsedRequest::Refused(403, "ask by the address 127.0.0.1 or as localhost");
    }
    let path = request.path.unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let accepted: Vec<&str> = values("accept").collect();
    let request = HttpRequest {
        path: path.into(),
        format: SeriesFormat::preferred_by(&accepted.join(",")),
        authorization: values("authorization").next().map(str::to_owned),
    };
    ParsedRequest::Complete(request, has_body)
}

/// Returns true if `host`, with or without a port, is an IP address or `localhost`.
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
    /// Returns the head of the response.
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

    fn parsed(text: &str) -> ParsedRequest {
        parse_request(text.as_bytes(), true)
    }

    #[test]
    fn request_is_parsed_when_it_is_complete() {
        let whole = "GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:9477\r\n\r\n";
        let request = HttpRequest {
            path: "/metrics".into(),
            format: SeriesFormat::Text,
            authorization: None,
        };

        for cut in 0..whole.len() {
            assert_eq!(
                parsed(&whole[..cut]),
                ParsedRequest::Incomplete,
                "{cut} bytes"
            );
        }
        assert_eq!(
            parsed(whole),
            ParsedRequest::Complete(request.clone(), true)
        );
        assert_eq!(
            parsed(&whole.replace("GET", "HEAD")),
            ParsedRequest::Complete(request, false)
        );
    }

    #[test]
    fn several_accept_lines_form_one_list() {
        let request = "GET /metrics HTTP/1.1\r\nAccept: text/plain;q=0.5\r\n\
                       accept: application/openmetrics-text;version=1.0.0\r\n\r\n";

        let ParsedRequest::Complete(request, _) = parsed(request) else {
            panic!("it is whole")
        };

        assert_eq!(request.format, SeriesFormat::OpenMetrics);
    }

    #[test]
    fn unsupported_request_is_refused() {
        let status = |text: &str| match parsed(text) {
            ParsedRequest::Refused(status, _) => status,
            other => panic!("{other:?}"),
        };

        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(status("\0\0\0\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/9\r\n\r\n"), 400);
        let many = "X: 1\r\n".repeat(MAX_LINES + 1);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
    }

    #[test]
    fn page_of_another_site_cannot_read_the_metrics_through_a_browser() {
        let asked_as = |host: &str| {
            let parsed = parsed(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            !matches!(parsed, ParsedRequest::Refused(403, _))
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
        let not_utf8 = parse_request(b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", true);
        assert!(
            matches!(not_utf8, ParsedRequest::Refused(403, _)),
            "{not_utf8:?}"
        );
        let remote = parse_request(b"GET / HTTP/1.1\r\nHost: robot-7:9477\r\n\r\n", false);
        assert!(matches!(remote, ParsedRequest::Complete(..)), "{remote:?}");
    }
}
