//! One word, one thing: a name that says much names one type in the workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Words that once named several types each, and say too little by themselves
/// even in a private module or a test. A new type of such a name says what it is
/// of: `WindowFigures`, not `Figures`.
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

/// Whose names are another's: not ours to choose.
const FOREIGN: [(&str, &str); 2] = [
    (
        "crates/view/src/perfetto/wire.rs",
        "the messages of Perfetto's trace format, by the names that it gives them",
    ),
    (
        "crates/otlp/src/proto.rs",
        "the messages of OTLP, by the names that it gives them",
    ),
];

/// Files of which one is built where the other is not: what the second has by the name
/// that the first gives it, is the same for another system.
const STAND_INS: [(&str, &str); 7] = [
    (
        "crates/files/src/system/unix.rs",
        "crates/files/src/system/windows.rs",
    ),
    (
        "crates/session/src/system/linux.rs",
        "crates/session/src/system/windows.rs",
    ),
    (
        "crates/cli/src/args/record.rs",
        "crates/cli/src/args/record_here.rs",
    ),
    (
        "crates/session/src/handlers.rs",
        "crates/session/src/elsewhere/handlers.rs",
    ),
    (
        "crates/session/src/load.rs",
        "crates/session/src/elsewhere/load.rs",
    ),
    (
        "crates/measure/src/linux/awake.rs",
        "crates/session/src/system/windows.rs",
    ),
    (
        "crates/measure/src/linux/boost.rs",
        "crates/session/src/system/windows.rs",
    ),
];

/// A type, as a line of source declares it.
struct Declared<'a> {
    name: &'a str,
    /// Whether anybody but its own module may use it.
    is_given_out: bool,
    /// Whether every crate may.
    is_public: bool,
}

/// The type that `line` declares. An indented `type` that is given to nobody is
/// a trait's, and no name of its own.
fn declared(line: &str) -> Option<Declared<'_>> {
    let code = line.trim_start();
    let public = code.strip_prefix("pub").map(|rest| match rest {
        _ if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, rest)| rest),
        _ => rest,
    });
    let rest = public.unwrap_or(code).trim_start();
    let (kind, rest) = rest
        .strip_prefix("unsafe ")
        .unwrap_or(rest)
        .split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
    let is_a_trait_s = kind == "type" && public.is_none() && code.len() < line.len();
    let name = rest.split(|one: char| !one.is_alphanumeric()).next()?;
    (is_type && !is_a_trait_s).then_some(Declared {
        name,
        is_given_out: public.is_some(),
        is_public: code.starts_with("pub "),
    })
}

/// Of `files`, each a path and its text: the names of several types of which
/// `is_wrong` is true, with where they are declared.
fn ambiguous<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    is_wrong: impl Fn(&str, &[(&str, Declared<'_>)]) -> bool,
) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<(&str, Declared<'_>)>> = BTreeMap::new();
    for (path, text) in files {
        for found in text.lines().filter_map(declared) {
            places.entry(found.name).or_default().push((path, found));
        }
    }
    for places in places.values_mut() {
        for (first, second) in STAND_INS {
            if places.iter().any(|(path, _)| *path == first) {
                places.retain(|(path, _)| *path != second);
            }
        }
    }
    places.retain(|name, places| places.len() > 1 && is_wrong(name, places));
    places
        .iter()
        .map(|(name, places)| {
            let places: Vec<&str> = places.iter().map(|(path, _)| *path).collect();
            format!("{name}: {}", places.join(", "))
        })
        .collect()
}

/// Whether `name` is one of the words that name one type wherever they stand.
fn is_a_word(name: &str, _: &[(&str, Declared<'_>)]) -> bool {
    WORDS.contains(&name)
}

/// Whether several of these are given out by their modules, or one is a word of
/// `model`, which no module takes for something of its own.
fn is_given_out_twice(_: &str, places: &[(&str, Declared<'_>)]) -> bool {
    let given_out = places.iter().filter(|(_, one)| one.is_given_out);
    let of_model =
        |(path, one): &(&str, Declared<'_>)| one.is_public && path.starts_with("crates/model/src/");
    given_out.count() > 1 || places.iter().any(of_model)
}

/// The sources below `crates/`: the path from the root, with slashes, and the
/// text.
fn workspace() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    sources(&crates, &mut found);
    assert!(found.len() > 300, "only {} files were found", found.len());
    found
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let inner = path.strip_prefix(&crates).unwrap();
            let parts: Vec<_> = inner.iter().map(|part| part.to_string_lossy()).collect();
            (format!("crates/{}", parts.join("/")), text)
        })
        .collect()
}

#[test]
fn a_word_names_one_type() {
    let files = workspace();

    let wrong = ambiguous(
        files.iter().map(|(path, text)| (&**path, &**text)),
        is_a_word,
    );

    assert_eq!(wrong, Vec::<String>::new(), "words that name several types");
}

#[test]
fn a_type_that_its_module_gives_out_has_a_name_of_its_own() {
    let files = workspace();
    let is_there = |wanted: &str| files.iter().any(|(path, _)| path == wanted);
    for (foreign, why) in FOREIGN {
        assert!(
            is_there(foreign),
            "{foreign} is gone ({why}): strike it out here"
        );
    }
    for one in STAND_INS.iter().flat_map(|(first, second)| [first, second]) {
        assert!(is_there(one), "{one} is gone: strike it out here");
    }
    let own = files
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .filter(|(path, _)| path.split('/').nth(2) == Some("src"))
        .filter(|(path, _)| FOREIGN.iter().all(|(foreign, _)| path != foreign));

    let wrong = ambiguous(own, is_given_out_twice);

    assert_eq!(wrong, Vec::<String>::new(), "names of several types");
}

#[test]
fn a_second_type_that_is_given_out_is_found() {
    for (first, second) in [
        ("pub struct Late;", "pub(crate) enum Late {}"),
        ("pub(super) struct Late;", "    pub(super) type Late = u8;"),
        ("pub trait Late {}", "pub(crate) unsafe trait Late {}"),
    ] {
        let both = [("a.rs", first), ("b.rs", second)];

        assert_eq!(ambiguous(both, is_given_out_twice), ["Late: a.rs, b.rs"]);
    }
    let model = ("crates/model/src/late.rs", "pub struct Late;");
    let taken = [model, ("crates/view/src/b.rs", "struct Late;")];
    assert_eq!(ambiguous(taken, is_given_out_twice).len(), 1);
    for private in ["struct Late;", "    type Late = u8;"] {
        let apart = [
            ("crates/view/src/a.rs", "pub struct Late;"),
            ("b.rs", private),
        ];
        assert!(ambiguous(apart, is_given_out_twice).is_empty());
    }
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

        assert_eq!(ambiguous(both, is_a_word), ["Late: a.rs, b.rs"], "{second}");
    }
    let apart = [("a.rs", "pub struct Late;"), ("b.rs", "pub struct Later;")];
    assert!(ambiguous(apart, is_a_word).is_empty());
}
