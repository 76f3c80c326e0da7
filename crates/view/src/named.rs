//! What a person chooses among by name.

/// One of several figures, formats and so on.
pub trait Named: Copy + Send + Sync + 'static {
    /// All of them, in the order in which help lists them.
    const ALL: &'static [Self];

    /// What a person types.
    fn name(self) -> &'static str;

    /// What it is, in a line of help.
    fn what(self) -> &'static str;
}
