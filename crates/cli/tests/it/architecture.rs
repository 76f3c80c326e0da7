//! ARCHITECTURE is true: which crate may know which, and where things go.

use std::path::{Path, PathBuf};

/// Made for tests alone: any crate may have it to test with.
const FOR_TESTS: &str = "made";
/// Crates, lowest level first. Crates of the same level do not depend on each other.
const LEVELS: [&[&str]; 10] = [
    &["model", "marks"],
    &["bpf", "etl", "files"],
    &["measure", "workload", "record", "analyze", "otlp"],
    &["measure-windows"],
    &["session", "answer", "trials"],
    &[FOR_TESTS],
    &["view"],
    &["console"],
    &["serve"],
    &["cli", "testkit"],
];

/// The dependencies of `manifest` that are crates of this workspace, of every
/// kind and for every target.
fn own_dependencies(manifest: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in manifest {
        let Some(table) = value.as_table() else {
            continue;
        };
        if key.ends_with("dependencies") {
            let own = table
                .keys()
                .filter_map(|name| name.strip_prefix("laggard-"))
                .filter(|name| key != "dev-dependencies" || *name != FOR_TESTS);
            names.extend(own.map(str::to_owned));
        } else {
            names.extend(own_dependencies(table));
        }
    }
    names
}

fn level(name: &str) -> usize {
    let level = LEVELS.iter().position(|level| level.contains(&name));
    level.unwrap_or_else(|| panic!("crate `{name}` has no level; give it one here"))
}

/// The arrows of the crate `name` that do not point down.
fn upward(name: &str, manifest: &str) -> Vec<String> {
    let dependencies = own_dependencies(&manifest.parse().unwrap());
    dependencies
        .into_iter()
        .filter(|below| level(below) >= level(name))
        .map(|below| format!("{name} -> {below}"))
        .collect()
}

#[test]
fn every_arrow_between_crates_points_down() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crate_count = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let entry = entry.unwrap();
        let Ok(manifest) = std::fs::read_to_string(entry.path().join("Cargo.toml")) else {
            continue;
        };
        crate_count += 1;
        wrong.extend(upward(entry.file_name().to_str().unwrap(), &manifest));
    }

    assert_eq!(wrong, Vec::<String>::new(), "arrows that run up");
    assert!(crate_count >= 9, "only {crate_count} crates were found");
}

/// The compiler names the modules that must treat a new stage, class of causes, loss, warning or
/// private name.
#[test]
fn modules_that_decide_on_each_variant_have_no_wildcard() {
    for module in [
        "analyze/src/causes/mod.rs",
        "answer/src/trust/mod.rs",
        "measure/src/board/collector/mod.rs",
        "model/src/caveat.rs",
        "record/src/redact/mod.rs",
    ] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{module}"));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]"),
            "{module}"
        );
    }
}

#[test]
fn an_arrow_that_runs_up_or_across_is_found_in_every_table() {
    for table in [
        "dependencies",
        "dev-dependencies",
        "build-dependencies",
        "target.'cfg(unix)'.dependencies",
    ] {
        let up =
            format!("[{table}]\nlaggard-view.workspace = true\nlaggard-model.workspace = true\n");

        assert_eq!(upward("analyze", &up), ["analyze -> view"], "in {table}");
    }
    assert_eq!(
        upward(
            "session",
            "[dependencies]\nlaggard-answer.workspace = true\n"
        ),
        ["session -> answer"]
    );
}

/// Collects all files and directories of the repository, without build output.
fn all_paths(dir: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir()
            && !["target", "node_modules", "dist"].contains(&&*name)
            && !name.starts_with('.')
        {
            all_paths(&path, paths);
        }
        paths.push(path);
    }
}

/// Returns the words between backticks that look like paths.
fn paths_named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split('`').skip(1).step_by(2);
    words.filter(|word| {
        let is_path = word.contains('/') || word.ends_with(".rs") || word.ends_with(".h");
        is_path && !word.contains(' ') && !word.starts_with('/') && !word.contains('*')
    })
}

#[test]
fn every_path_of_the_recipes_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, recipes) = text.split_once("## To add a ...").unwrap();
    let mut paths = Vec::new();
    all_paths(&root, &mut paths);
    let mut path_count = 0;
    for named in paths_named(recipes) {
        path_count += 1;
        assert!(
            paths.iter().any(|path| path.ends_with(named)),
            "ARCHITECTURE's recipes name `{named}`, which is not there"
        );
    }

    assert!(path_count > 25, "only {path_count} paths were found");
}
