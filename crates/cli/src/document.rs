//! Documents that the program writes about itself.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use laggard_answer::show::Report;
use laggard_answer::why::WhyReport;
use laggard_model::Manifest;
use schemars::schema_for;

use crate::args::{Args, SchemaOf};
use crate::exit::Exit;
use crate::pipe;

/// A shell's completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "laggard", &mut script);
    pipe::print_document(&String::from_utf8(script)?)?;
    Ok(Exit::Ok)
}

/// One man page per command.
pub(crate) fn man(dir: &Path) -> anyhow::Result<Exit> {
    clap_mangen::generate_to(Args::command(), dir)
        .map_err(|err| missing_folder(err, dir))
        .with_context(|| format!("write man pages to `{}`", dir.display()))?;
    Ok(Exit::Ok)
}

fn missing_folder(err: io::Error, dir: &Path) -> anyhow::Error {
    if err.kind() == io::ErrorKind::NotFound {
        return anyhow::anyhow!(
            "the folder does not exist; create it with `mkdir -p {}`",
            dir.display()
        );
    }
    err.into()
}

/// A JSON schema.
pub(crate) fn schema(of: SchemaOf) -> anyhow::Result<Exit> {
    let schema = match of {
        SchemaOf::Show => schema_for!(Report),
        SchemaOf::Why => schema_for!(WhyReport),
        SchemaOf::Qos => schema_for!(laggard_answer::qos::QosReport),
        SchemaOf::Forecast => schema_for!(laggard_answer::forecast::ForecastReport),
        SchemaOf::Sched => schema_for!(laggard_answer::sched::SchedReport),
        SchemaOf::Rehearse => schema_for!(laggard_answer::rehearsal::RehearsalReport),
        SchemaOf::Manifest => schema_for!(Manifest),
    };
    pipe::print(&pipe::json(&schema)?)?;
    Ok(Exit::Ok)
}
