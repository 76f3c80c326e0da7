//! Loads of real applications, each described by a TOML file.
//!
//! A recipe has steps: shell commands that are run again and again, one after
//! the other or all together, in a folder of their own that goes away at the
//! end. A run that ends well counts as work done.

mod run;
mod trial;

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use laggard_model::{Meant, UsagePattern, nearest};
use nix::unistd::geteuid;
use serde::Deserialize;

use super::{Builtin, Busy, BusyError};

pub use run::run_recipe;
pub use trial::{ProgramTrial, Unusable};

/// Recipes that are part of the program, from the folder `loads`.
const BUILT_IN: [&str; 6] = [
    include_str!("../../../../../loads/office.toml"),
    include_str!("../../../../../loads/workstation.toml"),
    include_str!("../../../../../loads/game.toml"),
    include_str!("../../../../../loads/web.toml"),
    include_str!("../../../../../loads/kernel.toml"),
    include_str!("../../../../../loads/net.toml"),
];

/// A load of real applications.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name.
    pub name: String,
    /// What it does, in one line.
    pub about: String,
    /// How its steps follow each other.
    #[serde(default)]
    pub order: Order,
    /// What its throughput counts: `steps`, `runs`.
    pub unit: String,
    /// Who uses such applications how, where that means something.
    pub usage: Option<UsagePattern>,
    /// Commands that are run once before.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// Commands that are run again and again.
    pub step: Vec<Step>,
    /// Commands that are run once after; they have a second.
    #[serde(default)]
    pub clean: Vec<Step>,
}

/// How steps follow each other.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// One after the other, then from the first again.
    #[default]
    Sequence,
    /// All at once, each over and over.
    Together,
}

/// One command of a load.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it is.
    pub name: String,
    /// What `/bin/sh -c` runs; `exec` spares a process.
    pub command: String,
    /// How many at once.
    #[serde(default = "one")]
    pub parallel: u32,
    /// What a run that ends well counts as.
    #[serde(default)]
    pub work: Work,
    /// Programs that it needs.
    #[serde(default)]
    pub needs: Vec<Need>,
}

/// How much work a run of a command is, in the load's unit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(untagged)]
pub enum Work {
    /// So much, each time; 0 for a step that only keeps others company.
    Units(u64),
    /// What the command says: see [`WorkReport`].
    Told(WorkReport),
}

/// Where a command says how much it did.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum WorkReport {
    /// The last line that it writes to standard output is a number.
    Output,
}

impl Default for Work {
    fn default() -> Self {
        Self::Units(1)
    }
}

const fn one() -> u32 {
    1
}

/// A program, and where it comes from.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// Its name in PATH.
    pub program: String,
    /// The Debian package that has it.
    pub package: String,
    /// What `/bin/sh -c` runs to see whether it works; it does no work.
    pub test: Option<String>,
    /// What is in its output then.
    pub shows: Option<String>,
}

/// Why a load of real applications cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// There is no such load.
    #[error(
        "`{0}` is not a load; `laggard load list` shows those there are, or give a TOML file{1}"
    )]
    Unknown(String, Meant),
    /// So many busy processes, or such turns, are not possible.
    #[error(transparent)]
    Busy(#[from] BusyError),
    /// The file cannot be read.
    #[error("cannot read the load `{}`; check the name", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is no load.
    #[error("`{0}` is not a load; `laggard load show kernel` prints one to start from")]
    Malformed(String, #[source] toml::de::Error),
    /// A number in the file is out of its range.
    #[error("load `{0}`: {1}")]
    Invalid(String, String),
    /// Programs are missing.
    #[error("load `{load}` needs {}; install with `apt-get install {}`", programs.join(", "), packages.join(" "))]
    Missing {
        /// The load.
        load: String,
        /// Programs that are not in PATH.
        programs: Vec<String>,
        /// Packages that have them.
        packages: Vec<String>,
    },
    /// A program is there and does not work.
    #[error(
        "load `{load}` cannot use `{}`: {}; install with `apt-get install {}` and put it first in PATH",
        program.program,
        program.why,
        program.package
    )]
    Unusable {
        /// The load.
        load: String,
        /// The program.
        program: Unusable,
    },
    /// A folder to work in could not be had.
    #[error("load `{0}` has no folder to work in; point TMPDIR at one with 1 GB free")]
    Folder(String, #[source] io::Error),
    /// The system gave no thread.
    #[error("load `{0}`: no more threads; see `ulimit -u` and the cgroup's pids.max")]
    Thread(String, #[source] io::Error),
    /// A command could not be run.
    #[error("load `{load}`, step `{step}`: cannot run /bin/sh")]
    Start {
        /// The load.
        load: String,
        /// The step.
        step: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command failed.
    #[error("load `{load}`, step `{step}` ended with {status}; run its command by hand to see why")]
    Failed {
        /// The load.
        load: String,
        /// The step.
        step: String,
        /// How it ended.
        status: String,
    },
    /// A command that should say how much it did does not.
    #[error(
        "load `{load}`, step `{step}` wrote `{said}` where its work was to be; its last line of output must be a whole number"
    )]
    Untold {
        /// The load.
        load: String,
        /// The step.
        step: String,
        /// Its last line.
        said: String,
    },
}

impl RecipeError {
    /// Whether programs that the load needs are not here, rather than that
    /// anything went wrong.
    #[must_use]
    pub const fn is_unmet(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Unusable { .. })
    }
}

impl Recipe {
    /// The recipes that are part of the program.
    ///
    /// # Errors
    /// Never, as a test shows.
    pub fn built_in() -> Result<Vec<Self>, RecipeError> {
        BUILT_IN
            .into_iter()
            .map(|text| Self::parse(text, "built in"))
            .collect()
    }

    /// The recipe of this name, or in this file.
    ///
    /// # Errors
    /// When there is none, or the file is not one.
    pub fn find(name: &str) -> Result<Self, RecipeError> {
        let mut recipes = Self::built_in()?;
        if let Some(found) = recipes.iter().position(|one| one.name == name) {
            return Ok(recipes.swap_remove(found));
        }
        let file = Path::new(name);
        if !name.ends_with(".toml") {
            let recipes = recipes.iter().map(|one| one.name.as_str());
            let all = recipes
                .chain(Builtin::ALL.map(Builtin::name))
                .chain(Busy::NAMES);
            let meant = nearest(name, &all.collect::<Vec<_>>());
            return Err(RecipeError::Unknown(name.into(), meant));
        }
        let text = laggard_files::read_text(file)
            .map_err(|source| RecipeError::Unreadable(file.into(), source))?;
        Self::parse(&text, name)
    }

    /// The text of the built-in recipe of this name.
    pub fn text_of(name: &str) -> Option<&'static str> {
        BUILT_IN
            .into_iter()
            .find(|text| Self::parse(text, name).is_ok_and(|one| one.name == name))
    }

    fn parse(text: &str, from: &str) -> Result<Self, RecipeError> {
        let recipe: Self =
            toml::from_str(text).map_err(|source| RecipeError::Malformed(from.into(), source))?;
        let invalid = |why: &str| Err(RecipeError::Invalid(recipe.name.clone(), why.into()));
        if recipe.step.is_empty() {
            return invalid("it has no step; write at least one `[[step]]`");
        }
        if recipe
            .step
            .iter()
            .any(|step| step.parallel == 0 || step.parallel > 1_024)
        {
            return invalid("`parallel` must be from 1 to 1024");
        }
        if let Some(usage) = recipe.usage {
            let within = |value: f64, most: f64| value > 0.0 && value <= most;
            if !within(usage.compression, 1_000.0)
                || !within(usage.hours_per_day, 24.0)
                || !within(usage.days_per_week, 7.0)
            {
                return invalid(
                    "`usage` must have a compression above 0, up to 24 hours a day and up to 7 days a week",
                );
            }
        }
        Ok(recipe)
    }
}

/// Where programs are looked for: PATH, and then where Debian keeps games,
/// which root's PATH leaves out. Root leaves out directories that others may write to.
fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_root = geteuid().is_root();
    let caller = std::env::var("SUDO_UID").ok();
    let caller = caller.and_then(|user| user.parse().ok());
    let directories: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|directory| !is_root || is_safe_for_root(directory, caller))
        .chain([PathBuf::from("/usr/games")])
        .collect();
    // None has a colon: they come from PATH.
    std::env::join_paths(directories).unwrap_or_default()
}

/// Whether root may run what lies in a directory: nobody but root, and the `caller` of
/// `sudo`, can put programs into it. A group that may is root's choice.
fn is_safe_for_root(directory: &Path, caller: Option<u32>) -> bool {
    directory.is_absolute()
        && directory.metadata().is_ok_and(|data| {
            let has_safe_owner = data.uid() == 0 || Some(data.uid()) == caller;
            has_safe_owner && data.mode() & 0o002 == 0
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::time::Duration;

    use super::*;

    #[test]
    fn directory_that_others_may_write_to_is_not_safe_for_root() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let set_mode = |mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let own = geteuid().as_raw();

        set_mode(0o755);
        assert!(is_safe_for_root(path, Some(own)));
        set_mode(0o777);
        assert!(!is_safe_for_root(path, Some(own)));
        assert!(!is_safe_for_root(Path::new("."), Some(own)));
        assert!(!is_safe_for_root(&path.join("missing"), Some(own)));
        set_mode(0o755);
        match chown(path, Some(65534), None) {
            Ok(()) => {
                assert!(!is_safe_for_root(path, None));
                assert!(is_safe_for_root(path, Some(65534)));
            }
            Err(err) => println!("skipped: a directory of another user ({err})"),
        }
    }

    #[test]
    fn every_built_in_recipe_is_read_and_says_what_it_needs() {
        let all = Recipe::built_in().unwrap();

        assert_eq!(all.len(), BUILT_IN.len());
        for recipe in all {
            assert!(!recipe.about.is_empty(), "for {}", recipe.name);
            let needs: Vec<&Need> = recipe.step.iter().flat_map(|step| &step.needs).collect();
            assert!(!needs.is_empty(), "for {}", recipe.name);
            for need in needs {
                assert!(need.test.is_some(), "{} for {}", need.program, recipe.name);
            }
        }
    }

    #[test]
    fn missing_programs_are_refused_with_the_packages_that_have_them() {
        let text = "name = \"x\"\nabout = \"y\"\nunit = \"runs\"\n[[step]]\nname = \"s\"\ncommand = \"true\"\n\
                    needs = [{ program = \"no-such-program-42\", package = \"some-package\" }]";

        let trial = ProgramTrial {
            patience: Duration::from_secs(60),
            user: None,
        };

        let recipe = Recipe::parse(text, "x").unwrap();
        let err = recipe.try_programs(trial).unwrap_err();

        assert_eq!(
            err.to_string(),
            "load `x` needs no-such-program-42; install with `apt-get install some-package`"
        );
    }

    #[test]
    fn a_recipe_without_steps_or_with_a_wrong_word_is_refused() {
        for text in [
            "name = \"x\"\nabout = \"y\"\nunit = \"runs\"\nstep = []",
            "name = \"x\"\nabout = \"y\"\nunit = \"runs\"\nstps = 1",
        ] {
            assert!(Recipe::parse(text, "x").is_err(), "for {text}");
        }
    }
}
