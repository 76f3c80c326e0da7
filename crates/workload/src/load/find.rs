//! Loads by name.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use laggard_model::{Throughput, UsagePattern};

use super::{
    Builtin, Busy, BusyError, Gate, LoadUser, ProgramTrial, Recipe, RecipeError, RunError, run,
    run_recipe,
};

/// How long a program of a load that is about to run may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// A load as a user names it.
#[derive(Clone, Debug)]
pub enum NamedLoad {
    /// One that needs nothing but this program.
    Builtin(Builtin),
    /// Busy processes.
    Busy(Busy),
    /// One of real applications.
    Recipe(Box<Recipe>),
}

impl NamedLoad {
    /// The load of this name or in this file, if it can be run here: every program that
    /// it needs is tried.
    ///
    /// # Errors
    /// When there is none, or programs that it needs are missing or do not work.
    pub fn find(name: &str) -> Result<Self, RecipeError> {
        let load = Self::named(name)?;
        if let Self::Recipe(recipe) = &load {
            recipe.try_programs(ProgramTrial {
                patience: PATIENCE,
                user: LoadUser::of_sudo(),
            })?;
        }
        Ok(load)
    }

    /// The load of this name or in this file, whether or not it can be run here.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self, RecipeError> {
        if let Ok(builtin) = name.parse() {
            return Ok(Self::Builtin(builtin));
        }
        match name.parse() {
            Ok(busy) => return Ok(Self::Busy(busy)),
            Err(BusyError::Other) => {}
            Err(err) => return Err(err.into()),
        }
        let recipe = Recipe::find(name)?;
        Ok(Self::Recipe(Box::new(recipe)))
    }

    /// What recordings call it.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Builtin(builtin) => builtin.name().into(),
            Self::Busy(busy) => busy.to_string().into(),
            Self::Recipe(recipe) => recipe.name.as_str().into(),
        }
    }

    /// Who uses such applications how, where that means something.
    pub fn usage(&self) -> Option<UsagePattern> {
        match self {
            Self::Builtin(_) | Self::Busy(_) => None,
            Self::Recipe(recipe) => recipe.usage,
        }
    }

    /// Runs it in this process until `stop` is set, and counts what it did. It
    /// is set up before `gate` is called, and works after.
    ///
    /// # Errors
    /// When it cannot go on.
    pub fn run(&self, stop: &AtomicBool, gate: &Gate<'_>) -> Result<Throughput, LoadRunError> {
        match self {
            Self::Builtin(builtin) => Ok(run(*builtin, stop, gate)?),
            Self::Busy(busy) => Ok(busy.run(stop, gate)?),
            Self::Recipe(recipe) => Ok(run_recipe(recipe, stop, gate)?),
        }
    }
}

/// Why a load could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadRunError {
    /// A built-in load.
    #[error(transparent)]
    Builtin(#[from] RunError),
    /// One of real applications.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
}

impl LoadRunError {
    /// Whether this machine lacks what the load needs, rather than that
    /// anything went wrong.
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
    fn a_load_is_found_by_its_name_and_no_other() {
        let found = NamedLoad::find("fp").unwrap();

        assert_eq!((found.name(), found.usage()), ("fp".into(), None));
        assert!(matches!(
            NamedLoad::find("no such load"),
            Err(RecipeError::Unknown(..))
        ));
    }

    #[test]
    fn the_list_of_our_loads_has_each_with_what_it_does() {
        let builtin = Builtin::ALL.map(|one| (one.name().to_owned(), one.about().to_owned()));
        let recipes = Recipe::built_in().unwrap();
        let recipes = recipes.into_iter().map(|one| (one.name, one.about));

        let known: Vec<_> = builtin.into_iter().chain(recipes).collect();

        let listed = LOADS_OF_OURS.map(|(name, about)| (name.to_owned(), about.to_owned()));
        assert_eq!(known, listed);
    }
}
