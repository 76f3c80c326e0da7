//! Loads by name.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use laggard_model::{Throughput, UsagePattern};

use super::scanner::Scanner;
use super::several::{self, PLUS};
use super::{
    Builtin, Busy, BusyError, Gate, LoadUser, ProgramTrial, Recipe, RecipeError, RunError, run,
    run_recipe,
};

/// Maximum time for a program of a load to print its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// Load with a name.
#[derive(Clone, Debug)]
pub enum NamedLoad {
    /// Load that needs only this program.
    Builtin(Builtin),
    Busy(Busy),
    /// Load of real applications.
    Recipe(Box<Recipe>),
    /// Loads that run at the same time.
    Several(Vec<Self>),
}

impl NamedLoad {
    /// Finds the load of this name or in this file and tests that it can run here:
    /// every program that it needs is started.
    ///
    /// # Errors
    /// If the load is unknown, or a program is missing or does not work.
    pub fn find(name: &str) -> Result<Self, RecipeError> {
        let load = Self::named(name)?;
        load.test()?;
        Ok(load)
    }

    fn test(&self) -> Result<(), RecipeError> {
        match self {
            Self::Builtin(Builtin::Scanner) => Ok(Scanner::new().map(drop)?),
            Self::Builtin(_) | Self::Busy(_) => Ok(()),
            Self::Recipe(recipe) => recipe.try_programs(ProgramTrial {
                patience: PATIENCE,
                user: LoadUser::of_sudo(),
            }),
            Self::Several(loads) => loads.iter().try_for_each(Self::test),
        }
    }

    /// Returns whether only root can run it, also under `sudo`.
    pub fn needs_root(&self) -> bool {
        match self {
            Self::Builtin(builtin) => *builtin == Builtin::Scanner,
            Self::Busy(busy) => busy.turns.is_some(),
            Self::Recipe(_) => false,
            Self::Several(loads) => loads.iter().any(Self::needs_root),
        }
    }

    /// Finds the load of this name or in this file, even if it cannot run here.
    ///
    /// # Errors
    /// If the load is unknown.
    pub fn named(name: &str) -> Result<Self, RecipeError> {
        if let Ok(builtin) = name.parse() {
            return Ok(Self::Builtin(builtin));
        }
        match name.parse() {
            Ok(busy) => return Ok(Self::Busy(busy)),
            Err(BusyError::Other) => {}
            Err(err) => return Err(err.into()),
        }
        let has_parts = name.contains(PLUS) && name.split(PLUS).all(|part| !part.is_empty());
        if has_parts && !Path::new(name).exists() {
            let loads = name.split(PLUS).map(Self::named);
            let loads: Vec<Self> = loads.collect::<Result<_, _>>()?;
            let mut names = HashSet::new();
            return match loads.iter().find(|load| !names.insert(load.name())) {
                Some(again) => Err(RecipeError::Twice {
                    loads: name.into(),
                    again: again.name().into_owned(),
                }),
                None => Ok(Self::Several(loads)),
            };
        }
        let recipe = Recipe::find(name)?;
        Ok(Self::Recipe(Box::new(recipe)))
    }

    /// Returns the name in recordings.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Builtin(builtin) => builtin.name().into(),
            Self::Busy(busy) => busy.to_string().into(),
            Self::Recipe(recipe) => recipe.name.as_str().into(),
            Self::Several(loads) => {
                let names: Vec<_> = loads.iter().map(Self::name).collect();
                names.join(&PLUS.to_string()).into()
            }
        }
    }

    /// Returns the usage pattern of the imitated applications, if known.
    pub fn usage(&self) -> Option<UsagePattern> {
        match self {
            Self::Builtin(_) | Self::Busy(_) => None,
            Self::Recipe(recipe) => recipe.usage,
            Self::Several(loads) => loads.iter().find_map(Self::usage),
        }
    }

    /// Runs the load in this process until `stop` is set, and counts its work. It is
    /// set up before `gate` is called, and works after.
    ///
    /// # Errors
    /// If it cannot continue.
    pub fn run(&self, stop: &AtomicBool, gate: &Gate<'_>) -> Result<Throughput, LoadRunError> {
        match self {
            Self::Builtin(builtin) => Ok(run(*builtin, stop, gate)?),
            Self::Busy(busy) => Ok(busy.run(stop, gate)?),
            Self::Recipe(recipe) => Ok(run_recipe(recipe, stop, gate)?),
            Self::Several(loads) => several::run(loads, stop, gate),
        }
    }
}

/// Reason why a load could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadRunError {
    /// Failure of a built-in load.
    #[error(transparent)]
    Builtin(#[from] RunError),
    /// Failure of a load of real applications.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
}

impl LoadRunError {
    /// Returns whether this machine lacks a prerequisite of the load, as opposed to a
    /// failure.
    #[must_use]
    pub fn is_unmet(&self) -> bool {
        match self {
            Self::Builtin(err) => err.is_unmet(),
            Self::Recipe(err) => err.is_unmet(),
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::LOADS_OF_OURS;

    use super::*;

    #[test]
    fn load_is_found_by_its_exact_name() {
        let load = NamedLoad::find("fp").unwrap();

        assert_eq!((load.name(), load.usage()), ("fp".into(), None));
        assert!(matches!(
            NamedLoad::find("no such load"),
            Err(RecipeError::Unknown(..))
        ));
        let twice = NamedLoad::named("fp+busy:2+fp").unwrap_err().to_string();
        assert_eq!(
            twice,
            "`fp+busy:2+fp` has the load `fp` twice; give each load once"
        );
    }

    #[test]
    fn list_of_loads_has_each_with_a_description() {
        let builtin = Builtin::ALL
            .iter()
            .map(|load| (load.name().to_owned(), load.about().to_owned()));
        let recipes = Recipe::built_in().unwrap();
        let recipes = recipes
            .into_iter()
            .map(|recipe| (recipe.name, recipe.about));

        let loads: Vec<_> = builtin.into_iter().chain(recipes).collect();

        let listed = LOADS_OF_OURS.map(|(name, about)| (name.to_owned(), about.to_owned()));
        assert_eq!(loads, listed);
    }
}
