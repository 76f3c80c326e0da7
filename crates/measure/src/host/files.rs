//! Files of the kernel, read from this machine's root or from a copy.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::read::GzDecoder;
use laggard_model::CpuList;

/// Files of the kernel below a root directory.
///
/// A file that is not readable, for any reason, gives `None` or an empty value: the files differ
/// between kernels, architectures and rights, so absence is normal.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

impl Default for Files {
    /// Returns the files of this machine.
    fn default() -> Self {
        Self::below("/")
    }
}

impl Files {
    /// Returns the files of another machine, copied below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the text of a file, without white space and NULs at both ends.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        // Names from the firmware need not be UTF-8.
        let bytes = fs::read(self.path(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches(['\0', '\n', ' ', '\t']).to_owned())
    }

    /// Returns the text of a file compressed with gzip.
    pub(super) fn gzipped_text(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        let file = fs::File::open(self.path(path)).ok()?;
        GzDecoder::new(file).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Parses a file's text as a number or another type.
    pub(super) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Reads a file that contains 0 or another number.
    pub(super) fn switch(&self, path: &str) -> Option<bool> {
        self.value::<i64>(path).map(|value| value != 0)
    }

    /// Reads a file that lists CPUs. Returns an empty list for other contents, such as an unused
    /// `nohz_full`.
    pub(super) fn cpus(&self, path: &str) -> CpuList {
        self.value(path).unwrap_or_default()
    }

    /// Returns the choice in brackets, as in `always [madvise] never`.
    pub(super) fn chosen(&self, path: &str, open: char, close: char) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once(open)?;
        let (chosen, _) = rest.split_once(close)?;
        Some(chosen.to_owned())
    }

    /// Returns the value of a line `key: value` (or `key value`) in a file.
    pub(super) fn field(&self, path: &str, key: &str) -> Option<String> {
        self.text(path)?.lines().find_map(|line| {
            let rest = line.strip_prefix(key)?;
            let value = rest.trim_start_matches([' ', '\t']);
            let value = value.strip_prefix(':').unwrap_or(value);
            (rest != value).then(|| value.trim().to_owned())
        })
    }

    /// Returns the names in a directory, sorted, with numbers in numeric order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    /// Returns whether a file or directory exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(Path::new(path))
    }
}
