//! Arguments of `laggard driver`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard driver status
  laggard driver install wdmlat.sys      as administrator
  laggard driver remove

Windows loads drivers that are signed. One that you built yourself is loaded on
a machine for tests alone: Secure Boot switched off in the firmware,
`bcdedit /set testsigning on`, a restart, and a certificate of your own in Root
and TrustedPublisher. Never do this to a machine that others rely on.")]
pub(crate) struct DriverArgs {
    #[command(subcommand)]
    pub(crate) command: DriverCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DriverCommand {
    /// Copy the driver into the system's folder for drivers, and load it
    Install {
        /// wdmlat.sys, as `make driver` builds it
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Unload the driver and remove all of it
    Remove,
    /// Say whether it is installed, and which drivers this Windows loads
    Status,
}
