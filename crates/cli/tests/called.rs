//! Mathematics that nobody asks for is not kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources of programs below `dir`, without those of tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// `text` without comments, without what it imports, and without its tests.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let mut kept = String::new();
    let mut is_import = false;
    for line in text[..end].lines() {
        let line = line.trim();
        let begin = line.strip_prefix("pub ").unwrap_or(line);
        is_import |= begin.starts_with("use ") || begin.starts_with("pub(crate) use ");
        if !is_import && !line.starts_with("//") {
            kept += line;
            kept.push('\n');
        }
        is_import &= !line.ends_with(';');
    }
    kept
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|one: char| !one.is_alphanumeric() && one != '_')
}

/// The public functions that `code` declares.
fn functions(code: &str) -> Vec<&str> {
    let declared = code.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub ")?;
        let rest = rest.strip_prefix("const ").unwrap_or(rest);
        words(rest.strip_prefix("fn ")?).next()
    });
    declared.collect()
}

/// Of all `code` the functions of `mathematics` that it does not name again.
fn uncalled<'a>(mathematics: &'a [String], code: &[String]) -> Vec<&'a str> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for word in code.iter().flat_map(|one| words(one)) {
        *named.entry(word).or_default() += 1;
    }
    let all = mathematics.iter().flat_map(|one| functions(one));
    all.filter(|name| named[name] < 2).collect()
}

#[test]
fn every_function_of_the_mathematics_has_a_caller() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let read = |path: &PathBuf| code(&fs::read_to_string(path).unwrap());
    let all: Vec<String> = files.iter().map(read).collect();
    let analyze = crates.join("analyze");
    let own = files.iter().filter(|path| path.starts_with(&analyze));
    let own: Vec<String> = own.map(read).collect();
    assert!(own.len() > 60, "only {} files of analyze", own.len());

    let found = uncalled(&own, &all);

    assert_eq!(found, [""; 0], "called by nobody but their own tests");
}

#[test]
fn a_function_without_a_caller_is_found() {
    let of = "\
        pub use a::{wanted,\n    lonely};\n\
        /// As [`lonely`].\npub const fn wanted() {}\n\
        pub fn lonely() {}\nfn own() { wanted() }\n\
        #[cfg(test)]\nmod tests {\n    fn test() { lonely() }\n}\n";
    let code = [code(of)];

    assert_eq!(uncalled(&code, &code), ["lonely"]);
}
