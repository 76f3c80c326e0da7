//! `laggard load`, and loads by name.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use laggard_model::UsagePattern;
use laggard_workload::load::{self, Builtin, LoadProcess, Recipe, RecipeError};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::{LoadArgs, LoadCommand};
use crate::exit::Outcome;
use crate::pipe;

/// A load as a user names it.
#[derive(Debug)]
pub(crate) enum Load {
    /// One that needs nothing but this program.
    Builtin(Builtin),
    /// One of real applications, all of which are there.
    Recipe(Box<Recipe>),
}

impl Load {
    /// The load of this name or in this file, if it can be run here.
    pub(crate) fn find(name: &str) -> Result<Self, RecipeError> {
        if let Ok(builtin) = name.parse() {
            return Ok(Self::Builtin(builtin));
        }
        let recipe = Recipe::find(name)?;
        recipe.check()?;
        Ok(Self::Recipe(Box::new(recipe)))
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Builtin(builtin) => builtin.name(),
            Self::Recipe(recipe) => &recipe.name,
        }
    }

    /// Who uses such applications how.
    pub(crate) fn usage(&self) -> Option<UsagePattern> {
        match self {
            Self::Builtin(_) => None,
            Self::Recipe(recipe) => recipe.usage,
        }
    }
}

pub(crate) fn load(args: LoadArgs) -> anyhow::Result<Outcome> {
    match args.command {
        LoadCommand::List => pipe::print(&list()?)?,
        LoadCommand::Show { name } => pipe::print(&text_of(&name)?)?,
        LoadCommand::Run { name, hold } => {
            let load = Load::find(&name)?;
            let stop = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, stop.clone())
                    .context("watch for the signal that ends the load")?;
            }
            let gate = || {
                if hold {
                    wait_for_word();
                }
            };
            let throughput = match &load {
                Load::Builtin(builtin) => load::run(*builtin, &stop, &gate)?,
                Load::Recipe(recipe) => load::run_recipe(recipe, &stop, &gate)?,
            };
            pipe::print(&format!("{}\n", serde_json::to_string(&throughput)?))?;
        }
    }
    Ok(Outcome::Ok)
}

/// Says that all is set up, and returns once somebody says to begin, or is gone.
pub(crate) fn wait_for_word() {
    println!("{}", load::READY);
    // Whatever comes, there is nothing more to wait for.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Waits until a held load is set up; `false` when interrupted meanwhile.
pub(crate) fn wait_until_ready(
    process: &mut LoadProcess,
    interrupted: &AtomicBool,
) -> anyhow::Result<bool> {
    const POLL: Duration = Duration::from_millis(10);
    while !interrupted.load(Ordering::Relaxed) {
        if process.is_ready()? {
            return Ok(true);
        }
        if let Some(ended) = process.poll()? {
            anyhow::bail!("the load ended before it began to work: {ended}");
        }
        std::thread::sleep(POLL);
    }
    Ok(false)
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for load in Builtin::ALL {
        writeln!(text, "{:12} {}", load.name(), load.about())?;
    }
    for recipe in Recipe::built_in()? {
        writeln!(text, "{:12} {}", recipe.name, recipe.about)?;
        if let Err(RecipeError::Missing { packages, .. }) = recipe.check() {
            writeln!(
                text,
                "{:12}   not here yet: apt-get install {}",
                "",
                packages.join(" ")
            )?;
        }
    }
    Ok(text)
}

fn text_of(name: &str) -> anyhow::Result<String> {
    if let Ok(builtin) = name.parse::<Builtin>() {
        return Ok(format!("# {name} is built in: {}\n", builtin.about()));
    }
    if let Some(text) = Recipe::text_of(name) {
        return Ok(text.into());
    }
    Recipe::find(name)?;
    std::fs::read_to_string(Path::new(name)).with_context(|| format!("read the load `{name}`"))
}
