//! Value that a user selects by name.

/// One of several figures, formats and so on.
pub trait Named: Copy + Send + Sync + 'static {
    /// All values, in the order of the help.
    const ALL: &'static [Self];

    /// Name that the user types.
    fn name(self) -> &'static str;

    /// Description in the help.
    fn what(self) -> &'static str;
}
