//! Arguments with a fixed set of names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses one of these values: value, name, and help.
pub fn choice<T: Copy + Send + Sync + 'static>(
    values: &'static [(T, &'static str, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let names = values.iter();
    let names = names.map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).map(|name| {
        let mut values = values.iter();
        let value = values.find(|(_, candidate, _)| *candidate == name);
        value.expect("the parser takes no other name").0
    })
}
