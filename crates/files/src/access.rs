//! Who may read a recording.

/// Who may read a recording: it holds names, arguments and call chains of every
/// process on the machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// Who made it.
    #[default]
    Private,
    /// Everybody, as far as the umask lets them.
    Shared,
}
