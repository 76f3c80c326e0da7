//! Results of a guest, returned through a part of its memory that its kernel does not use and
//! QEMU writes to a file after the guest has ended.
//!
//! This does not need a device, driver or interrupt in the measured kernel, and takes 30 ms per MB
//! of virtual time. A serial port takes 0.5 to 1 s on stock kernels and 25 s on `PREEMPT_RT`.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use super::error::GuestError;

/// Size of that memory in bytes. `Architecture::results_at` is its start.
pub(super) const RESULTS_BYTES: u64 = 64 << 20;
/// Size of the header, which has a separate page.
pub(super) const HEADER_BYTES: u64 = 4096;
/// Maximum size of a guest's results in bytes.
pub(super) const LIMIT_BYTES: u64 = RESULTS_BYTES - HEADER_BYTES;

/// Header of the results. Zeros, as in memory after boot, are not a header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Header {
    /// Exit status of the command as in a shell.
    pub(super) status: i32,
    /// Whether the host ended the command at its time limit.
    pub(super) stopped: bool,
    /// Length of the archive that follows.
    pub(super) bytes: u64,
}

impl Header {
    /// Parses a header; `None` if the guest has not written one.
    pub(super) fn parse(page: &[u8]) -> Option<Self> {
        let end = page.iter().position(|&byte| byte == b'\n')?;
        let text = std::str::from_utf8(&page[..end]).ok()?;
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            [
                "testhost",
                "1",
                "status",
                status,
                "stopped",
                stopped,
                "bytes",
                bytes,
            ] => Some(Self {
                status: status.parse().ok()?,
                stopped: stopped == "1",
                bytes: bytes.parse().ok()?,
            }),
            _ => None,
        }
    }
}

/// Unpacks the guest's archive: `result/` and the file `output`. Returns the output of the
/// command.
pub(super) fn unpack(archive: &Path, into: &Path) -> Result<String, GuestError> {
    let file = File::open(archive).map_err(GuestError::io(archive))?;
    fs::create_dir_all(into.join("result")).map_err(GuestError::io(into))?;
    let mut tar = tar::Archive::new(BufReader::new(file));
    tar.set_preserve_mtime(false);
    tar.unpack(into).map_err(GuestError::io(into))?;
    let path = into.join("output");
    let mut output = Vec::new();
    File::open(&path)
        .and_then(|mut file| file.read_to_end(&mut output))
        .map_err(GuestError::io(&path))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Vec<u8> {
        let mut page = text.as_bytes().to_vec();
        page.resize(4096, 0);
        page
    }

    #[test]
    fn header_is_read_back() {
        let header = Header::parse(&page("testhost 1 status 3 stopped 0 bytes 10240\n"));

        assert_eq!(
            header,
            Some(Header {
                status: 3,
                stopped: false,
                bytes: 10_240
            })
        );
    }

    #[test]
    fn unwritten_memory_is_not_a_header() {
        assert_eq!(Header::parse(&page("")), None);
        assert_eq!(Header::parse(&page("testhost 1 status\n")), None);
        assert_eq!(
            Header::parse(&page("testhost 2 status 3 stopped 0 bytes 1\n")),
            None
        );
    }

    fn archive_with(path: &str, content: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Written past `set_path`, which would refuse a path that a guest may send.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        let mut tar = tar::Builder::new(Vec::new());
        tar.append(&header, content).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        header.set_mode(0o644);
        tar.append_data(&mut header, "output", &b"hi\n"[..])
            .unwrap();
        tar.into_inner().unwrap()
    }

    #[test]
    fn files_and_output_come_back() {
        let scratch = tempfile::tempdir().unwrap();
        let archive = scratch.path().join("a.tar");
        fs::write(&archive, archive_with("result/a/b", b"12345")).unwrap();

        let output = unpack(&archive, &scratch.path().join("to")).unwrap();

        assert_eq!(output, "hi\n");
        assert_eq!(
            fs::read(scratch.path().join("to/result/a/b")).unwrap(),
            b"12345"
        );
    }

    #[test]
    fn guest_cannot_write_outside_its_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let archive = scratch.path().join("a.tar");
        fs::write(&archive, archive_with("../escaped", b"x")).unwrap();

        let _either_is_fine = unpack(&archive, &scratch.path().join("to"));

        assert!(!scratch.path().join("escaped").exists());
    }
}
