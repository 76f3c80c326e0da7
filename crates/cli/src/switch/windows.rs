//! Loads of `laggard bench switch`, on Windows.

use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_model::Cpu;
use laggard_workload::load::LoadProcess;

/// Starts the load on the CPU of the threads. It ends when the result is dropped.
pub(super) fn start_load(
    name: Option<&str>,
    cpu: Cpu,
    stop: &AtomicBool,
) -> anyhow::Result<Option<LoadProcess>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let program =
        std::env::current_exe().context("cannot find this program, which runs the load")?;
    let mut load = LoadProcess::start(&program, name.parse()?, Some(cpu), stop)?;
    load.begin();
    Ok(Some(load))
}
