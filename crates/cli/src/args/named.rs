//! Arguments that are one of several names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use laggard_view::Named;

/// Parses the name of a `T`; help and completion list all.
pub(super) fn named<T: Named>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL
        .iter()
        .map(|one| PossibleValue::new(one.name()).help(one.what()));
    PossibleValuesParser::new(values).map(|name| {
        let mut all = T::ALL.iter();
        let found = all.find(|one| one.name() == name);
        *found.expect("the parser takes no other name")
    })
}
