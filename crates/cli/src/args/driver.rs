//! Arguments of `laggard driver`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard driver status
  laggard driver install wdmlat.sys      as administrator
  laggard driver remove

Windows loads only signed drivers. To load a driver that you built, use a test
machine: disable Secure Boot in the firmware, run `bcdedit /set testsigning on`,
restart, and add your certificate to Root and TrustedPublisher. Never do this
to a machine that others rely on.")]
pub(crate) struct DriverArgs {
    #[command(subcommand)]
    pub(crate) command: DriverCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DriverCommand {
    /// Copy the driver to the system's driver directory, and load it
    Install {
        /// wdmlat.sys, built by `make driver`
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Unload the driver and remove it completely
    Remove,
    /// Show whether the driver is installed, and which drivers this Windows loads
    Status,
}
