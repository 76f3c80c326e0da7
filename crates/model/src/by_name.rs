//! Options that users select by name: formatting, parsing and description in one place.

/// Implements for an enumeration with `ALL` and `name()`: `Display`, `FromStr`
/// (case-insensitive), `Serialize`, `Deserialize` and `JsonSchema`. `unknown` is the
/// error, which contains the typed `name`.
macro_rules! by_name {
    ($type:ident, $about:literal, unknown: $unknown:ident) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $unknown;

            fn from_str(text: &str) -> Result<Self, $unknown> {
                let text = text.trim();
                let is_it = |item: &Self| item.name().eq_ignore_ascii_case(text);
                let item = Self::ALL.into_iter().find(is_it);
                item.ok_or_else(|| $unknown { name: text.into() })
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $about,
                    "enum": Self::ALL.map(Self::name).to_vec()
                })
            }
        }
    };
}

pub(crate) use by_name;
