//! Arguments with a fixed set of names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use laggard_view::Named;

/// Parses one of these values: value, name, and help.
pub(super) fn choice<T: Copy + Send + Sync + 'static>(
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

/// Parses the name of a `T`; help and completion list all.
pub(super) fn named<T: Named>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL
        .iter()
        .map(|value| PossibleValue::new(value.name()).help(value.what()));
    PossibleValuesParser::new(values).map(|name| {
        let mut values = T::ALL.iter();
        let value = values.find(|candidate| candidate.name() == name);
        *value.expect("the parser takes no other name")
    })
}
