//! Who is told of: this machine and this run of the program, in the words of
//! OpenTelemetry's conventions.

use std::fmt::Write as _;
use std::io;

use crate::proto::{AnyValue, KeyValue, Resource, Scope, Value};

/// Whose words the attributes are.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// The machine and the program.
#[derive(Clone, Debug, Default)]
pub struct ResourceFacts {
    /// The machine's name.
    pub host_name: String,
    /// What tells it from all others, such as its machine-id, where it has one.
    pub host_id: Option<String>,
    /// Its architecture, as the kernel names it.
    pub architecture: String,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub distribution: Option<String>,
    /// This run of the program, as nothing else is called.
    pub instance: String,
    /// What the user adds, or says instead.
    pub said: Vec<(String, String)>,
}

impl ResourceFacts {
    /// As it is sent.
    #[must_use]
    pub fn resource(&self) -> Resource {
        let own = [
            ("service.name", Some("laggard")),
            ("service.version", Some(env!("CARGO_PKG_VERSION"))),
            ("service.instance.id", Some(&*self.instance)),
            ("host.name", Some(&*self.host_name)),
            ("host.id", self.host_id.as_deref()),
            ("host.arch", Some(architecture(&self.architecture))),
            ("os.type", Some("linux")),
            ("os.version", Some(&*self.kernel)),
            ("os.description", self.distribution.as_deref()),
        ];
        let is_said = |key: &str| self.said.iter().any(|(said, _)| said == key);
        let own = own
            .into_iter()
            .filter(|(key, _)| !is_said(key))
            .filter_map(|(key, value)| Some(text(key, value.filter(|value| !value.is_empty())?)));
        let said = self.said.iter().map(|(key, value)| text(key, value));
        Resource {
            attributes: own.chain(said).collect(),
        }
    }
}

/// The conventions' word for an architecture.
fn architecture(kernel_s: &str) -> &str {
    match kernel_s {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i686" | "i386" => "x86",
        other => other,
    }
}

/// Who counts and sees.
pub(crate) fn scope() -> Scope {
    Scope {
        name: "laggard".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// What no other run of the program is called, from random numbers.
///
/// # Errors
/// When the system has no random numbers.
pub fn new_instance() -> io::Result<String> {
    use ring::rand::SecureRandom as _;

    let mut bytes = [0; 16];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    // A UUID of version 4 (RFC 9562, section 5.4), which the conventions ask for.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("memory is written to");
    }
    Ok(text)
}

/// An attribute that is a text.
pub(crate) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::Text(value.into()))
}

pub(crate) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_says_stands_for_what_is_known_and_what_is_not_known_is_left_out() {
        let facts = ResourceFacts {
            host_name: "cell-7".into(),
            architecture: "aarch64".into(),
            said: vec![("service.name".into(), "latency".into())],
            ..ResourceFacts::default()
        };

        let resource = facts.resource();

        let all: Vec<(&str, &AnyValue)> = resource
            .attributes
            .iter()
            .map(|one| (&*one.key, one.value.as_ref().unwrap()))
            .collect();
        let value = |key: &str| {
            let found: Vec<_> = all.iter().filter(|(name, _)| *name == key).collect();
            assert!(found.len() <= 1, "{key} is told twice");
            found.first().map(|(_, value)| (*value).clone())
        };
        let of = |text: &str| {
            Some(AnyValue {
                value: Some(Value::Text(text.into())),
            })
        };
        assert_eq!(value("service.name"), of("latency"));
        assert_eq!(value("host.name"), of("cell-7"));
        assert_eq!(value("host.arch"), of("arm64"));
        assert_eq!(value("host.id"), None);
        assert_eq!(value("os.version"), None);
    }

    #[test]
    fn two_runs_are_never_called_alike() {
        let (one, other) = (new_instance().unwrap(), new_instance().unwrap());

        assert_ne!(one, other);
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'4'));
    }
}
