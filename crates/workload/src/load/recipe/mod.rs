//! Loads of real applications, each described by a TOML file.
//!
//! A recipe has steps: shell commands that are run repeatedly, in sequence or all
//! together, in a separate directory that is removed at the end. A run with exit status
//! 0 counts as work done.

mod run;
mod trial;

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use laggard_model::{Meant, UsagePattern, nearest};
use nix::unistd::geteuid;
use serde::Deserialize;

use super::{Builtin, Busy, BusyError, RunError};

pub use run::run_recipe;
pub use trial::{ProgramTrial, Unusable};

/// Recipes that are part of the program, from the directory `loads`.
const BUILT_IN: [&str; 7] = [
    include_str!("../../../../../loads/office.toml"),
    include_str!("../../../../../loads/workstation.toml"),
    include_str!("../../../../../loads/game.toml"),
    include_str!("../../../../../loads/web.toml"),
    include_str!("../../../../../loads/kernel.toml"),
    include_str!("../../../../../loads/net.toml"),
    include_str!("../../../../../loads/sound.toml"),
];

/// Load of real applications.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub name: String,
    /// Description in one line.
    pub about: String,
    /// Order of its steps.
    #[serde(default)]
    pub order: Order,
    /// Unit of its throughput: `steps`, `runs`.
    pub unit: String,
    /// Usage pattern of the imitated applications, if known.
    pub usage: Option<UsagePattern>,
    /// Whether `NAME:HOST` lets another machine take part.
    #[serde(default)]
    pub takes_host: bool,
    /// That machine. Its name is in the variable `LAGGARD_LOAD_HOST` of the commands, which is
    /// empty without one.
    #[serde(skip)]
    pub host: Option<String>,
    /// Commands that are run once before.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// Commands that are run repeatedly.
    pub step: Vec<Step>,
    /// Commands that are run once after; they have a second.
    #[serde(default)]
    pub clean: Vec<Step>,
}

/// Order of steps.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Run in sequence, then from the first again.
    #[default]
    Sequence,
    /// All at the same time, each repeatedly.
    Together,
}

/// Command of a load.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub name: String,
    /// Code for `/bin/sh -c`; `exec` saves a process.
    pub command: String,
    /// Number of simultaneous runs.
    #[serde(default = "one")]
    pub parallel: u32,
    /// Work of a run with exit status 0.
    #[serde(default)]
    pub work: Work,
    /// Programs that the command needs.
    #[serde(default)]
    pub needs: Vec<Need>,
}

/// Amount of work of a run, in the load's unit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(untagged)]
pub enum Work {
    /// Fixed amount; 0 for an auxiliary step.
    Units(u64),
    /// Amount that the command reports: see [`WorkReport`].
    Told(WorkReport),
}

/// Source of the amount of work.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum WorkReport {
    /// The last line of standard output is a number.
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

/// Program and its package.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// Name in PATH.
    pub program: String,
    /// Debian package that contains it.
    pub package: String,
    /// Code for `/bin/sh -c` that tests whether it works, without doing work.
    pub test: Option<String>,
    /// Text that the output of the test contains.
    pub shows: Option<String>,
}

/// Reason why a load of real applications cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// Unknown name.
    #[error(
        "`{0}` is not a load; `laggard load list` shows the available ones, or give a TOML file{1}"
    )]
    Unknown(String, Meant),
    /// A load occurs twice among several.
    #[error("`{loads}` has the load `{again}` twice; give each load once")]
    Twice {
        /// Text of the user.
        loads: String,
        again: String,
    },
    /// Invalid number of busy processes, or invalid turn.
    #[error(transparent)]
    Busy(#[from] BusyError),
    /// This machine cannot run a built-in load.
    #[error(transparent)]
    Builtin(#[from] RunError),
    /// The file cannot be read.
    #[error("cannot read the load `{}`; check the name", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is not a load.
    #[error("`{0}` is not a load; `laggard load show kernel` prints one to start from")]
    Malformed(String, #[source] toml::de::Error),
    /// A number in the file is out of its range.
    #[error("load `{0}`: {1}")]
    Invalid(String, String),
    /// Programs are missing.
    #[error("load `{load}` needs {}; install with `apt-get install {}`", programs.join(", "), packages.join(" "))]
    Missing {
        load: String,
        /// Programs that are not in PATH.
        programs: Vec<String>,
        /// Packages that contain them.
        packages: Vec<String>,
    },
    /// A program exists and does not work.
    #[error(
        "load `{load}` cannot use `{}`: {}; install with `apt-get install {}` and put it first in PATH",
        program.program,
        program.why,
        program.package
    )]
    Unusable { load: String, program: Unusable },
    /// A working directory could not be created.
    #[error("load `{0}` has no working directory; point TMPDIR at one with 1 GB free")]
    Folder(String, #[source] io::Error),
    /// A thread could not be created.
    #[error("load `{0}`: no more threads; see `ulimit -u` and the cgroup's pids.max")]
    Thread(String, #[source] io::Error),
    /// A command could not be run.
    #[error("load `{load}`, step `{step}`: cannot run /bin/sh")]
    Start {
        load: String,
        step: String,
        source: io::Error,
    },
    /// A command failed.
    #[error(
        "load `{load}`, step `{step}` ended with {status}; run its command manually to see why"
    )]
    Failed {
        load: String,
        step: String,
        /// Exit status as text.
        status: String,
    },
    /// A command did not report its amount of work.
    #[error(
        "load `{load}`, step `{step}` wrote `{said}` instead of its amount of work; its last line of output must be an integer"
    )]
    Untold {
        load: String,
        step: String,
        /// Its last line.
        said: String,
    },
}

impl RecipeError {
    /// Returns whether programs that the load needs are missing, as opposed to a
    /// failure.
    #[must_use]
    pub const fn is_unmet(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. } | Self::Unusable { .. } | Self::Builtin(_)
        )
    }
}

impl Recipe {
    /// Returns the recipes that are part of the program.
    ///
    /// # Errors
    /// Never; a test reads all of them.
    pub fn built_in() -> Result<Vec<Self>, RecipeError> {
        BUILT_IN
            .into_iter()
            .map(|text| Self::parse(text, "built in"))
            .collect()
    }

    /// Finds the recipe of this name or in this file.
    ///
    /// # Errors
    /// If the recipe is missing, or the file is not a recipe.
    pub fn find(name: &str) -> Result<Self, RecipeError> {
        let mut recipes = Self::built_in()?;
        if let Some(position) = recipes.iter().position(|recipe| recipe.name == name) {
            return Ok(recipes.swap_remove(position));
        }
        if let Some((base, host)) = name.split_once(':')
            && let Some(position) = recipes.iter().position(|recipe| recipe.name == base)
            && recipes[position].takes_host
        {
            return recipes.swap_remove(position).with_host(host);
        }
        let file = Path::new(name);
        if !name.ends_with(".toml") {
            let recipes = recipes.iter().map(|recipe| recipe.name.as_str());
            let names = recipes
                .chain(Builtin::ALL.iter().map(|load| load.name()))
                .chain(Busy::NAMES);
            let meant = nearest(name, &names.collect::<Vec<_>>());
            return Err(RecipeError::Unknown(name.into(), meant));
        }
        let text = laggard_files::read_text(file)
            .map_err(|source| RecipeError::Unreadable(file.into(), source))?;
        Self::parse(&text, name)
    }

    fn with_host(self, host: &str) -> Result<Self, RecipeError> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || ".-:%_".contains(letter);
        // A leading dash would be an option of the program that gets it.
        if host.is_empty() || host.starts_with('-') || !host.chars().all(is_part) {
            let why = format!(
                "`{host}` is not the name or address of a host; write `{}:192.0.2.7`",
                self.name
            );
            return Err(RecipeError::Invalid(self.name, why));
        }
        Ok(Self {
            name: [&self.name, host].join(":"),
            host: Some(host.into()),
            ..self
        })
    }

    /// Returns the text of the built-in recipe of this name.
    pub fn text_of(name: &str) -> Option<&'static str> {
        BUILT_IN
            .into_iter()
            .find(|text| Self::parse(text, name).is_ok_and(|recipe| recipe.name == name))
    }

    fn parse(text: &str, from: &str) -> Result<Self, RecipeError> {
        let recipe: Self =
            toml::from_str(text).map_err(|source| RecipeError::Malformed(from.into(), source))?;
        let invalid = |why: &str| Err(RecipeError::Invalid(recipe.name.clone(), why.into()));
        if recipe.step.is_empty() {
            return invalid("the load has no step; add at least one `[[step]]`");
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

/// Returns the directories for programs: PATH, and Debian's directory for games, which
/// is not in root's PATH. Root omits directories that others may write to.
fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_root = geteuid().is_root();
    let caller = std::env::var("SUDO_UID").ok();
    let caller = caller.and_then(|user| user.parse().ok());
    let directories: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|directory| !is_root || is_safe_for_root(directory, caller))
        .chain([PathBuf::from("/usr/games")])
        .collect();
    // No entry has a colon: they come from PATH.
    std::env::join_paths(directories).unwrap_or_default()
}

/// Returns whether root may run programs from a directory: only root and the `caller`
/// of `sudo` may write to it. A group with write access is root's choice.
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
    fn load_with_a_host_has_it_in_its_name() {
        let load = Recipe::find("net:fe80::1%eth0").unwrap();

        assert_eq!(load.name, "net:fe80::1%eth0");
        assert_eq!(load.host.as_deref(), Some("fe80::1%eth0"));
        assert_eq!(Recipe::find("net").unwrap().host, None);
        for name in ["net:", "net:-R", "net:a b", "net:$(id)"] {
            let err = Recipe::find(name).unwrap_err().to_string();
            assert!(err.contains("write `net:192.0.2.7`"), "{name}: {err}");
        }
        let err = Recipe::find("office:there").unwrap_err().to_string();
        assert!(err.contains("is not a load"), "{err}");
    }

    #[test]
    fn directory_writable_by_others_is_not_safe_for_root() {
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
    fn built_in_recipes_are_valid_and_list_their_programs() {
        let recipes = Recipe::built_in().unwrap();

        assert_eq!(recipes.len(), BUILT_IN.len());
        for recipe in recipes {
            assert!(!recipe.about.is_empty(), "for {}", recipe.name);
            let needs: Vec<&Need> = recipe.step.iter().flat_map(|step| &step.needs).collect();
            assert!(!needs.is_empty(), "for {}", recipe.name);
            for need in needs {
                assert!(need.test.is_some(), "{} for {}", need.program, recipe.name);
            }
        }
    }

    #[test]
    fn missing_programs_are_refused_with_their_packages() {
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
    fn recipe_without_steps_or_with_an_unknown_key_is_refused() {
        for text in [
            "name = \"x\"\nabout = \"y\"\nunit = \"runs\"\nstep = []",
            "name = \"x\"\nabout = \"y\"\nunit = \"runs\"\nstps = 1",
        ] {
            assert!(Recipe::parse(text, "x").is_err(), "for {text}");
        }
    }
}
