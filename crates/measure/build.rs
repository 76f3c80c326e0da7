//! Compiles the BPF programs, and writes the types of what they share with us.

use std::error::Error;
use std::path::PathBuf;

use laggard_bpf::compile::compile;
use laggard_bpf::types::{Types, TypesError};

fn main() -> Result<(), Box<dyn Error>> {
    let objects = compile("src/linux/bpf")?;
    // A build script's error is shown as it is for debugging.
    Ok(write_types(&objects).map_err(|err| err.to_string())?)
}

fn write_types(objects: &[PathBuf]) -> Result<(), TypesError> {
    Types::of(objects)?
        .shared(&["board_slot", "board_cpu"])?
        .constants(&["board_limit", "board_mark"])?
        .write("board.rs")?;
    Types::of(objects)?
        .shared(&["ring_head"])?
        .values(&["flight_record", "stack_sample"])?
        .constants(&["flight_kind", "flight_vector", "flight_before"])?
        .write("flight.rs")?;
    Types::of(objects)?
        .values(&[
            "identity",
            "enlist_args",
            "start_args",
            "prepare_args",
            "deferral",
            "work",
            "interrupt",
        ])?
        .write("programs.rs")
}
