//! `laggard load`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_workload::load::{self, Builtin};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::{LoadArgs, LoadCommand};
use crate::exit::Outcome;
use crate::pipe;

pub(crate) fn load(args: LoadArgs) -> anyhow::Result<Outcome> {
    match args.command {
        LoadCommand::List => {
            let mut text = String::new();
            for load in Builtin::ALL {
                writeln!(text, "{:8} {}", load.name(), load.about())?;
            }
            pipe::print(&text)?;
        }
        LoadCommand::Run { name } => {
            let load: Builtin = name.parse()?;
            let stop = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, stop.clone())
                    .context("watch for the signal that ends the load")?;
            }
            let throughput = load::run(load, &stop)?;
            pipe::print(&format!("{}\n", serde_json::to_string(&throughput)?))?;
        }
    }
    Ok(Outcome::Ok)
}
