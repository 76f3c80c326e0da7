//! Stores the measured effects of doctor's remedies on this machine.
//!
//! They are in the system's state directory: trying a remedy needs root, and reading the effects
//! does not.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_answer::proven::ProvenEffect;
use laggard_model::Host;
use serde::{Deserialize, Serialize};

use crate::pipe;

/// The version of the file's layout.
const SCHEMA: u32 = 2;
/// Variable with the state directory of a program that systemd sets, and the default.
const VARIABLE: &str = "STATE_DIRECTORY";
const FOLDER: &str = "/var/lib/laggard";
const NAME: &str = "proven.json";

/// The file's content.
#[derive(Debug, Deserialize, Serialize)]
struct ProvenFile {
    schema: u32,
    effects: Vec<ProvenEffect>,
}

/// Returns the directory of the effects.
pub(crate) fn folder() -> PathBuf {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    // There may be several. The first is ours.
    let first = named
        .as_ref()
        .and_then(|paths| std::env::split_paths(paths).next());
    first.unwrap_or_else(|| FOLDER.into())
}

/// Stores `effect` in `folder`, and replaces an earlier result of the same trial. Returns the file.
pub(crate) fn keep(folder: &Path, effect: ProvenEffect) -> anyhow::Result<PathBuf> {
    let place = folder.join(NAME);
    let mut effects = read(&place)?;
    effects.retain(|stored| !effect.replaces(stored));
    effects.push(effect);
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the directory `{}`", folder.display()))?;
    let bytes = pipe::json(&ProvenFile {
        schema: SCHEMA,
        effects,
    })?;
    laggard_files::write(&place, "effects", bytes.as_bytes())?;
    Ok(place)
}

/// Returns the effects in `folder` that were measured on `host` as it is now. The settings must
/// still have the values without the remedy.
pub(crate) fn of(
    folder: &Path,
    host: &Host,
    now: impl Fn(&str) -> Option<String>,
) -> Vec<ProvenEffect> {
    let mut effects = read(&folder.join(NAME)).unwrap_or_else(|err| {
        pipe::say(&format!("{err:#}"));
        Vec::new()
    });
    effects.retain(|effect| {
        effect.is_of(host) && now(&effect.setting).as_ref() == Some(&effect.without)
    });
    effects
}

/// Reads `file`. Returns no effects if it does not exist.
fn read(file: &Path) -> anyhow::Result<Vec<ProvenEffect>> {
    let context = || {
        format!(
            "cannot read the effects of remedies from `{}`; delete it if it is damaged",
            file.display()
        )
    };
    let text = match laggard_files::read_text(file) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(context)?,
    };
    let stored: ProvenFile = serde_json::from_str(&text).with_context(context)?;
    anyhow::ensure!(
        stored.schema == SCHEMA,
        "`{}` has schema {}, and this program supports {SCHEMA}; use a newer laggard, or delete the file",
        file.display(),
        stored.schema
    );
    Ok(stored.effects)
}

#[cfg(test)]
mod tests {
    use laggard_model::{CaveatKind, Nanos};

    use super::*;

    /// Effect with a date that identifies it.
    fn effect(kernel: &str, measured_on: &str) -> ProvenEffect {
        ProvenEffect {
            kind: CaveatKind::TimerMigration,
            setting: "kernel.timer_migration".into(),
            without: "1".into(),
            with: "0".into(),
            measured_on: measured_on.into(),
            node: "here".into(),
            processor: String::new(),
            kernel: kernel.into(),
            build: String::new(),
            load: "fileio".into(),
            changed: Vec::new(),
            equal: Vec::new(),
            equal_within: 1.25,
            without_ns: Nanos::from_secs(1_200),
            with_ns: Nanos::from_secs(1_200),
        }
    }

    fn host(kernel: &str) -> Host {
        Host {
            node: "here".into(),
            kernel: kernel.into(),
            ..Host::default()
        }
    }

    #[test]
    fn effect_is_used_only_with_the_kernel_and_setting_of_its_measurement() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state");
        let none = of(&folder, &host("6.12"), |_| Some("1".into()));

        keep(&folder, effect("6.12", "first")).unwrap();
        keep(&folder, effect("6.18", "other kernel")).unwrap();
        let file = keep(&folder, effect("6.12", "again")).unwrap();

        let effects = |kernel: &str, now: &str| -> Vec<String> {
            let effects = of(&folder, &host(kernel), |_| Some(now.into()));
            effects
                .into_iter()
                .map(|effect| effect.measured_on)
                .collect()
        };
        assert_eq!(none, []);
        assert_eq!(effects("6.12", "1"), ["again"]);
        assert_eq!(effects("6.18", "1"), ["other kernel"]);
        assert_eq!(effects("6.12", "0"), Vec::<String>::new());
        assert_eq!(effects("7.2", "1"), Vec::<String>::new());
        assert_eq!(of(&folder, &host("6.12"), |_| None), []);
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            1,
            "nothing else is left"
        );
        assert_eq!(file, folder.join(NAME));
    }

    #[test]
    fn effects_of_a_remedy_are_kept_per_load() {
        let dir = tempfile::tempdir().unwrap();
        let under = |load: &str, result| ProvenEffect {
            load: load.into(),
            ..effect("6.12", result)
        };

        for effect in [
            under("fileio", "half as often"),
            under("none", "no difference"),
            under("none", "again"),
        ] {
            keep(dir.path(), effect).unwrap();
        }

        let effects = of(dir.path(), &host("6.12"), |_| Some("1".into()));
        let results: Vec<String> = effects
            .into_iter()
            .map(|effect| effect.measured_on)
            .collect();
        assert_eq!(results, ["half as often", "again"]);
    }

    #[test]
    fn a_damaged_file_is_reported_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), "{\"schema\": 9, \"effects\": []}").unwrap();

        let newer = keep(dir.path(), effect("6.12", "it")).unwrap_err();
        fs::write(dir.path().join(NAME), "{").unwrap();
        let damaged = keep(dir.path(), effect("6.12", "it")).unwrap_err();

        assert!(newer.to_string().contains("has schema 9"), "{newer}");
        assert!(
            damaged.to_string().contains("delete it if it is damaged"),
            "{damaged}"
        );
        assert_eq!(fs::read_to_string(dir.path().join(NAME)).unwrap(), "{");
    }
}
