//! `laggard provoke`: injects a known fault, and records its actual times.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context as _, bail};
use laggard_files::{AtSignal, OutputFile};
use laggard_measure::linux;
use laggard_model::text::Unit;
use laggard_model::{Cpu, Nanos};
use laggard_workload::disturb::{self, Disturbance, Hit};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::ProvokeArgs;
use crate::exit::Exit;
use crate::pipe;

/// Minimum interval of hits that are printed individually.
const READABLE: Nanos = Nanos::from_ms(100);

pub(crate) fn provoke(args: &ProvokeArgs) -> anyhow::Result<Exit> {
    let plan = plan(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .context("cannot watch for the signal that ends the fault")?;
    }
    linux::end_in_order(stop.clone())?;
    let mut view = View::new(&plan, args.json.as_deref())?;
    let (tell, told) = mpsc::channel();
    let hits = thread::scope(|scope| {
        let plan = &plan;
        let stop = &stop;
        let fault = move || {
            disturb::run_telling(plan, stop, &|hit| {
                // The receiver is gone after a failed output, and the fault is being stopped.
                let _ = tell.send(*hit);
            })
        };
        let fault = thread::Builder::new()
            .spawn_scoped(scope, fault)
            .context("cannot start a thread; see `ulimit -u` and the cgroup's pids.max")?;
        let shown = told.iter().try_for_each(|hit| view.show(&hit));
        if shown.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let hits = fault
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        shown.map(|()| hits)
    })?;
    view.keep()?;
    view.sum_up(&hits)?;
    let is_done = !hits.is_empty() || stop.load(Ordering::Relaxed);
    Ok(if is_done { Exit::Ok } else { Exit::Unmet })
}

fn plan(args: &ProvokeArgs) -> anyhow::Result<Disturbance> {
    let kind = args.kind;
    if kind.has_own_length() && args.length.is_some() {
        bail!("`{kind}` does not take --length; remove it");
    }
    if kind.has_own_period() && args.every.is_some() {
        bail!("the kernel's settings define the period of `{kind}`; remove --every");
    }
    if kind != disturb::FaultKind::Throttle && !args.pid.is_empty() {
        bail!("`{kind}` does not take --pid, which is for `throttle`");
    }
    let online = linux::online_cpus();
    let cpu = match args.cpu.map(Cpu) {
        Some(cpu) if online.contains(cpu) => cpu,
        Some(cpu) => bail!("CPU {cpu} is not online; choose from {online}"),
        None => *online.as_slice().last().context("cannot find a CPU")?,
    };
    let (length, every) = kind.usual_times();
    let plan = Disturbance {
        kind,
        length: args.length.unwrap_or(length),
        every: args.every.unwrap_or(every),
        cpu,
        duration: args.duration,
        victims: args.pid.clone(),
    };
    plan.check()?;
    Ok(plan)
}

/// Destination of hits.
enum Hits {
    Stdout(io::Stdout),
    File(OutputFile),
}

impl Write for Hits {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

/// Output while the fault lasts.
struct View {
    begin: Nanos,
    json: Option<Hits>,
    shows_text: bool,
    shows_each: bool,
}

impl View {
    fn new(plan: &Disturbance, json: Option<&Path>) -> anyhow::Result<Self> {
        let is_stdout = json.is_some_and(|path| path == Path::new("-"));
        let json = match json {
            None => None,
            Some(_) if is_stdout => Some(Hits::Stdout(pipe::stdout()?)),
            Some(path) => {
                laggard_files::check(path, "hits")?;
                let output = OutputFile::begin(path, AtSignal::Finishes);
                Some(Hits::File(output.with_context(|| {
                    format!("cannot write the hits to `{}`", path.display())
                })?))
            }
        };
        let view = Self {
            begin: linux::now(),
            json,
            shows_text: !is_stdout,
            shows_each: plan.kind.has_own_period() || plan.every >= READABLE,
        };
        view.say(&format!("{}; Ctrl-C ends it\n", announcement(plan)))?;
        Ok(view)
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        if self.shows_text {
            pipe::print(text)
        } else {
            Ok(())
        }
    }

    fn show(&mut self, hit: &Hit) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            match disturb::write_hits(&[*hit], json) {
                Err(err) if !self.shows_text && err.kind() == io::ErrorKind::BrokenPipe => {}
                result => result.context("cannot write the hits")?,
            }
        }
        if !self.shows_each {
            return Ok(());
        }
        self.say(&format!(
            "{:>9.3} s  {} on CPU {}\n",
            hit.start_ns.saturating_sub(self.begin).as_secs_f64(),
            Unit::Auto.write_nanos(hit.length_ns),
            hit.cpu
        ))
    }

    /// Gives the file of hits its final name.
    fn keep(&mut self) -> anyhow::Result<()> {
        match self.json.take() {
            Some(Hits::File(file)) => file.keep().context("cannot write the hits"),
            Some(Hits::Stdout(_)) | None => Ok(()),
        }
    }

    fn sum_up(&self, hits: &[Hit]) -> anyhow::Result<()> {
        let lengths = || hits.iter().map(|hit| hit.length_ns);
        let text = match (lengths().min(), lengths().max()) {
            (Some(least), Some(most)) => format!(
                "{} hit{} of {} to {}\n",
                hits.len(),
                if hits.len() == 1 { "" } else { "s" },
                Unit::Auto.write_nanos(least),
                Unit::Auto.write_nanos(most)
            ),
            _ => "no hit; increase --duration, or see docs/reference/faults.md for what prevents this fault\n"
                .into(),
        };
        self.say(&text)
    }
}

/// Describes the fault before it starts.
fn announcement(plan: &Disturbance) -> String {
    let Disturbance {
        kind,
        length,
        every,
        cpu,
        duration,
        ..
    } = plan;
    let times = match (kind.has_own_length(), kind.has_own_period()) {
        (false, _) => format!("{length} every {every}, "),
        (true, false) => format!("every {every}, "),
        (true, true) => String::new(),
    };
    format!("{kind}: {times}on CPU {cpu}, for {duration}")
}
