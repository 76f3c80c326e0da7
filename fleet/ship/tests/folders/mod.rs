//! Content of test directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns every file below a directory, by its path.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut next = vec![dir.to_path_buf()];
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                next.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                contents.insert(name, fs::read(path).unwrap());
            }
        }
    }
    contents
}
