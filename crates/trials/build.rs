//! Compiles the BPF programs and writes the Rust types of the memory that they share with
//! this crate. Runs on Linux for every target.

use std::error::Error;

#[cfg(target_os = "linux")]
use laggard_bpf::compile::compile;
#[cfg(target_os = "linux")]
use laggard_bpf::types::Types;

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("only Linux compiles BPF objects; build there, with `--target`".into())
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn Error>> {
    let objects = compile("src/bpf")?;
    // The error of a build script is printed in its debug form.
    let text = |err: laggard_bpf::types::TypesError| err.to_string();
    let write = || {
        Types::from_objects(&objects)?
            .shared(&["handover_watch"])?
            .constants(&["handover_kind"])?
            .write("handover.rs")?;
        Types::from_objects(&objects)?
            .shared(&["interrupt_watch", "interrupt_handler"])?
            .constants(&["interrupt_room"])?
            .write("interruption.rs")?;
        Types::from_objects(&objects)?
            .values(&["softirq_order"])?
            .write("softirq_order.rs")
    };
    Ok(write().map_err(text)?)
}
