//! Compiles the BPF programs and generates the Rust types that they share with the
//! crate. All object names must differ because they go to one directory.

use std::error::Error;
use std::path::PathBuf;

use laggard_bpf::compile::compile;
use laggard_bpf::types::Types;

fn main() -> Result<(), Box<dyn Error>> {
    // Other systems have loads only.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return Ok(());
    }
    write_types("src/disturb/kernel/bpf", &["fault"], "fault.rs")?;
    write_types("src/task/kernel/bpf", &["plan", "job"], "task.rs")
}

fn write_types(folder: &str, names: &[&str], file: &str) -> Result<(), Box<dyn Error>> {
    let objects: Vec<PathBuf> = compile(folder)?;
    let written = Types::from_objects(&objects)
        .and_then(|types| types.values(names))
        .and_then(|types| types.write(file));
    // A build script prints its error with the debug format.
    Ok(written.map_err(|err| err.to_string())?)
}
