//! Packs the only file system of a guest.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cpio::Archive;
use super::error::{FetchError, GuestError};
use super::kernel::Kernel;
use super::results::RESULTS_BYTES;
use super::tools::Tools;

const INIT: &str = include_str!("init.sh");
/// Number of times that a guest reports its clock, so that one report arrives fast.
const CLOCK_READINGS: u8 = 20;

/// Contents of a guest's file system.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    /// Kernel to boot.
    pub(super) kernel: &'a Kernel,
    /// Programs of every guest.
    pub(super) tools: &'a Tools,
    /// Files of this machine and their paths in the guest.
    pub(super) files: &'a [(PathBuf, String)],
    /// Shell text to run.
    pub(super) command: &'a str,
    /// Physical address of the memory for the results.
    pub(super) results_at: u64,
    /// Whether the `edu` device is bound to `uio_pci_generic`.
    pub(super) edu: bool,
    /// Wait after boot until the kernel is quiet.
    pub(super) settle: Duration,
    /// Whether the guest reports its clock before and after the command.
    pub(super) tells_time: bool,
}

impl Contents<'_> {
    /// Writes the file system to `path` and returns its size in bytes.
    pub(super) fn write(&self, path: &Path) -> Result<u64, GuestError> {
        let mut archive = Archive::new(BufWriter::new(
            File::create(path).map_err(GuestError::io(path))?,
        ));
        self.fill(&mut archive, path)?;
        archive.finish().map_err(GuestError::io(path))?;
        Ok(fs::metadata(path).map_err(GuestError::io(path))?.len())
    }

    fn fill(&self, archive: &mut Archive<impl Write>, path: &Path) -> Result<(), GuestError> {
        let modules: &[&str] = if self.edu {
            &["uio", "uio_pci_generic"]
        } else {
            &[]
        };
        let settings = format!(
            "RESULTS_AT={}\nRESULTS_BYTES={RESULTS_BYTES}\nMODULES='{}'\nEDU={}\nSETTLE={}\nCLOCKS={}\n",
            self.results_at,
            modules.join(" "),
            u8::from(self.edu),
            self.settle.as_secs(),
            if self.tells_time { CLOCK_READINGS } else { 0 },
        );
        let os = "NAME='laggard test host'\nID=testhost\nPRETTY_NAME='laggard test host'\n";
        for (name, mode, content) in [
            ("init", 0o755, INIT),
            ("command", 0o644, self.command),
            ("etc/testhost.conf", 0o644, settings.as_str()),
            ("etc/os-release", 0o644, os),
            ("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\n"),
            ("etc/group", 0o644, "root:x:0:\n"),
        ] {
            archive
                .file(name, mode, content.as_bytes())
                .map_err(GuestError::io(path))?;
        }
        archive
            .symlink("etc/mtab", "/proc/mounts")
            .map_err(GuestError::io(path))?;
        let config = format!("boot/config-{}", self.kernel.release);
        copy(archive, &self.kernel.config(), &config)?;
        for module in modules {
            let to = format!("modules/{module}.ko");
            copy(archive, &self.kernel.module(module), &to)?;
        }
        for (from, to) in self.tools.files() {
            copy(archive, &from, &to)?;
        }
        for (from, to) in self.files {
            copy(archive, from, to)?;
        }
        Ok(())
    }
}

fn copy(archive: &mut Archive<impl Write>, from: &Path, to: &str) -> Result<(), GuestError> {
    let content = fs::read(from).map_err(GuestError::io(from))?;
    let mode = fs::metadata(from)
        .map_err(GuestError::io(from))?
        .permissions()
        .mode();
    archive
        .file(to, mode, &content)
        .map_err(GuestError::io(from))
}

/// Returns the shared libraries and the loader of a program of this machine; empty if it is
/// statically linked.
pub(super) fn libraries(program: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .map_err(|_| FetchError::NotInstalled {
            program: "ldd",
            package: "libc-bin",
        })?;
    // `ldd` fails for a static program; a missing program is noticed when it is copied.
    Ok(parse_libraries(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_libraries(ldd: &str) -> Vec<PathBuf> {
    ldd.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_needs_its_libraries_and_the_loader_but_not_the_vdso() {
        let ldd = "\tlinux-vdso.so.1 (0x00007f)\n\
                   \tlibelf.so.1 => /lib/x86_64-linux-gnu/libelf.so.1 (0x00007f)\n\
                   \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";

        assert_eq!(
            parse_libraries(ldd),
            [
                "/lib/x86_64-linux-gnu/libelf.so.1",
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
            .map(PathBuf::from)
        );
    }

    #[test]
    fn static_program_needs_no_libraries() {
        assert!(parse_libraries("\tstatically linked\n").is_empty());
        assert!(parse_libraries("\tnot a dynamic executable\n").is_empty());
    }
}
