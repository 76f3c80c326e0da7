//! One request, and what became of it.
//!
//! `ureq` blocks, has no executor, and takes no more than it is told to. It is asked for
//! no redirect, no proxy and no connection that is kept: what a collector answers, or an
//! environment says, must not lead elsewhere what was to be sent to one address.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use prost::Message as _;
use ureq::http::{Response, Uri, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

use crate::proto;
use crate::target::{OtlpTarget, TargetError};

/// What is read of an answer, bytes: a partial success or an error has a sentence.
const ANSWER: u64 = 16 << 10;
/// Of the head of an answer, bytes.
const HEAD: usize = 16 << 10;
/// Letters of a sentence of a collector that are repeated.
const SENTENCE: usize = 200;

/// What became of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Posted {
    /// It was taken, but for so much of it, and why that was not.
    Taken(u64, Option<String>),
    /// It may be taken later, and not before that long, where it is said.
    Later(Option<Duration>, String),
    /// It will never be taken.
    Refused(String),
}

/// Who asks.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    target: OtlpTarget,
}

impl Client {
    /// # Errors
    /// When it is to be encrypted, and nobody is trusted.
    pub(crate) fn new(target: OtlpTarget) -> Result<Self, TargetError> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0)
            .max_response_header_size(HEAD)
            .input_buffer_size(HEAD)
            .user_agent(concat!("laggard/", env!("CARGO_PKG_VERSION")));
        let config = if target.is_encrypted() {
            config.tls_config(
                TlsConfig::builder()
                    .provider(TlsProvider::Rustls)
                    .unversioned_rustls_crypto_provider(Arc::new(
                        rustls::crypto::ring::default_provider(),
                    ))
                    .root_certs(authorities(target.certificates.as_deref())?)
                    .build(),
            )
        } else {
            config
        };
        let agent = config.build().new_agent();
        Ok(Self { agent, target })
    }

    pub(crate) fn target(&self) -> &OtlpTarget {
        &self.target
    }

    /// Posts what `packed` made, within `patience`.
    pub(crate) fn post(&self, to: &Uri, body: &[u8], patience: Duration) -> Posted {
        let mut request = self.agent.post(to);
        for (name, value) in &self.target.headers {
            request = request.header(name, value);
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::CONTENT_ENCODING, "gzip");
        let request = request.config().timeout_global(Some(patience)).build();
        match request.send(body) {
            Ok(response) => outcome(response),
            Err(err) => Posted::Later(None, sentence(&err.to_string())),
        }
    }
}

/// As it is sent, and kept.
pub(crate) fn packed(message: &impl prost::Message) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let done = packed.write_all(&message.encode_to_vec());
    let done = done.and_then(|()| packed.finish());
    done.expect("memory is written to")
}

/// Whom to trust: the file that is named, or the system's.
fn authorities(file: Option<&str>) -> Result<RootCerts, TargetError> {
    let (found, place): (Vec<Certificate<'static>>, String) = match file {
        Some(path) => {
            let read = laggard_files::read_bytes(path.as_ref()).map_err(|source| {
                TargetError::Certificates {
                    path: path.into(),
                    source,
                }
            })?;
            let items = parse_pem(&read).filter_map(|item| match item {
                Ok(PemItem::Certificate(one)) => Some(one),
                _ => None,
            });
            (items.collect(), format!("`{path}`"))
        }
        None => {
            let loaded = rustls_native_certs::load_native_certs().certs;
            let found = loaded
                .iter()
                .map(|one| Certificate::from_der(one).to_owned());
            (found.collect(), "the system".into())
        }
    };
    if found.is_empty() {
        Err(TargetError::NoAuthority(place))
    } else {
        Ok(RootCerts::new_with_certs(&found))
    }
}

fn outcome(mut response: Response<Body>) -> Posted {
    let status = response.status().as_u16();
    let after = after(&response);
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
    let is_protobuf = kind.as_deref().is_none_or(|kind| kind.contains("protobuf"));
    let is_json = kind.as_deref().is_some_and(|kind| kind.contains("json"));
    // The status says it all; what can be read of the rest is read.
    let mut body = Vec::new();
    let _ = response
        .body_mut()
        .as_reader()
        .take(ANSWER)
        .read_to_end(&mut body);
    match status {
        200 if is_protobuf => {
            let partial = proto::Response::decode(&*body)
                .unwrap_or_default()
                .partial_success;
            let partial = partial.unwrap_or_default();
            let why = (!partial.error_message.is_empty()).then(|| sentence(&partial.error_message));
            Posted::Taken(partial.rejected.try_into().unwrap_or(0), why)
        }
        200..=299 if is_protobuf || is_json => Posted::Taken(0, None),
        // A portal, a proxy's greeting: to believe it would lose what was sent.
        200..=299 => {
            let kind = sentence(&kind.unwrap_or_default());
            Posted::Later(
                None,
                format!("answers {status} as `{kind}`, so it is no collector"),
            )
        }
        429 | 502 | 503 | 504 => Posted::Later(after, reason(status, is_protobuf, &body)),
        _ => Posted::Refused(reason(status, is_protobuf, &body)),
    }
}

fn reason(status: u16, is_protobuf: bool, body: &[u8]) -> String {
    let said = if is_protobuf {
        proto::Status::decode(body)
            .map(|said| said.message)
            .unwrap_or_default()
    } else {
        String::from_utf8_lossy(body).trim().to_owned()
    };
    if said.is_empty() {
        format!("answers {status}")
    } else {
        format!("answers {status}: {}", sentence(&said))
    }
}

/// How long to wait: seconds, or until a date (RFC 9110, section 10.2.3).
fn after(response: &Response<Body>) -> Option<Duration> {
    let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    read_after(text.trim(), SystemTime::now())
}

fn read_after(text: &str, now: SystemTime) -> Option<Duration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let date: Timestamp = date.timestamp();
    Some(
        SystemTime::from(date)
            .duration_since(now)
            .unwrap_or_default(),
    )
}

/// What somebody else says, short, and with nothing in it that a terminal obeys.
fn sentence(text: &str) -> String {
    let line: String = text.chars().take(SENTENCE).collect();
    laggard_model::printable(&line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_come_again_is_read_as_seconds_and_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let read = |text| read_after(text, now).map(|time| time.as_secs());

        assert_eq!(read("120"), Some(120));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(read("99999999999999999999999"), Some(u64::MAX));
        for text in ["", "-1", "soon", "1.5"] {
            assert_eq!(read(text), None, "for `{text}`");
        }
    }
}
