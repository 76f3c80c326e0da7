//! `laggard load`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use laggard_model::printable;
use laggard_workload::load::{Builtin, Busy, NamedLoad, ProgramTrial, Recipe, Unusable};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::{LoadArgs, LoadCommand};
use crate::exit::Exit;
use crate::{measuring, pipe};

/// Time limit of a program that prints its version, while the user waits for the list.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn load(args: LoadArgs) -> anyhow::Result<Exit> {
    match args.command {
        LoadCommand::List => pipe::print(&list()?)?,
        LoadCommand::Show { name } => pipe::print_document(&text_of(&name)?)?,
        LoadCommand::Run { name, hold } => {
            // The holder has already checked its programs.
            let load = if hold {
                NamedLoad::named(&name)?
            } else {
                NamedLoad::find(&name)?
            };
            let stop = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, stop.clone())
                    .context("cannot watch for the signal that ends the load")?;
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
    let trial = ProgramTrial {
        patience: PATIENCE,
        user: measuring::caller(),
    };
    let recipes = Recipe::built_in()?;
    let tried: Vec<Vec<Unusable>> = std::thread::scope(|scope| {
        let start = |recipe| scope.spawn(move || Recipe::unusable(recipe, trial));
        let trials: Vec<_> = recipes.iter().map(start).collect();
        let ended = trials.into_iter().map(|trial| trial.join());
        ended.map(Result::unwrap_or_default).collect()
    });
    for (recipe, unusable) in recipes.iter().zip(tried) {
        writeln!(text, "{:12} {}", recipe.name, recipe.about)?;
        for line in absence(&unusable) {
            writeln!(text, "{:12}   {}", "", printable(&line))?;
        }
    }
    Ok(text)
}

/// Explains why a load cannot run here, with the remedy; empty if it can.
fn absence(unusable: &[Unusable]) -> Vec<String> {
    if unusable.is_empty() {
        return Vec::new();
    }
    let (missing, broken): (Vec<&Unusable>, Vec<&Unusable>) =
        unusable.iter().partition(|program| program.is_missing);
    let mut lines = Vec::new();
    let names: BTreeSet<&str> = missing.iter().map(|need| need.program.as_str()).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        lines.push(format!("not available: needs {}", names.join(", ")));
    }
    for program in broken {
        let line = format!(
            "not available: `{}` cannot be used: {}",
            program.program, program.why
        );
        // Several packages may be needed for one program.
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let packages: BTreeSet<&str> = unusable.iter().map(|need| need.package.as_str()).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    lines.push(format!(
        "install with: apt-get install {}",
        packages.join(" ")
    ));
    lines
}

fn text_of(name: &str) -> anyhow::Result<String> {
    if let Ok(builtin) = name.parse::<Builtin>() {
        return Ok(format!("# {name} is built in: {}\n", builtin.about()));
    }
    if let Ok(busy) = name.parse::<Busy>() {
        return Ok(format!("# {name} is built in: {}\n", busy.about()));
    }
    if let NamedLoad::Several(_) = NamedLoad::named(name)? {
        let texts = name.split('+').map(text_of);
        return Ok(texts.collect::<anyhow::Result<Vec<_>>>()?.join("\n"));
    }
    if let Some(text) = Recipe::text_of(name) {
        return Ok(text.into());
    }
    Recipe::find(name)?;
    laggard_files::read_text(Path::new(name))
        .with_context(|| format!("cannot read the load `{name}`"))
}
