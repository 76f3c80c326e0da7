//! Compiles the BPF programs and generates the types that they share with this crate; only on
//! Linux, for any target.

use std::error::Error;
#[cfg(target_os = "linux")]
use std::path::PathBuf;

#[cfg(target_os = "linux")]
use laggard_bpf::compile::compile;
#[cfg(target_os = "linux")]
use laggard_bpf::types::{Types, TypesError};

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("the layout of the board comes from BPF objects, which only Linux compiles; build there, with `--target`".into())
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn Error>> {
    let objects = compile("src/linux/bpf")?;
    // cargo prints the debug format of a build script's error.
    Ok(write_types(&objects).map_err(|err| err.to_string())?)
}

#[cfg(target_os = "linux")]
fn write_types(objects: &[PathBuf]) -> Result<(), TypesError> {
    Types::from_objects(objects)?
        .shared(&["board_slot", "board_cpu"])?
        .constants(&["board_limit", "board_mark", "board_sharing"])?
        .write("board.rs")?;
    Types::from_objects(objects)?
        .shared(&["ring_head"])?
        .values(&["flight_record", "stack_sample"])?
        .constants(&["flight_kind", "flight_vector", "flight_before"])?
        .write("flight.rs")?;
    Types::from_objects(objects)?
        .values(&["handler_key", "handler_count", "handler_cpu"])?
        .constants(&["handler_buckets", "handler_kind", "handler_places"])?
        .write("handlers.rs")?;
    Types::from_objects(objects)?
        .shared(&["ring_head"])?
        .values(&[
            "attach_record",
            "attach_thread",
            "attach_wake",
            "attach_state",
            "attach_call",
        ])?
        .constants(&[
            "attach_kind",
            "attach_route",
            "attach_unseen",
            "attach_end",
            "attach_no_call",
            "attach_lock",
            "attach_phase",
            "attach_process",
        ])?
        .write("attach.rs")?;
    Types::from_objects(objects)?
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
