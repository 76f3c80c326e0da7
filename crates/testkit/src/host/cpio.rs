//! Writes the "newc" archive that the kernel unpacks as its first file system.
//!
//! The format: Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`. Entries have
//! neither an owner nor a time, so the same files give the same bytes, and a guest in virtual time
//! always boots the same way.

use std::collections::BTreeSet;
use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_777;

/// Archive that is being written.
#[derive(Debug)]
pub(super) struct Archive<W: Write> {
    out: W,
    entries: u32,
    /// Directories written so far; the kernel does not create missing ones.
    directories: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// Creates an archive that is written to `out`.
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            entries: 0,
            directories: BTreeSet::new(),
        }
    }

    /// Adds a directory and its parents. Paths may start with a slash.
    pub(super) fn directory(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        let ends = path.match_indices('/').map(|(slash, _)| slash);
        for end in ends.chain([path.len()]) {
            let part = &path[..end];
            if !part.is_empty() && self.directories.insert(part.to_owned()) {
                self.entry(part, DIRECTORY, &[])?;
            }
        }
        Ok(())
    }

    /// Adds a file with the permission bits `mode`, and its directories.
    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.parent(path)?;
        self.entry(path.trim_matches('/'), REGULAR | (mode & 0o7777), content)
    }

    /// Adds a symbolic link to `target`, and its directories.
    pub(super) fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.parent(path)?;
        self.entry(path.trim_matches('/'), SYMLINK, target.as_bytes())
    }

    /// Writes the end of the archive and returns the writer.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn parent(&mut self, path: &str) -> io::Result<()> {
        match path.trim_matches('/').rsplit_once('/') {
            Some((directory, _)) => self.directory(directory),
            None => Ok(()),
        }
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len()).map_err(|_| {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{name} has 4 GiB or more, which this format cannot hold"),
            )
        })?;
        // The field has 8 hexadecimal digits; a longer name cannot come from a file system.
        let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        self.entries += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        write!(self.out, "070701")?;
        for field in [
            self.entries, // inode: unique, otherwise files become hard links
            mode,
            0, // user
            0, // group
            links,
            0, // time
            size,
            0, // device, major and minor
            0,
            0, // device of a device node, major and minor
            0,
            name_size,
            0, // checksum, not used by this variant
        ] {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(b"\0")?;
        self.pad(110 + name.len() + 1)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    /// Pads to a multiple of four bytes, after the header with the name and after the content.
    fn pad(&mut self, written: usize) -> io::Result<()> {
        let zeros = written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 3][..zeros])
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn sample() -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        archive.file("/init", 0o755, b"#!/bin/sh\n").unwrap();
        archive.file("/a/b/c.txt", 0o640, b"12345").unwrap();
        archive.file("/a/b/empty", 0o600, b"").unwrap();
        archive.symlink("/a/link", "b/c.txt").unwrap();
        archive.directory("/proc").unwrap();
        archive.finish().unwrap()
    }

    #[test]
    fn same_files_give_the_same_bytes() {
        assert_eq!(sample(), sample());
    }

    #[test]
    fn every_entry_starts_at_a_multiple_of_four_bytes() {
        let bytes = sample();

        let starts: Vec<usize> = (0..bytes.len() - 6)
            .filter(|&start| &bytes[start..start + 6] == b"070701")
            .collect();
        assert_eq!(starts.len(), 8);
        assert!(starts.iter().all(|start| start % 4 == 0), "{starts:?}");
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn directories_come_once_and_before_their_contents() {
        let text = String::from_utf8_lossy(&sample()).into_owned();

        assert_eq!(text.matches("a/b\0").count(), 1);
        assert!(text.find("a/b\0").unwrap() < text.find("a/b/c.txt\0").unwrap());
    }

    #[test]
    fn cpio_program_reads_the_archive_back() {
        let Ok(mut cpio) = Command::new("cpio")
            .args(["--list", "--verbose", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            eprintln!("skipped: the program `cpio` is not installed");
            return;
        };
        cpio.stdin.take().unwrap().write_all(&sample()).unwrap();
        let output = cpio.wait_with_output().unwrap();
        let list = String::from_utf8(output.stdout).unwrap();

        assert!(output.status.success());
        for line in [
            "-rwxr-xr-x",
            "-rw-r-----",
            "drwxr-xr-x",
            "a/link -> b/c.txt",
        ] {
            assert!(list.contains(line), "no {line} in\n{list}");
        }
    }
}
