//! `laggard-fleet`: answers over the recordings of many machines.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use laggard_fleet::args::Args;
use laggard_fleet::{Exit, answer};

fn main() -> ExitCode {
    match answer(&Args::parse()) {
        Ok((text, exit)) => {
            let mut out = std::io::stdout().lock();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                // Whoever reads may have read enough.
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    failed(&error.into())
                }
                _ => match exit {
                    Exit::Whole => ExitCode::SUCCESS,
                    Exit::Partial => ExitCode::from(3),
                },
            }
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!(
        "laggard-fleet: {}",
        laggard_model::printable_error(&format!("{error:#}"))
    );
    ExitCode::from(2)
}
