//! `laggard load`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_workload::load::{Builtin, Busy, NamedLoad, Recipe, RecipeError};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::{LoadArgs, LoadCommand};
use crate::exit::Exit;
use crate::{measuring, pipe};

pub(crate) fn load(args: LoadArgs) -> anyhow::Result<Exit> {
    match args.command {
        LoadCommand::List => pipe::print(&list()?)?,
        LoadCommand::Show { name } => pipe::print_document(&text_of(&name)?)?,
        LoadCommand::Run { name, hold } => {
            let load = NamedLoad::find(&name)?;
            let stop = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, stop.clone())
                    .context("watch for the signal that ends the load")?;
            }
            let gate = || {
                if hold {
                    measuring::wait_for_word();
                }
            };
            let throughput = load.run(&stop, &gate)?;
            pipe::print(&pipe::json_line(&throughput)?)?;
        }
    }
    Ok(Exit::Ok)
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for load in Builtin::ALL {
        writeln!(text, "{:12} {}", load.name(), load.about())?;
    }
    writeln!(text, "{:12} {}", Busy::NAMES[0], Busy::ABOUT[0])?;
    writeln!(text, "{:12} {}", Busy::NAMES[1], Busy::ABOUT[1])?;
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
    if let Ok(busy) = name.parse::<Busy>() {
        return Ok(format!("# {name} is built in: {}\n", busy.about()));
    }
    if let Some(text) = Recipe::text_of(name) {
        return Ok(text.into());
    }
    Recipe::find(name)?;
    std::fs::read_to_string(Path::new(name)).with_context(|| format!("read the load `{name}`"))
}
