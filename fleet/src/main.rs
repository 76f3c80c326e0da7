//! `laggard-fleet`: reports over the recordings of many machines.

use std::process::ExitCode;

use laggard_fleet::args::Args;
use laggard_fleet::{Exit, answer};
use laggard_ship::console;

fn main() -> ExitCode {
    let args = match console::parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let answered = console::check_output().and_then(|()| answer(&args));
    let printed = answered.and_then(|(text, exit)| {
        console::print(&text)?;
        Ok(exit)
    });
    match printed {
        Ok(Exit::Whole) => ExitCode::SUCCESS,
        Ok(Exit::Partial) => ExitCode::from(3),
        Err(error) => console::fail("laggard-fleet", &error),
    }
}
