//! Resource of the data: this machine and this run of the program, in the terms of
//! OpenTelemetry's conventions.

use std::fmt::Write as _;
use std::io;

use crate::proto::{AnyValue, KeyValue, Resource, Scope, Value};

/// Schema of the attributes.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// Facts about the machine and the program.
#[derive(Clone, Debug, Default)]
pub struct ResourceFacts {
    pub host_name: String,
    /// Unique ID of the machine, such as its machine-id, if it has one.
    pub host_id: Option<String>,
    /// Architecture, as the kernel names it.
    pub architecture: String,
    /// Release of the kernel.
    pub kernel: String,
    pub distribution: Option<String>,
    /// Unique ID of this run of the program.
    pub instance: String,
    /// Attributes that the user adds or overrides.
    pub said: Vec<(String, String)>,
}

impl ResourceFacts {
    /// Converts the facts to a message.
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
        let is_said = |key: &str| self.said.iter().any(|(overrides, _)| overrides == key);
        let own = own
            .into_iter()
            .filter(|(key, _)| !is_said(key))
            .filter_map(|(key, value)| Some(text(key, value.filter(|value| !value.is_empty())?)));
        let overrides = self.said.iter().map(|(key, value)| text(key, value));
        Resource {
            attributes: own.chain(overrides).collect(),
        }
    }
}

/// Returns the conventions' name of an architecture.
fn architecture(kernel_s: &str) -> &str {
    match kernel_s {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i686" | "i386" => "x86",
        other => other,
    }
}

/// Returns the scope: this library.
pub(crate) fn scope() -> Scope {
    Scope {
        name: "laggard".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// Returns a unique ID for a run, from random numbers.
///
/// # Errors
///
/// Returns an error if the system does not provide random numbers.
pub fn new_instance() -> io::Result<String> {
    use ring::rand::SecureRandom as _;

    let mut bytes = [0; 16];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    // UUID of version 4 (RFC 9562, section 5.4), which the conventions require.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a write to memory succeeds");
    }
    Ok(text)
}

/// Returns a text attribute.
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
    fn user_attributes_override_known_ones_and_unknown_ones_are_omitted() {
        let facts = ResourceFacts {
            host_name: "cell-7".into(),
            architecture: "aarch64".into(),
            said: vec![("service.name".into(), "latency".into())],
            ..ResourceFacts::default()
        };

        let resource = facts.resource();

        let attributes: Vec<(&str, &AnyValue)> = resource
            .attributes
            .iter()
            .map(|attribute| (&*attribute.key, attribute.value.as_ref().unwrap()))
            .collect();
        let value = |key: &str| {
            let matches: Vec<_> = attributes.iter().filter(|(name, _)| *name == key).collect();
            assert!(matches.len() <= 1, "{key} occurs twice");
            matches.first().map(|(_, value)| (*value).clone())
        };
        let text_value = |text: &str| {
            Some(AnyValue {
                value: Some(Value::Text(text.into())),
            })
        };
        assert_eq!(value("service.name"), text_value("latency"));
        assert_eq!(value("host.name"), text_value("cell-7"));
        assert_eq!(value("host.arch"), text_value("arm64"));
        assert_eq!(value("host.id"), None);
        assert_eq!(value("os.version"), None);
    }

    #[test]
    fn run_ids_are_unique() {
        let (first, second) = (new_instance().unwrap(), new_instance().unwrap());

        assert_ne!(first, second);
        assert_eq!((first.len(), first.as_bytes()[14]), (36, b'4'));
    }
}
