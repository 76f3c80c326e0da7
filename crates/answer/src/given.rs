//! Small text files that people write for us.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The longest such file, bytes. What is longer is another file, or a device that has
/// no end.
const MOST: u64 = 16 << 20;

/// The text of `file`.
///
/// # Errors
/// When it cannot be read, is no text, or has more than 16 MiB.
pub(crate) fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(file)?.take(MOST + 1).read_to_string(&mut text)?;
    if read as u64 > MOST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it has more than 16 MiB, which nobody wrote by hand; give another file",
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, vec![b'\n'; 16 << 20]).unwrap();

        assert_eq!(read(&file).unwrap().len(), 16 << 20);
        std::fs::write(&file, vec![b'\n'; (16 << 20) + 1]).unwrap();
        assert_eq!(read(&file).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        if cfg!(target_os = "linux") {
            let endless = read(Path::new("/dev/zero")).unwrap_err();
            assert!(endless.to_string().contains("16 MiB"), "{endless}");
        }
    }
}
