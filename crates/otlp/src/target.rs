//! Where to send, and as whom: what the user says, and what OpenTelemetry's environment
//! variables say.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use ureq::http::{HeaderName, HeaderValue, Uri};

/// How often metrics are sent where nothing else is said.
const EVERY: Duration = Duration::from_secs(60);
/// How long a request may take where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// What can be asked of either.
const LEAST: Duration = Duration::from_millis(100);

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// It is no address of a collector.
    #[error("`{0}` is no address of a collector; write it as http://localhost:4318")]
    NoUrl(String),
    /// It has a password, which would be said wherever it is named.
    #[error(
        "the address of the collector has a user or a password in it; put them into \
         OTEL_EXPORTER_OTLP_HEADERS (Authorization=Basic%20...)"
    )]
    Password,
    /// Another protocol is asked for.
    #[error(
        "OTEL_EXPORTER_OTLP_PROTOCOL asks for `{0}`, and only http/protobuf is spoken; \
         collectors take that at port 4318"
    )]
    Protocol(String),
    /// A list of names and values is none. The values may be secret.
    #[error("{0} is no list as in name=value,other=value, percent-encoded (at entry {1})")]
    List(&'static str, usize),
    /// A time is none.
    #[error("{0} is `{1}`; give a whole number of milliseconds, from 100 on")]
    Time(&'static str, String),
    /// Certificates that are to be trusted cannot be read.
    #[error("read the certificates in `{path}` (OTEL_EXPORTER_OTLP_CERTIFICATE)")]
    Certificates {
        /// Where they should be.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Nobody is trusted.
    #[error(
        "no certificate of an authority was found in {0}; install ca-certificates, or name a file \
         in OTEL_EXPORTER_OTLP_CERTIFICATE"
    )]
    NoAuthority(String),
}

/// Where to send, and how.
#[derive(Clone)]
pub struct OtlpTarget {
    pub(crate) metrics: Uri,
    pub(crate) traces: Uri,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) every: Duration,
    pub(crate) patience: Duration,
    /// A file of authorities to trust instead of the system's.
    pub(crate) certificates: Option<String>,
    said: Vec<(String, String)>,
}

// Headers are often passwords.
impl std::fmt::Debug for OtlpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtlpTarget")
            .field("metrics", &self.metrics)
            .field("traces", &self.traces)
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

impl OtlpTarget {
    /// The collector at `url`, or the one that the `environment` names; `None`: neither
    /// is said.
    ///
    /// # Errors
    /// When what is said is nothing that can be done.
    pub fn new(
        url: Option<&str>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TargetError> {
        let said = |name: &str| environment(name).filter(|value| !value.is_empty());
        let base = url.map(str::to_owned);
        let Some(base) = base.or_else(|| said("OTEL_EXPORTER_OTLP_ENDPOINT")) else {
            return Ok(None);
        };
        if let Some(protocol) = said("OTEL_EXPORTER_OTLP_PROTOCOL")
            && protocol != "http/protobuf"
        {
            return Err(TargetError::Protocol(protocol));
        }
        let base = base.trim_end_matches('/');
        let list = |name| said(name).map_or(Ok(Vec::new()), |text| pairs(name, &text));
        let mut about = list("OTEL_RESOURCE_ATTRIBUTES")?;
        if let Some(name) = said("OTEL_SERVICE_NAME") {
            about.retain(|(key, _)| key != "service.name");
            about.push(("service.name".into(), name));
        }
        let headers = "OTEL_EXPORTER_OTLP_HEADERS";
        Ok(Some(Self {
            metrics: address(base, "/v1/metrics")?,
            traces: address(base, "/v1/traces")?,
            headers: headers_of(headers, &list(headers)?)?,
            every: time("OTEL_METRIC_EXPORT_INTERVAL", &said)?.unwrap_or(EVERY),
            patience: time("OTEL_EXPORTER_OTLP_TIMEOUT", &said)?.unwrap_or(PATIENCE),
            certificates: said("OTEL_EXPORTER_OTLP_CERTIFICATE"),
            said: about,
        }))
    }

    /// What the user says of this machine and program.
    #[must_use]
    pub fn said(&self) -> &[(String, String)] {
        &self.said
    }

    /// Where to and how often, for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let how = if self.is_encrypted() {
            ""
        } else {
            ", unencrypted"
        };
        let every = match self.every.subsec_millis() {
            0 => format!("{} s", self.every.as_secs()),
            _ => format!("{} ms", self.every.as_millis()),
        };
        format!("{} every {every}{how}", self.metrics)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.metrics.scheme_str() == Some("https")
    }
}

fn address(base: &str, path: &str) -> Result<Uri, TargetError> {
    let no_url = || TargetError::NoUrl(base.into());
    let (_, rest) = base.split_once("://").ok_or_else(no_url)?;
    if rest
        .split('/')
        .next()
        .is_some_and(|host| host.contains('@'))
    {
        return Err(TargetError::Password);
    }
    if base.contains(['?', '#']) {
        return Err(no_url());
    }
    let uri: Uri = format!("{base}{path}").parse().map_err(|_| no_url())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    if is_http && uri.host().is_some_and(|host| !host.is_empty()) {
        Ok(uri)
    } else {
        Err(no_url())
    }
}

/// A list as in `a=1,b=2` (W3C Baggage, as OpenTelemetry's variables are).
fn pairs(name: &'static str, text: &str) -> Result<Vec<(String, String)>, TargetError> {
    let entries = text.split(',').map(str::trim).enumerate();
    entries
        .filter(|(_, entry)| !entry.is_empty())
        .map(|(index, entry)| {
            let wrong = || TargetError::List(name, index + 1);
            let (key, value) = entry.split_once('=').ok_or_else(wrong)?;
            let decoded = |text: &str| {
                let text = percent_decode_str(text.trim()).decode_utf8();
                text.map(std::borrow::Cow::into_owned).map_err(|_| wrong())
            };
            let (key, value) = (decoded(key)?, decoded(value)?);
            if key.is_empty() {
                Err(wrong())
            } else {
                Ok((key, value))
            }
        })
        .collect()
}

fn headers_of(
    name: &'static str,
    all: &[(String, String)],
) -> Result<Vec<(HeaderName, HeaderValue)>, TargetError> {
    let header = |(index, (key, value)): (usize, &(String, String))| {
        let wrong = || TargetError::List(name, index + 1);
        let key = HeaderName::try_from(key.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok((key, value))
    };
    all.iter().enumerate().map(header).collect()
}

fn time(
    name: &'static str,
    said: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Duration>, TargetError> {
    let Some(text) = said(name) else {
        return Ok(None);
    };
    let time = text.parse().ok().map(Duration::from_millis);
    match time.filter(|time| *time >= LEAST) {
        Some(time) => Ok(Some(time)),
        None => Err(TargetError::Time(name, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(
        url: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Option<OtlpTarget>, TargetError> {
        OtlpTarget::new(url, |name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_is_sent_unless_somebody_says_where_to_and_an_empty_variable_says_nothing() {
        assert!(target(None, &[]).unwrap().is_none());
        assert!(
            target(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn the_address_that_is_said_goes_before_that_of_the_environment() {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "https://env:4318/base/")];

        let said = target(Some("http://said:4318"), &variables)
            .unwrap()
            .unwrap();
        let of_environment = target(None, &variables).unwrap().unwrap();

        assert_eq!(said.traces.to_string(), "http://said:4318/v1/traces");
        assert_eq!(
            said.in_words(),
            "http://said:4318/v1/metrics every 60 s, unencrypted"
        );
        let metrics = of_environment.metrics.to_string();
        assert_eq!(metrics, "https://env:4318/base/v1/metrics");
        assert!(of_environment.is_encrypted());
    }

    #[test]
    fn an_address_that_is_none_is_refused_and_says_how_to_write_it() {
        for url in [
            "",
            "localhost",
            "localhost:4318",
            "ftp://a",
            "http://",
            "http://a b",
            "http://a/?x=1",
            "unix:/a",
            "http:///v1",
        ] {
            let err = target(Some(url), &[]).unwrap_err().to_string();
            assert!(err.contains("http://localhost:4318"), "for `{url}`: {err}");
        }
        let err = target(Some("http://me:secret@a"), &[])
            .unwrap_err()
            .to_string();
        assert!(!err.contains("secret") && err.contains("OTEL_EXPORTER_OTLP_HEADERS"));
    }

    #[test]
    fn headers_are_decoded_and_never_said() {
        let list = "Authorization=Basic%20c2VjcmV0, x-scope = a%2Cb ,";
        let headers = [("OTEL_EXPORTER_OTLP_HEADERS", list)];

        let target = target(Some("http://a"), &headers).unwrap().unwrap();

        let values: Vec<(&str, &str)> = target
            .headers
            .iter()
            .map(|(key, value)| (key.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(
            values,
            [("authorization", "Basic c2VjcmV0"), ("x-scope", "a,b")]
        );
        assert!(!format!("{target:?}").contains("c2VjcmV0"));
    }

    #[test]
    fn a_variable_that_cannot_be_read_is_an_error_that_names_it_and_no_secret() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_HEADERS", "fine=1,secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret%0a=1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0d%0aX:1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "=secret"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60s"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ] {
            let err = target(Some("http://a"), &[(name, value)])
                .unwrap_err()
                .to_string();
            assert!(err.contains(name), "for {name}: {err}");
            assert!(!err.contains("secret"), "for {name}: {err}");
        }
    }
}
