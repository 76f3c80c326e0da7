//! Programs of every test host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::{self, Apt};
use super::architecture::Architecture;
use super::cache::Cache;
use super::error::FetchError;

/// Name of the cache's entry. Rename it when the list of files changes; otherwise old caches keep
/// an old list.
const ENTRY: &str = "tools-5";

/// Package, path inside it, path in the guest. They belong to one Debian release, so that its C
/// library works for all of them. `LIB` is the architecture's directory of shared libraries.
const FILES: [(&str, &str, &str); 19] = [
    ("busybox-static", "bin/busybox", "bin/busybox"),
    ("util-linux", "usr/bin/chrt", "usr/bin/chrt"),
    ("util-linux", "usr/bin/taskset", "usr/bin/taskset"),
    ("rt-tests", "usr/bin/cyclictest", "usr/bin/cyclictest"),
    ("rt-tests", "usr/bin/hackbench", "usr/bin/hackbench"),
    ("libnuma1", "usr/LIB/libnuma.so.1", "LIB/libnuma.so.1"),
    ("iperf3", "usr/bin/iperf3", "bin/iperf3"),
    ("libiperf0", "usr/LIB/libiperf.so.0", "LIB/libiperf.so.0"),
    ("libssl3", "usr/LIB/libcrypto.so.3", "LIB/libcrypto.so.3"),
    ("libsctp1", "usr/LIB/libsctp.so.1", "LIB/libsctp.so.1"),
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
];

/// Source of the program that writes the results of an arm64 guest.
const STORE: &str = include_str!("store.c");

/// Programs and libraries for guests, unpacked in the cache.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    architecture: Architecture,
    directory: PathBuf,
}

impl Tools {
    /// Fetches the files, or uses files that were fetched before.
    pub(super) fn fetch(architecture: Architecture) -> Result<Self, FetchError> {
        let cache = Cache::open()?;
        let entry = match architecture {
            Architecture::Amd64 => ENTRY.to_owned(),
            Architecture::Arm64 => format!("{ENTRY}-arm64"),
        };
        let directory = cache.entry(&entry, |into| {
            let apt = Apt::update(cache.apt(architecture), architecture)?;
            let mut packages: Vec<&str> = FILES.iter().map(|file| file.0).collect();
            packages.dedup();
            for package in packages {
                apt::unpack(&apt.download(package)?, |_| true, into)?;
            }
            for (package, from, _) in list(architecture) {
                // Follows links, which must not lead out of the package.
                fs::metadata(into.join(&from)).map_err(|_| FetchError::NoFile {
                    package: package.into(),
                    path: from,
                })?;
            }
            match architecture {
                Architecture::Amd64 => Ok(()),
                Architecture::Arm64 => compile_store(&into.join("bin")),
            }
        })?;
        Ok(Self {
            architecture,
            directory,
        })
    }

    /// Returns each file and its path in the guest.
    pub(super) fn files(&self) -> impl Iterator<Item = (PathBuf, String)> + '_ {
        let store = (self.architecture == Architecture::Arm64)
            .then(|| (self.directory.join("bin/store"), "bin/store".to_owned()));
        list(self.architecture)
            .map(|(_, from, to)| (self.directory.join(from), to))
            .chain(store)
    }
}

/// Returns package, path inside it, and path in the guest of each file.
fn list(architecture: Architecture) -> impl Iterator<Item = (&'static str, String, String)> {
    let libraries = architecture.libraries();
    let (loader, loader_in_guest) = architecture.loader();
    let loader = (
        "libc6",
        format!("{libraries}/{loader}"),
        loader_in_guest.to_owned(),
    );
    let place = move |path: &str| path.replace("LIB", libraries);
    let files = FILES
        .iter()
        .map(move |(package, from, to)| (*package, place(from), place(to)));
    files.chain([loader])
}

/// Compiles the program that writes an arm64 guest's results to `/dev/mem` into a directory.
fn compile_store(into: &Path) -> Result<(), FetchError> {
    let source = into.join("store.c");
    fs::write(&source, STORE).map_err(FetchError::io(&source))?;
    let mut command = Command::new(Architecture::Arm64.compiler());
    command.args(["-static", "-O2", "-o"]);
    apt::run(command.arg(into.join("store")).arg(&source))?;
    Ok(())
}
