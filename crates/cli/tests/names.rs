//! One word, one thing: a name that says much names one type in the workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Words that once named several types each. A new type of such a name says
/// what it is of: `WindowFigures`, not `Figures`.
const WORDS: [&str; 24] = [
    "Advice",
    "Axis",
    "Cell",
    "Deferral",
    "Evidence",
    "Explained",
    "Figures",
    "Interval",
    "Kind",
    "Late",
    "Level",
    "Load",
    "LoadError",
    "Observed",
    "Outcome",
    "Refused",
    "Run",
    "RunError",
    "Seen",
    "Source",
    "Timeline",
    "Verdict",
    "Wanted",
    "Way",
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The name of the type that `line` declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let public = line.strip_prefix("pub").map(|rest| match rest {
        _ if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, rest)| rest),
        _ => rest,
    });
    let (kind, rest) = public.unwrap_or(line).trim_start().split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
    let name = rest.split(|one: char| !one.is_alphanumeric()).next()?;
    is_type.then_some(name)
}

/// Of `files`, each a path and its text: the words that name several types,
/// with where.
fn ambiguous<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in files {
        let names = text.lines().filter_map(declared);
        for name in names.filter(|name| WORDS.contains(name)) {
            places.entry(name).or_default().push(path);
        }
    }
    places.retain(|_, places| places.len() > 1);
    let told = places.iter();
    told.map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect()
}

#[test]
fn a_word_names_one_type() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    sources(&root, &mut found);
    let files: Vec<(String, String)> = found
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            (path.display().to_string(), text)
        })
        .collect();
    assert!(files.len() > 300, "only {} files were found", files.len());

    let wrong = ambiguous(files.iter().map(|(path, text)| (&**path, &**text)));

    assert_eq!(wrong, Vec::<String>::new(), "words that name several types");
}

#[test]
fn a_second_type_of_a_name_is_found_whoever_may_see_it() {
    for second in [
        "struct Late {",
        "pub enum Late {",
        "    pub(super) type Late = u8;",
        "pub(in crate::a) trait Late: Debug {",
        "pub struct Late<'a>(&'a u8);",
    ] {
        let both = [("a.rs", "pub struct Late;"), ("b.rs", second)];

        assert_eq!(ambiguous(both), ["Late: a.rs, b.rs"], "{second}");
    }
    let apart = [("a.rs", "pub struct Late;"), ("b.rs", "pub struct Later;")];
    assert!(ambiguous(apart).is_empty());
}
