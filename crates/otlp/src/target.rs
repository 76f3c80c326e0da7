//! Destination and identity of the sender, from options and OpenTelemetry's environment
//! variables.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use ureq::http::{HeaderName, HeaderValue, Uri};

/// Default interval of metrics.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// Default timeout of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum of both.
const MIN_TIME: Duration = Duration::from_millis(100);

/// Reason why data cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The address is invalid.
    #[error("`{0}` is not the address of a collector; write it as http://localhost:4318")]
    NoUrl(String),
    /// The address contains a password, which would appear in messages.
    #[error(
        "the address of the collector has a user or a password in it; put them into \
         OTEL_EXPORTER_OTLP_HEADERS (Authorization=Basic%20...)"
    )]
    Password,
    /// The protocol is not supported.
    #[error(
        "OTEL_EXPORTER_OTLP_PROTOCOL asks for `{0}`, and only http/protobuf is spoken; \
         collectors take that at port 4318"
    )]
    Protocol(String),
    /// A list of names and values is invalid. The values may be secret.
    #[error("{0} is invalid at entry {1}; write it as name=value,other=value, percent-encoded")]
    List(&'static str, usize),
    /// A time is invalid.
    #[error("{0} is `{1}`; use a whole number of milliseconds, at least 100")]
    Time(&'static str, String),
    /// The file of trusted certificates is not readable.
    #[error("cannot read the certificates in `{path}` (OTEL_EXPORTER_OTLP_CERTIFICATE)")]
    Certificates {
        path: String,
        source: std::io::Error,
    },
    /// Trusted authorities are missing.
    #[error(
        "no certificate of an authority was found in {0}; install ca-certificates, or name a file \
         in OTEL_EXPORTER_OTLP_CERTIFICATE"
    )]
    NoAuthority(String),
}

/// Destination and options of the sender.
#[derive(Clone)]
pub struct OtlpTarget {
    pub(crate) metrics: Uri,
    pub(crate) traces: Uri,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) every: Duration,
    pub(crate) patience: Duration,
    /// File of trusted authorities, instead of the system's.
    pub(crate) certificates: Option<String>,
    said: Vec<(String, String)>,
}

// Omits headers, which often contain passwords.
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
    /// Returns the collector at `url`, or the one in the `environment`; `None` if neither is set.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is invalid.
    pub fn new(
        url: Option<&str>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TargetError> {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let base = url.map(str::to_owned);
        let Some(base) = base.or_else(|| set("OTEL_EXPORTER_OTLP_ENDPOINT")) else {
            return Ok(None);
        };
        if let Some(protocol) = set("OTEL_EXPORTER_OTLP_PROTOCOL")
            && protocol != "http/protobuf"
        {
            return Err(TargetError::Protocol(protocol));
        }
        let base = base.trim_end_matches('/');
        let list = |name| set(name).map_or(Ok(Vec::new()), |text| pairs(name, &text));
        let mut about = list("OTEL_RESOURCE_ATTRIBUTES")?;
        if let Some(name) = set("OTEL_SERVICE_NAME") {
            about.retain(|(key, _)| key != "service.name");
            about.push(("service.name".into(), name));
        }
        let headers = "OTEL_EXPORTER_OTLP_HEADERS";
        Ok(Some(Self {
            metrics: address(base, "/v1/metrics")?,
            traces: address(base, "/v1/traces")?,
            headers: headers_of(headers, &list(headers)?)?,
            every: time("OTEL_METRIC_EXPORT_INTERVAL", &set)?.unwrap_or(DEFAULT_INTERVAL),
            patience: time("OTEL_EXPORTER_OTLP_TIMEOUT", &set)?.unwrap_or(DEFAULT_TIMEOUT),
            certificates: set("OTEL_EXPORTER_OTLP_CERTIFICATE"),
            said: about,
        }))
    }

    /// Returns the attributes that the user sets for this machine and program.
    #[must_use]
    pub fn said(&self) -> &[(String, String)] {
        &self.said
    }

    /// Returns destination and interval as text.
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

/// Parses a list such as `a=1,b=2` (W3C Baggage, like OpenTelemetry's variables).
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
    match time.filter(|time| *time >= MIN_TIME) {
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
            let variable = variables.iter().find(|(key, _)| *key == name);
            variable.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn no_target_without_an_address_and_an_empty_variable_is_unset() {
        assert!(target(None, &[]).unwrap().is_none());
        assert!(
            target(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn option_takes_precedence_over_the_environment() {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "https://env:4318/base/")];

        let option = target(Some("http://said:4318"), &variables)
            .unwrap()
            .unwrap();
        let of_environment = target(None, &variables).unwrap().unwrap();

        assert_eq!(option.traces.to_string(), "http://said:4318/v1/traces");
        assert_eq!(
            option.in_words(),
            "http://said:4318/v1/metrics every 60 s, unencrypted"
        );
        let metrics = of_environment.metrics.to_string();
        assert_eq!(metrics, "https://env:4318/base/v1/metrics");
        assert!(of_environment.is_encrypted());
    }

    #[test]
    fn invalid_address_is_refused_with_an_example() {
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
    fn headers_are_decoded_and_never_printed() {
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
    fn invalid_variable_is_named_without_its_secret_value() {
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
