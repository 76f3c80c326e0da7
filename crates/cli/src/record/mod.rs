//! `laggard record`: measure, and keep what was seen.

mod beginning;
mod episodes;
mod meanwhile;
mod progress;
mod session;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_measure::fake::{FakeProbe, Script};
use laggard_measure::linux::{self, Awake, LinuxProbe, Wanted};
use laggard_measure::{Probe, Request};
use laggard_model::{Nanos, Service};
use laggard_record::Recorder;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::{BackendArg, RecordArgs};
use crate::exit::Outcome;
use crate::{pipe, show};
use episodes::EpisodeWatch;
use meanwhile::Meanwhile;
use progress::Progress;
use session::Session;
use writer::Writer;

/// What is measured unless asked otherwise.
pub(crate) const DEFAULT_SERVICES: [Service; 6] = [
    Service::Irq,
    Service::Softirq,
    Service::Worker,
    Service::Fifo(90),
    Service::Fifo(50),
    Service::Other,
];

/// How long is recorded unless asked otherwise.
const DEFAULT_DURATION: Nanos = Nanos::from_secs(30);

pub(crate) fn record(args: &RecordArgs) -> anyhow::Result<Outcome> {
    let interrupted = interruption()?;
    let dir = run(args, &interrupted, || ())?;
    finish(&dir, args.quiet)
}

/// A flag that Ctrl-C and termination set.
pub(crate) fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone()).context("watch for Ctrl-C")?;
    }
    Ok(interrupted)
}

/// Records as asked, and calls `begun` once measuring has begun. Returns the
/// recording's folder.
pub(crate) fn run(
    args: &RecordArgs,
    interrupted: &AtomicBool,
    begun: impl FnOnce(),
) -> anyhow::Result<PathBuf> {
    let dir = args.output.clone().unwrap_or_else(|| default_name(""));
    let duration = match (args.duration, args.command.is_empty()) {
        (None, true) => Some(DEFAULT_DURATION),
        (duration, _) => duration,
    };
    let seed = laggard_measure::linux::now().ns();
    let awake = match args.hold_cpu_awake {
        true => {
            Some(Awake::hold().context("keep CPUs awake (needs root and /dev/cpu_dma_latency)")?)
        }
        false => None,
    };
    let mut probe = probe(args, seed)?;
    let (watch, caveats) = EpisodeWatch::start(args, &dir, probe.as_ref())?;
    let mut meanwhile = Meanwhile::launch(args, interrupted)?;
    let mut manifest = beginning::manifest(args, probe.as_ref(), meanwhile.run(), duration, seed);
    for caveat in caveats {
        if !manifest
            .caveats
            .iter()
            .any(|known| known.kind == caveat.kind)
        {
            manifest.caveats.push(caveat);
        }
    }
    let mut recorder = Recorder::create(&dir, manifest)?;
    let progress = Progress::new(args.quiet, duration, probe.lines());
    let start = probe.start()?;
    // The load works when the first activation can be late by it, not before.
    while probe.now() < start {
        let left = start.saturating_sub(probe.now());
        probe.pause(left.into());
    }
    meanwhile.begin(probe.now());
    begun();
    recorder.update(|manifest| {
        manifest.clock.start_ns = start;
        manifest.load = meanwhile.run();
    });
    let session = Session {
        probe: probe.as_mut(),
        start,
        writer: Writer::start(recorder).context("start the thread that writes")?,
        watch,
        meanwhile: &mut meanwhile,
        progress,
    };
    session.run(duration, interrupted)?;
    drop(awake);
    Ok(dir)
}

fn probe(args: &RecordArgs, seed: u64) -> anyhow::Result<Box<dyn Probe>> {
    let wanted = match &args.backend {
        BackendArg::Fake(script) => {
            let text = std::fs::read_to_string(script)
                .with_context(|| format!("read the script `{}`", script.display()))?;
            return Ok(Box::new(FakeProbe::new(Script::parse(&text)?)?));
        }
        BackendArg::Best => Wanted::Best,
        BackendArg::Bpf => Wanted::Bpf,
        BackendArg::User => Wanted::User,
    };
    let request = Request {
        cpus: args.cpus.clone().unwrap_or_else(linux::online_cpus),
        services: args
            .services
            .clone()
            .unwrap_or_else(|| DEFAULT_SERVICES.to_vec()),
        optional: args.services.is_none(),
        period: args.period,
        dither: !args.no_dither,
        seed,
        source: args.source.0.clone(),
    };
    Ok(Box::new(LinuxProbe::new(request, wanted)?))
}

/// A name that no other run has: the local time, and `what` it is.
pub(crate) fn default_name(what: &str) -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
    match what {
        "" => format!("{now}.laggard").into(),
        what => format!("{now}-{what}.laggard").into(),
    }
}

/// Shows the result, unless asked not to.
fn finish(dir: &Path, quiet: bool) -> anyhow::Result<Outcome> {
    let report = show::report_of(dir, None)?;
    let good = report.trust == laggard_report::Trust::Good;
    if !quiet {
        pipe::print(&laggard_report::text::show(
            &report,
            laggard_report::text::Options::default(),
        ))?;
        pipe::print(&format!(
            "\nRecorded in {}; see it again with `laggard show {}`\n",
            dir.display(),
            dir.display()
        ))?;
    }
    Ok(if good {
        Outcome::Ok
    } else {
        Outcome::Untrustworthy
    })
}
