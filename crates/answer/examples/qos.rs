//! How often 4 buffers of 5 ms run dry, by a recording: for every service.
//!
//! `cargo run -p laggard-answer --example qos -- RECORDING`

#![allow(clippy::disallowed_macros, reason = "an example prints text")]

use std::error::Error;
use std::path::PathBuf;

use laggard_answer::qos::{Application, assess};
use laggard_answer::{Ask, loads};
use laggard_model::Nanos;

fn main() -> Result<(), Box<dyn Error>> {
    let dirs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let stream = Application::new(
        "stream",
        4,
        Nanos::from_ms(5),
        Nanos::from_ms(1),
        "an example",
    )?;
    for load in loads(&Ask::of(&dirs))? {
        println!("Load: {}", load.label);
        for service in assess(&load, &stream, None)?.services {
            let figures = &service.outlook;
            println!(
                "{} {}: {:.1} late buffers an hour, failures in {:.0} s: {}",
                service.service,
                service.route,
                figures.late_per_hour,
                figures.exposure_ns / 1e9,
                figures
                    .failures
                    .map_or("an interval only".into(), |count| format!("{count:.1}"))
            );
        }
    }
    Ok(())
}
