//! Reading files that a user named, within limits.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a file that a person wrote, bytes. A larger one is another kind of file, or an
/// endless device.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Reads a text that a person wrote.
///
/// # Errors
/// If it cannot be read, is not UTF-8, has more than 16 MiB, or is a pipe without a
/// writer.
pub fn read_text(file: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(file)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Reads a small file that a person wrote, or a pipe.
///
/// # Errors
/// As [`read_text`], of any bytes.
pub fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    read_all(open(file)?)
}

/// Reads a small regular file that a person wrote.
///
/// # Errors
/// As [`open_regular`], or if the file has more than 16 MiB.
pub fn read_regular(file: &Path) -> io::Result<Vec<u8>> {
    read_all(open_regular(file)?)
}

fn read_all(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes)?;
    if read as u64 > MAX_TEXT_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it has more than 16 MiB and is not a text written by a person; give another file",
        ));
    }
    Ok(bytes)
}

/// Opens a regular file. Does not wait for others, such as a pipe or a device.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn open_regular(file: &Path) -> io::Result<File> {
    // Check before opening, too: opening a device may have an effect.
    check_regular(&fs::metadata(file)?)?;
    let opened = open_at_once(file)?;
    check_regular(&opened.metadata()?)?;
    Ok(opened)
}

fn check_regular(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "it is not a regular file",
    ))
}

#[cfg(unix)]
fn open_at_once(file: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    File::options()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(file)
}

#[cfg(not(unix))]
fn open_at_once(file: &Path) -> io::Result<File> {
    File::open(file)
}

#[cfg(not(unix))]
fn open(file: &Path) -> io::Result<impl Read> {
    open_at_once(file)
}

#[cfg(unix)]
fn open(file: &Path) -> io::Result<impl Read> {
    let file = open_at_once(file)?;
    let waits = !file.metadata()?.is_file();
    Ok(Patient { file, waits })
}

/// Reading a pipe is given up after this time without data, ms.
#[cfg(unix)]
const PIPE_PATIENCE_MS: u16 = 10_000;

/// File that is read as data arrives. A pipe without a writer is given up; a terminal
/// waits for a person.
#[cfg(unix)]
struct Patient {
    file: File,
    waits: bool,
}

#[cfg(unix)]
impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        use std::io::IsTerminal as _;
        use std::os::fd::AsFd as _;

        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        if self.waits {
            let patience = if self.file.is_terminal() {
                PollTimeout::NONE
            } else {
                PollTimeout::from(PIPE_PATIENCE_MS)
            };
            let mut polled = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
            if poll(&mut polled, patience)? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no data came through this pipe for 10 s; give a file",
                ));
            }
        }
        self.file.read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_file_is_not_read_to_its_end() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, vec![b'\n'; 16 << 20]).unwrap();

        assert_eq!(read_text(&file).unwrap().len(), 16 << 20);
        fs::write(&file, vec![b'\n'; (16 << 20) + 1]).unwrap();
        assert_eq!(
            read_text(&file).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        if cfg!(target_os = "linux") {
            let endless = read_text(Path::new("/dev/zero")).unwrap_err();
            assert!(endless.to_string().contains("16 MiB"), "{endless}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn pipe_is_read_and_given_up_without_a_writer() {
        use std::io::Write as _;
        let dir = tempfile::TempDir::new().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());

        let nobody = read_text(&pipe).unwrap_err();
        let writer = pipe.clone();
        let writer = std::thread::spawn(move || {
            let mut writer = File::options().write(true).open(writer).unwrap();
            for part in ["two ", "parts"] {
                writer.write_all(part.as_bytes()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        });
        let text = read_text(&pipe).unwrap();

        assert_eq!(nobody.kind(), io::ErrorKind::TimedOut);
        assert_eq!(text, "two parts");
        writer.join().unwrap();
        assert!(open_regular(&pipe).is_err());
        assert!(open_regular(Path::new("/dev/null")).is_err());
        assert!(read_regular(&pipe).is_err());
    }
}
