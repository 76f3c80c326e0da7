//! Why a driver could not be installed or removed.

use std::io;
use std::path::PathBuf;

/// Why the driver could not be installed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// Only administrators manage drivers.
    #[error(
        "only administrators manage drivers; open a terminal with `Run as administrator` and type it there"
    )]
    NotAdministrator,
    /// The file cannot be read.
    #[error("read `{}`; give the path of wdmlat.sys, which `make driver` builds", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("`{}` is not wdmlat.sys: {why}; give the file that `make driver` builds", path.display())]
    NotTheDriver {
        /// Which.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// It has no signature, and this Windows loads none without.
    #[error(
        "`{}` is not signed, and Windows loads no driver without a signature; {remedy}; nothing was changed",
        path.display()
    )]
    Unsigned {
        /// Which.
        path: PathBuf,
        /// What helps here.
        remedy: &'static str,
    },
    /// Windows refused to load it, for its signature.
    #[error("Windows does not trust its signature (error {code}); {remedy}")]
    Untrusted {
        /// The error of Windows.
        code: i32,
        /// What helps here.
        remedy: &'static str,
    },
    /// There is a service of this name, and it is somebody else's.
    #[error(
        "the service `wdmlat` is already there and runs another file, `{path}`, so laggard leaves it alone; if it is yours, remove it with `sc delete wdmlat`"
    )]
    OtherService {
        /// The file that it runs.
        path: String,
    },
    /// Another build of the driver is where this one would be.
    #[error(
        "another version of the driver is `{}`; type `laggard driver remove`, then install this one",
        path.display()
    )]
    OtherVersion {
        /// Where.
        path: PathBuf,
    },
    /// Something else lies where the driver would.
    #[error(
        "`{}` is not laggard's driver ({why}), so laggard leaves it alone; look whose it is",
        path.display()
    )]
    OtherFile {
        /// Where.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// It was removed while another program held its service.
    #[error(
        "the service `wdmlat` is marked for removal, and another program still holds it (such as `services.msc`); end that program, or restart Windows, then try again"
    )]
    MarkedForRemoval,
    /// A program has the device open.
    #[error(
        "the driver is in use, and Windows unloads it when the programs that have it open have ended; end them, then type `laggard driver remove` again"
    )]
    InUse,
    /// It was not loaded, and its file could not be removed.
    #[error("{}; its file is left in the folder for drivers: {}", in_full(.why), in_full(.left))]
    Left {
        /// Why it was not loaded.
        why: Box<Self>,
        /// Why the file is left.
        left: Box<Self>,
    },
    /// The system refused something else.
    #[error("{what}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// In the system's words.
        source: io::Error,
    },
}

/// An error with its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
