//! Arguments of `laggard load`.

use clap::{Args as ClapArgs, Subcommand};

use crate::completion;

#[derive(ClapArgs, Debug)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    pub(crate) command: LoadCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// List the built-in loads
    List,
    /// Print the definition of an application load, as a TOML file to edit
    #[cfg(target_os = "linux")]
    Show {
        /// Name of the load, or a TOML file
        #[arg(add = completion::loads())]
        name: String,
    },
    /// Run a load until Ctrl-C, then print its throughput as JSON
    Run {
        /// Name of the load, or a TOML file (Linux)
        #[arg(add = completion::loads())]
        name: String,
        /// Only set the load up, then write `ready` and wait for a line of input
        #[arg(long, hide = true)]
        hold: bool,
        /// Run on this CPU only
        #[cfg(windows)]
        #[arg(long)]
        cpu: Option<u32>,
    },
}
