//! The build contains no information about its machine.

#![cfg(target_os = "linux")]

use std::path::Path;

#[test]
fn no_bpf_object_names_the_source_directory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let root = root.as_os_str().as_encoded_bytes();
    let mut objects = 0;
    for entry in std::fs::read_dir(env!("OUT_DIR")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "o") {
            objects += 1;
            let object = std::fs::read(&path).unwrap();
            let is_named = object.windows(root.len()).any(|part| part == root);
            assert!(!is_named, "{}", path.display());
        }
    }

    assert!(objects > 10, "{objects}");
}
