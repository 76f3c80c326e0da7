//! What folders of tests hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Every file below a folder, by its path.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut next = vec![dir.to_path_buf()];
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                next.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                all.insert(name, fs::read(path).unwrap());
            }
        }
    }
    all
}
