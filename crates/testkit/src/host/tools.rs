//! Programs of every test host.

use std::fs;
use std::path::PathBuf;

use super::apt::{self, Apt};
use super::cache::Cache;
use super::error::FetchError;

/// Debian's directory of shared libraries.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// Name of the cache's entry. Rename it when the list of files changes; otherwise old caches keep
/// an old list.
const ENTRY: &str = "tools-3";

/// Package, path inside it, path in the guest. They belong to one Debian release, so that its C
/// library works for all of them.
const FILES: [(&str, &str, &str); 16] = [
    ("busybox-static", "bin/busybox", "bin/busybox"),
    ("util-linux", "usr/bin/chrt", "usr/bin/chrt"),
    ("util-linux", "usr/bin/taskset", "usr/bin/taskset"),
    ("rt-tests", "usr/bin/cyclictest", "usr/bin/cyclictest"),
    ("rt-tests", "usr/bin/hackbench", "usr/bin/hackbench"),
    ("libnuma1", "usr/LIB/libnuma.so.1", "LIB/libnuma.so.1"),
    ("rtla/bookworm-backports", "usr/bin/rtla", "usr/bin/rtla"),
    (
        "libtraceevent1",
        "usr/LIB/libtraceevent.so.1",
        "LIB/libtraceevent.so.1",
    ),
    (
        "libtracefs1",
        "usr/LIB/libtracefs.so.1",
        "LIB/libtracefs.so.1",
    ),
    ("libc6", "LIB/libc.so.6", "LIB/libc.so.6"),
    ("libc6", "LIB/libm.so.6", "LIB/libm.so.6"),
    ("libc6", "LIB/librt.so.1", "LIB/librt.so.1"),
    ("libc6", "LIB/libpthread.so.0", "LIB/libpthread.so.0"),
    ("libc6", "LIB/libdl.so.2", "LIB/libdl.so.2"),
    // The C library opens it when a thread of rtla is cancelled.
    ("libgcc-s1", "LIB/libgcc_s.so.1", "LIB/libgcc_s.so.1"),
    (
        "libc6",
        "LIB/ld-linux-x86-64.so.2",
        "lib64/ld-linux-x86-64.so.2",
    ),
];

/// Programs and libraries for guests, unpacked in the cache.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    directory: PathBuf,
}

impl Tools {
    /// Fetches the files, or uses those that were fetched before.
    pub(super) fn fetch() -> Result<Self, FetchError> {
        let cache = Cache::open()?;
        let directory = cache.entry(ENTRY, |into| {
            let apt = Apt::update(cache.apt())?;
            let mut packages: Vec<&str> = FILES.iter().map(|file| file.0).collect();
            packages.dedup();
            for package in packages {
                apt::unpack(&apt.download(package)?, |_| true, into)?;
            }
            for (package, from, _) in FILES {
                let from = from.replace("LIB", LIBRARIES);
                // Follows links, which must not lead out of the package.
                fs::metadata(into.join(&from)).map_err(|_| FetchError::NoFile {
                    package: package.into(),
                    path: from,
                })?;
            }
            Ok(())
        })?;
        Ok(Self { directory })
    }

    /// Returns each file and its path in the guest.
    pub(super) fn files(&self) -> impl Iterator<Item = (PathBuf, String)> + '_ {
        FILES.iter().map(|(_, from, to)| {
            (
                self.directory.join(from.replace("LIB", LIBRARIES)),
                to.replace("LIB", LIBRARIES),
            )
        })
    }
}
