//! Compiles the BPF programs, and writes the types of what they share with us.
//! All names must differ: their objects go to one folder.

use std::error::Error;
use std::path::PathBuf;

use laggard_bpf::compile::compile;
use laggard_bpf::types::Types;

fn main() -> Result<(), Box<dyn Error>> {
    write_types("src/disturb/kernel/bpf", &["fault"], "fault.rs")?;
    write_types("src/task/kernel/bpf", &["plan", "job"], "task.rs")
}

fn write_types(folder: &str, names: &[&str], file: &str) -> Result<(), Box<dyn Error>> {
    let objects: Vec<PathBuf> = compile(folder)?;
    let written = Types::of(&objects)
        .and_then(|types| types.values(names))
        .and_then(|types| types.write(file));
    // A build script's error is shown as it is for debugging.
    Ok(written.map_err(|err| err.to_string())?)
}
