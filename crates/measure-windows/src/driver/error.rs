//! Errors of the installation and removal of the driver.

use std::io;
use std::path::PathBuf;

/// Reason why the driver could not be installed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    #[error(
        "only administrators may manage drivers; run the command in a terminal started with `Run as administrator`"
    )]
    NotAdministrator,
    #[error("cannot read `{}`; give the path of wdmlat.sys, which `make driver` builds", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not the driver.
    #[error("`{}` is not wdmlat.sys: {why}; give the file that `make driver` builds", path.display())]
    NotTheDriver {
        path: PathBuf,
        /// Kind of file that it is.
        why: &'static str,
    },
    /// It is not signed, and this Windows does not load unsigned drivers.
    #[error(
        "`{}` is not signed, and Windows loads no driver without a signature; {remedy}; nothing was changed",
        path.display()
    )]
    Unsigned { path: PathBuf, remedy: &'static str },
    /// Windows refused to load it because of its signature.
    #[error("Windows does not trust its signature (error {code}); {remedy}")]
    Untrusted {
        /// Error code of Windows.
        code: i32,
        remedy: &'static str,
    },
    /// Another program's service has this name.
    #[error(
        "a service `wdmlat` exists and runs another file, `{path}`; if it is yours, remove it with `sc delete wdmlat`"
    )]
    OtherService {
        /// File that the service runs.
        path: String,
    },
    /// Another build of the driver is at its path.
    #[error(
        "another version of the driver is installed at `{}`; run `laggard driver remove`, then install this version",
        path.display()
    )]
    OtherVersion { path: PathBuf },
    /// Another file is at the driver's path.
    #[error(
        "`{}` is not laggard's driver ({why}); find out which program installed it",
        path.display()
    )]
    OtherFile {
        path: PathBuf,
        /// Kind of file that it is.
        why: &'static str,
    },
    /// It was removed while another program had its service open.
    #[error(
        "the service `wdmlat` is marked for removal, and another program still has it open (such as `services.msc`); end that program or restart Windows, then try again"
    )]
    MarkedForRemoval,
    /// A program has the device open.
    #[error(
        "the driver is in use; end the programs that have it open, then run `laggard driver remove` again"
    )]
    InUse,
    /// It was not loaded, and its file could not be removed.
    #[error("{}; cannot remove its file from the driver directory: {}", in_full(.why), in_full(.left))]
    Left {
        /// Reason why it was not loaded.
        why: Box<Self>,
        /// Reason why the file remains.
        left: Box<Self>,
    },
    /// The system refused another operation.
    #[error("{what}")]
    Refused {
        /// Operation.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

/// Returns the text of an error with its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
