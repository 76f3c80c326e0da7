//! Access rights of a recording.

/// Users who may read a recording: it holds names, arguments and call chains of every
/// process on the machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// Only its owner.
    #[default]
    Private,
    /// Every user that the umask permits.
    Shared,
}
