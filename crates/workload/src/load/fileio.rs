//! File reading: opening, reading in blocks of 1 KB and closing a 100 KB file
//! endlessly. The file is in the page cache after the first time, so this is a load of
//! system calls, not of a disk.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use tempfile::NamedTempFile;

use super::RunError;

pub(super) const THREADS: u32 = 4;

const FILE_BYTES: usize = 100 * 1024;
const READ_BYTES: usize = 1024;

/// File to read; removed when this value is dropped.
pub(super) struct File(NamedTempFile);

impl File {
    /// Creates the file in the directory for temporary files.
    pub(super) fn new() -> Result<Self, RunError> {
        let folder = std::env::temp_dir();
        let refused = |path: PathBuf| move |source| RunError::File { path, source };
        let mut file = tempfile::Builder::new()
            .prefix("laggard-load-")
            .tempfile_in(&folder)
            .map_err(refused(folder))?;
        file.write_all(&vec![0x5a; FILE_BYTES])
            .map_err(refused(file.path().into()))?;
        Ok(Self(file))
    }

    /// Reads the file repeatedly until it `ends`. Returns the number of bytes.
    pub(super) fn read(&self, ends: &dyn Fn() -> bool) -> Result<u64, RunError> {
        let mut total = 0;
        while !ends() {
            total += self.read_once().map_err(|source| RunError::File {
                path: self.0.path().into(),
                source,
            })?;
        }
        Ok(total)
    }

    fn read_once(&self) -> io::Result<u64> {
        let mut buffer = [0; READ_BYTES];
        let mut options = fs::File::options();
        // In a directory that is writable for others, they can put any kind of file at
        // its path.
        #[cfg(target_os = "linux")]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            (nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits(),
        );
        let mut file = options.read(true).open(self.0.path())?;
        let mut total = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(total),
                bytes => total += bytes as u64,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_reads_the_whole_file_and_leaves_nothing_behind() {
        let file = File::new().unwrap();
        let path = file.0.path().to_path_buf();

        assert_eq!(file.read_once().unwrap(), FILE_BYTES as u64);
        drop(file);
        assert!(!path.exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn replaced_file_is_not_waited_for_or_followed() {
        let file = File::new().unwrap();
        let path = file.0.path();

        fs::remove_file(path).unwrap();
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(file.read_once().unwrap(), 0);
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        assert!(file.read_once().is_err());
    }

    /// Windows keeps a removed file while it is open.
    #[cfg(target_os = "linux")]
    #[test]
    fn missing_file_is_an_error_with_its_name() {
        let file = File::new().unwrap();
        fs::remove_file(file.0.path()).unwrap();

        let err = file.read(&|| false).unwrap_err().to_string();

        assert!(err.contains("laggard-load-"), "{err}");
    }
}
