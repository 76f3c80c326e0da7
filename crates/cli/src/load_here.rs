//! `laggard load` on Windows: the loads that are part of laggard.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use laggard_measure_windows::pin_process;
use laggard_model::Cpu;
use laggard_workload::load::{Builtin, READY, run};

use crate::args::{LoadArgs, LoadCommand};
use crate::exit::Exit;
use crate::{measuring, pipe};

pub(crate) fn load(args: LoadArgs) -> anyhow::Result<Exit> {
    match args.command {
        LoadCommand::List => {
            let line = |load: &Builtin| format!("{:12} {}\n", load.name(), load.about());
            pipe::print(&Builtin::ALL.iter().map(line).collect::<String>())?;
        }
        LoadCommand::Run { name, hold, cpu } => {
            let load: Builtin = name.parse()?;
            if let Some(cpu) = cpu {
                pin_process(Cpu(cpu)).with_context(|| format!("cannot use CPU {cpu}"))?;
            }
            let stop = measuring::interruption()?;
            let gate = || {
                if hold {
                    await_word(&stop);
                }
            };
            let throughput = run(load, &stop, &gate)?;
            pipe::print(&pipe::json_line(&throughput)?)?;
        }
    }
    Ok(Exit::Ok)
}

/// Reports that the load is set up, and waits for input. The end of the input ends the load, so
/// that it does not outlive the process that started it.
fn await_word(stop: &Arc<AtomicBool>) {
    // If the other side is gone, its input ends.
    let _ = pipe::print(&format!("{READY}\n"));
    let mut word = [0];
    if std::io::stdin().read_exact(&mut word).is_err() {
        stop.store(true, Ordering::Relaxed);
        return;
    }
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut input = std::io::stdin();
        while input.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        stop.store(true, Ordering::Relaxed);
    });
}
