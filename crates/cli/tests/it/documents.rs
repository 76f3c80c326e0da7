//! The documents read well in a terminal, too.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest line of prose, in characters.
const MAX_WIDTH: usize = 120;

/// Returns the Markdown files of the root, `windows` and `docs`, with subdirectories of the latter.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    let mut directories = vec![root.clone(), root.join("windows"), root.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && directory.starts_with(root.join("docs")) {
                directories.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                paths.push(path);
            }
        }
    }
    paths
}

/// Lines that are too wide, by number. A table's row and a link are as wide as
/// they are, and what a program printed is as it was.
fn too_wide(text: &str) -> Vec<usize> {
    let mut is_printed = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_printed = !is_printed;
        }
        let is_words = !is_printed && !line.starts_with('|') && !line.contains("](http");
        if is_words && !line.starts_with("    ") && line.chars().count() > MAX_WIDTH {
            found.push(number + 1);
        }
    }
    found
}

#[test]
fn a_line_of_words_is_no_wider_than_120_characters() {
    let documents = documents();
    assert!(documents.len() > 10, "{documents:?}");
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(too_wide(&text), [0_usize; 0], "{}", path.display());
    }
}

#[test]
fn what_is_no_line_of_words_may_be_wider() {
    let wide = "w".repeat(121);

    assert_eq!(
        too_wide(&format!("{wide}\n|{wide}\n```\n{wide}\n```\n- {wide}")),
        [1, 6]
    );
}
