//! The documents read well in a terminal, too, and their links lead somewhere.

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

/// Returns the numbers of lines that are too wide. Tables, links and printed output are exempt.
fn too_wide(text: &str) -> Vec<usize> {
    let mut is_printed = false;
    let mut numbers = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_printed = !is_printed;
        }
        let is_words = !is_printed && !line.starts_with('|') && !line.contains("](http");
        if is_words && !line.starts_with("    ") && line.chars().count() > MAX_WIDTH {
            numbers.push(number + 1);
        }
    }
    numbers
}

#[test]
fn a_line_of_words_is_no_wider_than_120_characters() {
    let documents = documents();
    assert!(documents.len() > 10, "{documents:?}");
    let wide: Vec<(PathBuf, Vec<usize>)> = documents
        .into_iter()
        .map(|path| {
            let lines = too_wide(&fs::read_to_string(&path).unwrap());
            (path, lines)
        })
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

/// Returns the target of each inline link of `text`, without code blocks.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|part| part.split("](").skip(1));
    targets
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains(':') && !target.contains(char::is_whitespace))
        .collect()
}

/// Returns the anchors of the headings of `text`, as GitHub and mdBook name them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let names = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    names
        .map(|name| name.replace(' ', "-"))
        .map(|name| {
            name.chars()
                .filter(|&letter| letter.is_alphanumeric() || "-_".contains(letter))
                .collect()
        })
        .collect()
}

#[test]
fn links_lead_to_existing_files_and_headings() {
    let mut checked = 0;
    for path in documents() {
        // Links in the changelog belong to the version that it describes.
        if path.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: no file `{link}`", path.display());
            if !anchor.is_empty() {
                let anchors = anchors(&fs::read_to_string(&target).unwrap());
                let is_there = anchors.iter().any(|name| name == anchor);
                assert!(is_there, "{}: no heading `{link}`", path.display());
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn pages_are_all_in_the_table_of_contents() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    for path in documents() {
        let is_page = path.starts_with(&docs) && !path.ends_with("SUMMARY.md");
        assert!(!is_page || listed.contains(&path), "{}", path.display());
    }
}

#[test]
fn links_and_anchors_are_parsed() {
    let text = "## `a b`: C?\n[x](y.md#a-b-c) [z](https://z)\n```\n[n](o)\n```\n";

    assert_eq!(links(text), ["y.md#a-b-c"]);
    assert_eq!(anchors(text), ["a-b-c"]);
}

#[test]
fn tables_and_links_may_be_wider() {
    let wide = "w".repeat(121);

    assert_eq!(
        too_wide(&format!("{wide}\n|{wide}\n```\n{wide}\n```\n- {wide}")),
        [1, 6]
    );
}
