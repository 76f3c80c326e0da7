//! The sentences of the first screen one by one, for what is no terminal.

use laggard_answer::overview::Overview;
use schemars::JsonSchema;
use serde::Serialize;

use super::sentence::{Said, sentences};
use super::{Look, Measure, hour, late, parts, verdict};

/// Wider than any sentence: none is broken, or cut.
const ENDLESS: Look = Look {
    columns: 100_000,
    unit: laggard_model::text::Unit::Auto,
};

/// The first screen's sentences by part; a part of which there is nothing to say
/// is empty.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InShort {
    /// What speaks against all that follows.
    pub doubts: Vec<Said>,
    /// Whether the machine serves applications.
    pub verdicts: Vec<Said>,
    /// Caveats that change how the rest is read.
    pub beware: Vec<Said>,
    /// Who made activations late, and what to do first.
    pub late: Vec<Said>,
    /// What the next hour brings.
    pub next_hour: Vec<Said>,
}

/// What the first screen says.
pub(crate) fn said(of: &Overview) -> InShort {
    InShort {
        doubts: sentences(&parts::doubts(of, ENDLESS, Measure::FULL)),
        verdicts: sentences(&verdict::verdicts(of, ENDLESS, Measure::ENDLESS)),
        beware: sentences(&parts::beware(of, ENDLESS, Measure::FULL)),
        late: late::said(of, ENDLESS, Measure::FULL),
        next_hour: sentences(&hour::next_hour(of, ENDLESS, Measure::FULL)),
    }
}

#[cfg(test)]
mod tests {
    use laggard_made::overview::made;

    use super::*;

    /// The widths of columns are none of a sentence's business, and spaces in a
    /// foreign name are its own.
    #[test]
    fn a_cause_is_a_sentence_however_its_columns_lie() {
        let mut overview = made();
        let late = overview.late.as_mut().unwrap();
        late.causes[1].who = Some("my  thread".into());
        late.causes[1].largest_ns = laggard_model::Nanos::from_us(90);

        let said = said(&overview);

        let text = &said.late[2].text;
        assert!(text.starts_with("5 %, my  thread, "), "{text}");
        assert!(text.ends_with(" x, up to 90.0 us"), "{text}");
    }
}
