//! Sections of `docs/method.md` that comments cite exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the section numbers of the headings of `text`: `6`, `6.4`.
fn sections(text: &str) -> BTreeSet<&str> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .filter_map(|line| line.trim_start_matches('#').trim().split(' ').next())
        .filter(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .collect()
}

/// Returns the sections that `text` cites: the numbers after `docs/method.md`, also
/// across a line break in the comment, and several joined by commas and `and`.
fn citations(text: &str) -> Vec<String> {
    let mut sections = Vec::new();
    for (position, name) in text.match_indices("docs/method.md") {
        let words = text[position + name.len()..].split_whitespace();
        let mut goes_on = true;
        for word in words.filter(|word| !["//", "///", "//!", "*", "#"].contains(word)) {
            if word == "and" {
                goes_on = true;
                continue;
            }
            let number = word.trim_end_matches(['.', ',', ';', ':', ')', '`']);
            let is_number = number
                .split('.')
                .all(|part| !part.is_empty() && part.chars().all(|digit| digit.is_ascii_digit()));
            if !is_number || !goes_on {
                break;
            }
            sections.push(number.to_owned());
            goes_on = word.ends_with(',');
        }
    }
    sections
}

fn sources(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && !["target", "node_modules", "dist", ".node"].contains(&&*name) {
            sources(&path, files);
        } else if ["rs", "c", "h", "ts", "js", "py", "md"]
            .iter()
            .any(|&kind| path.extension().is_some_and(|extension| extension == kind))
        {
            files.push(path);
        }
    }
}

#[test]
fn cited_sections_exist() {
    let method = std::fs::read_to_string(root().join("docs/method.md")).unwrap();
    let sections = sections(&method);
    let mut files = Vec::new();
    for dir in ["crates", "web/src", "bench", "docs"] {
        sources(&root().join(dir), &mut files);
    }
    let mut cited = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for section in citations(&text) {
            cited += 1;
            assert!(
                sections.contains(&*section),
                "{} cites docs/method.md {section}, which is not there",
                file.display()
            );
        }
    }

    assert!(cited > 40, "only {cited} citations were found");
}

#[test]
fn comments_cite_only_files_of_the_repository() {
    // In two pieces, so that this file does not contain a hit.
    let outside = ["METHO", "DS "].concat();
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();

        assert!(
            !text.contains(&outside),
            "{} cites {outside}",
            file.display()
        );
    }
}

#[test]
fn citations_are_found_over_lines_and_in_lists() {
    let text = "(docs/method.md 6.4, 5.2). See\n/// docs/method.md\n/// 9.5). As docs/method.md says; docs/method.md 5 and 10: 100 ms.";

    assert_eq!(citations(text), ["6.4", "5.2", "9.5", "5", "10"]);
    assert!(sections("## 6 How\n### 6.4 Replay\n").contains("6.4"));
}
