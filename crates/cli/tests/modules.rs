//! What a module may name: nothing that leads back to it, and a command no
//! other command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// By module, those that it names.
type Named = BTreeMap<String, BTreeSet<String>>;

/// `text` without comments and without the tests at its end.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {");
    let lines = text[..end.unwrap_or(text.len())].lines();
    lines
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first word of `text`.
fn word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|one: char| !one.is_alphanumeric() && one != '_');
    &text[..end.unwrap_or(text.len())]
}

/// What stands right after `path` in `code`: of a list in braces, the first word
/// of each entry.
fn after<'a>(code: &'a str, path: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(path) {
        if code[..at].ends_with(|one: char| one.is_alphanumeric() || "_:".contains(one)) {
            continue;
        }
        let rest = &code[at + path.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.push(word(rest));
            continue;
        };
        let (mut depth, mut from) = (0, 0);
        for (at, one) in list.char_indices() {
            match one {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.push(word(&list[from..at]));
                    from = at + 1;
                }
                _ => {}
            }
            if one == '}' && depth == 0 && from == at + 1 {
                break;
            }
        }
    }
    found
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// All files of Rust below `dir`, each as a path of modules from there.
fn files(dir: &Path) -> Vec<(Vec<String>, String)> {
    let own = ["mod.rs", "lib.rs", "main.rs"].map(|name| read(&dir.join(name)));
    let is_test = |name: &str| {
        let declared = format!("#[cfg(test)]\nmod {name};");
        name == "tests" || own.iter().any(|text| text.contains(&declared))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let below = files(&path).into_iter();
            found.extend(below.map(|(inner, code)| ([vec![name.clone()], inner].concat(), code)));
        } else if path.extension().is_some_and(|end| end == "rs") && !is_test(&name) {
            let is_own = ["mod", "lib", "main"].contains(&&*name);
            let place = if is_own { Vec::new() } else { vec![name] };
            found.push((place, code(&read(&path))));
        }
    }
    found
}

/// What the module of a folder passes on under a shorter name, and whose it is.
fn passed_on(own: &str) -> BTreeMap<&str, &str> {
    let uses = own.split(';').filter_map(|one| {
        let (before, path) = one.split_once("use ")?;
        before.trim_end().ends_with(['b', ')']).then_some(path)
    });
    let mut found = BTreeMap::new();
    for path in uses {
        let path = path.trim_start_matches("self::");
        let words = path.split(|one: char| !one.is_alphanumeric() && one != '_');
        let names = words.skip(1).filter(|name| !name.is_empty());
        found.extend(names.map(|name| (name, word(path))));
    }
    found
}

/// Which of the modules in `dir` name which, directly or by what `dir` passes
/// on. `place` is where `dir` is in its crate.
fn named(dir: &Path, place: &[String]) -> Named {
    let all = files(dir);
    let modules: BTreeSet<&String> = all.iter().filter_map(|(path, _)| path.first()).collect();
    let own = all.iter().find(|(path, _)| path.is_empty());
    let own = own.map(|(_, code)| code.clone());
    let own = own.unwrap_or_else(|| code(&read(&dir.with_extension("rs"))));
    let passed_on = passed_on(&own);
    let from_root = format!(
        "crate::{}",
        place.iter().map(|it| format!("{it}::")).collect::<String>()
    );
    let mut named = Named::new();
    for (path, code) in &all {
        let Some(module) = path.first() else { continue };
        let up = "super::".repeat(path.len());
        for name in [after(code, &from_root), after(code, &up)].concat() {
            let name = passed_on.get(name).copied().unwrap_or(name).to_owned();
            if modules.contains(&name) && name != *module {
                named.entry(module.clone()).or_default().insert(name);
            }
        }
    }
    named
}

/// All modules that `from` names, and they, and so on.
fn reach<'a>(named: &'a Named, from: &'a String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        let names = named.get(module).into_iter().flatten();
        next.extend(names.filter(|name| seen.insert(*name)));
    }
    seen
}

/// Modules that lead back to themselves, those of a circle together.
fn circles(named: &Named) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = named
        .keys()
        .map(|module| (module, reach(named, module)))
        .collect();
    let back = |module: &&String| reached[*module].contains(*module);
    let together = |module: &String| {
        let is_there =
            |other: &&&String| reached.get(**other).is_some_and(|it| it.contains(module));
        let circle = reached[module].iter().filter(is_there);
        circle.map(|one| (*one).clone()).collect()
    };
    named.keys().filter(back).map(together).collect()
}

/// The circles in `dir` and in the folders in it.
fn circles_in(dir: &Path, of: &str, place: &[String]) -> Vec<String> {
    let circles = circles(&named(dir, place)).into_iter();
    let mut found: Vec<String> = circles
        .map(|circle| format!("{of}: {}", circle.join(" ")))
        .collect();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let place = [place, std::slice::from_ref(&name)].concat();
            found.extend(circles_in(&path, &format!("{of}/{name}"), &place));
        }
    }
    found
}

#[test]
fn no_module_leads_back_to_itself() {
    let mut found = Vec::new();
    for entry in fs::read_dir(crates()).unwrap() {
        let dir = entry.unwrap().path();
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        if dir.join("src").is_dir() {
            found.extend(circles_in(&dir.join("src"), &name, &[]));
        }
    }
    found.sort();

    assert_eq!(
        found,
        Vec::<String>::new(),
        "modules that name each other in a circle; move what both need below them"
    );
}

#[test]
fn a_circle_is_found_however_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = dir.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    file(
        "lib.rs",
        "mod a;\nmod b;\nmod c;\npub use c::{Seen, Told};\n",
    );
    file("b.rs", "fn b() { super::c::told() }\n// use crate::a;\n");
    file("c.rs", "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n");
    let named_by_a = [
        "use crate::b::{self, x};",
        "use crate::{c, d::{e}, b};",
        "use super::b;",
        "fn a() { crate::b::x() }",
    ];
    for text in named_by_a {
        file("a.rs", text);
        file("c.rs", "use crate::{x::{y, z}, a};");
        assert_eq!(circles_in(dir.path(), "k", &[]), ["k: a b c"], "{text}");
        file("c.rs", "// use crate::a;\n");
        assert!(circles_in(dir.path(), "k", &[]).is_empty(), "{text}");
    }
    file("b.rs", "use crate::Told;");
    file("c.rs", "use crate::b;");
    assert_eq!(circles_in(dir.path(), "k", &[]), ["k: b c"]);
    file("c.rs", "");
    file("d/mod.rs", "pub use y::Y;\n");
    file("d/x.rs", "use super::Y;");
    file("d/y.rs", "use crate::d::x::X;");
    assert_eq!(circles_in(dir.path(), "k", &[]), ["k/d: x y"]);
}

/// The modules that carry out a command: the program calls one of them.
fn commands(main: &str) -> BTreeSet<String> {
    let lines = main.lines().filter(|line| line.contains("Command::"));
    let called = lines.filter_map(|line| line.split_once("=> "));
    called.map(|(_, call)| word(call).to_owned()).collect()
}

#[test]
fn no_command_calls_another() {
    let dir = crates().join("cli/src");
    let commands = commands(&read(&dir.join("main.rs")));
    assert!(commands.len() >= 14, "only {commands:?} were found");
    let named = named(&dir, &[]);

    let mut wrong = Vec::new();
    for command in &commands {
        let others = named.get(command).into_iter().flatten();
        let others = others.filter(|other| commands.contains(*other));
        wrong.extend(others.map(|other| format!("{command} -> {other}")));
    }

    assert_eq!(
        wrong,
        Vec::<String>::new(),
        "what two commands need goes into a module that is none, or into a crate below"
    );
}

#[test]
fn libraries_neither_print_nor_end_the_program_nor_read_the_environment() {
    let theirs_not = ["println!", "process::exit", "env::var", "env::args"];
    for name in [
        "model", "measure", "record", "analyze", "session", "answer", "view",
    ] {
        for (path, code) in files(&crates().join(name).join("src")) {
            let found = theirs_not.iter().find(|it| code.contains(**it));
            assert_eq!(found, None, "in {name}/src/{}", path.join("/"));
        }
    }
}
