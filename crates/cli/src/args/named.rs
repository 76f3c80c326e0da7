//! Arguments with a fixed set of names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use laggard_view::Named;

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
