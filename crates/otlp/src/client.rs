//! One request and its outcome.
//!
//! `ureq` blocks, works without an executor, and has configurable limits. Redirects, proxies and
//! kept connections are off: neither a response of a collector nor the environment may send data to
//! another address.

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

/// Maximum size in bytes of a body that is read: a partial success or an error contains one
/// sentence.
const MAX_BODY_BYTES: u64 = 16 << 10;
/// Maximum size in bytes of the head of an answer.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum length in characters of a collector's sentence that is repeated.
const MAX_SENTENCE: usize = 200;

/// Outcome of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PostOutcome {
    /// Accepted, except for this number of items, with the reason.
    Taken(u64, Option<String>),
    /// May be accepted later, after this time if the collector named one.
    Later(Option<Duration>, String),
    /// Will never be accepted.
    Refused(String),
}

/// Client of a collector.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    target: OtlpTarget,
}

impl Client {
    /// # Errors
    ///
    /// Returns an error for an encrypted connection without trusted authorities.
    pub(crate) fn new(target: OtlpTarget) -> Result<Self, TargetError> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0)
            .max_response_header_size(MAX_HEAD_BYTES)
            .input_buffer_size(MAX_HEAD_BYTES)
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

    /// Posts the result of `packed`, within `patience`.
    pub(crate) fn post(&self, to: &Uri, body: &[u8], patience: Duration) -> PostOutcome {
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
            Err(err) => PostOutcome::Later(None, sentence(&err.to_string())),
        }
    }
}

/// Returns the message in its encoded and compressed form, as it is sent and stored.
pub(crate) fn packed(message: &impl prost::Message) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let done = packed.write_all(&message.encode_to_vec());
    let done = done.and_then(|()| packed.finish());
    done.expect("a write to memory succeeds")
}

/// Returns the trusted authorities: from the named file, or the authorities of the system.
fn authorities(file: Option<&str>) -> Result<RootCerts, TargetError> {
    let (certificates, place): (Vec<Certificate<'static>>, String) = match file {
        Some(path) => {
            let read = laggard_files::read_bytes(path.as_ref()).map_err(|source| {
                TargetError::Certificates {
                    path: path.into(),
                    source,
                }
            })?;
            let items = parse_pem(&read).filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            });
            (items.collect(), format!("`{path}`"))
        }
        None => {
            let loaded = rustls_native_certs::load_native_certs().certs;
            let certificates = loaded
                .iter()
                .map(|certificate| Certificate::from_der(certificate).to_owned());
            (certificates.collect(), "the system".into())
        }
    };
    if certificates.is_empty() {
        Err(TargetError::NoAuthority(place))
    } else {
        Ok(RootCerts::new_with_certs(&certificates))
    }
}

fn outcome(mut response: Response<Body>) -> PostOutcome {
    let status = response.status().as_u16();
    let after = after(&response);
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
    let is_protobuf = kind.as_deref().is_none_or(|kind| kind.contains("protobuf"));
    let is_json = kind.as_deref().is_some_and(|kind| kind.contains("json"));
    // The status is sufficient. The rest of the response is optional.
    let mut body = Vec::new();
    let _ = response
        .body_mut()
        .as_reader()
        .take(MAX_BODY_BYTES)
        .read_to_end(&mut body);
    match status {
        200 if is_protobuf => {
            let partial = proto::Response::decode(&*body)
                .unwrap_or_default()
                .partial_success;
            let partial = partial.unwrap_or_default();
            let why = (!partial.error_message.is_empty()).then(|| sentence(&partial.error_message));
            PostOutcome::Taken(partial.rejected.try_into().unwrap_or(0), why)
        }
        200..=299 if is_protobuf || is_json => PostOutcome::Taken(0, None),
        // A portal or the greeting of a proxy: accepting it would lose the data.
        200..=299 => {
            let kind = sentence(&kind.unwrap_or_default());
            PostOutcome::Later(
                None,
                format!("answers {status} with `{kind}`, so it is not a collector"),
            )
        }
        429 | 502 | 503 | 504 => PostOutcome::Later(after, reason(status, is_protobuf, &body)),
        _ => PostOutcome::Refused(reason(status, is_protobuf, &body)),
    }
}

fn reason(status: u16, is_protobuf: bool, body: &[u8]) -> String {
    let text = if is_protobuf {
        proto::Status::decode(body)
            .map(|text| text.message)
            .unwrap_or_default()
    } else {
        String::from_utf8_lossy(body).trim().to_owned()
    };
    if text.is_empty() {
        format!("answers {status}")
    } else {
        format!("answers {status}: {}", sentence(&text))
    }
}

/// Returns the requested wait: seconds, or until a date (RFC 9110, section 10.2.3).
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

/// Returns a shortened text of a foreign source without control characters.
fn sentence(text: &str) -> String {
    let line: String = text.chars().take(MAX_SENTENCE).collect();
    laggard_model::printable(&line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
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
