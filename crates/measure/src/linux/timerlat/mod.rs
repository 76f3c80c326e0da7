//! The kthread service: a kernel thread, through the kernel's timerlat tracer.
//!
//! The tracer has a thread of `SCHED_FIFO` 95 on each CPU, which a timer wakes
//! every period. It writes how late the timer's callback ran (stage `expire`)
//! and how late the thread (stage `kthread`). We start it in an instance of
//! our own and read what it writes. Its expiries lie on a fixed grid: the
//! kernel knows no dither.
//!
//! Where the records and their fields are described: Linux,
//! `kernel/trace/trace_entries.h`, and tracefs's `events/ftrace/timerlat/format`.

mod page;
mod series;
mod tracefs;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, Cpu, CpuList, Line, LineId, Nanos, Route, Service,
};

use super::reason_of;
use crate::probe::ProbeError;
use crate::source::{Source, no_tracer};
use series::{Format, TracerSeries};
use tracefs::Instance;

/// How much the kernel keeps for us when we do not get to run.
const BUFFER_TIME: Nanos = Nanos::from_secs(8);

/// Whether the tracer can be had.
pub(super) fn check() -> io::Result<()> {
    tracefs::check(Path::new(tracefs::ROOT))
}

/// The tracer, and what it wrote.
#[derive(Debug)]
pub(super) struct Timerlat {
    /// Before the instance: the kernel ends no tracer that somebody reads.
    series: Vec<CpuSeries>,
    instance: Instance,
    format: Format,
    lines: Vec<Line>,
    period: Nanos,
    /// Why its settings were not put back.
    not_put_back: Option<String>,
}

/// A CPU's thread.
#[derive(Debug)]
struct CpuSeries {
    cpu: Cpu,
    pipe: Option<File>,
    series: TracerSeries,
}

impl Timerlat {
    /// Sets the tracer up.
    pub(super) fn new(cpus: &CpuList, period: Nanos) -> Result<Self, ProbeError> {
        Self::set_up(cpus, period).map_err(no_tracer)
    }

    fn set_up(cpus: &CpuList, period: Nanos) -> io::Result<Self> {
        let root = Path::new(tracefs::ROOT);
        let format = tracefs::read(&root.join("events/ftrace/timerlat/format"));
        let of_cpu = |&cpu| CpuSeries {
            cpu,
            pipe: None,
            series: TracerSeries::new(period),
        };
        let line = |&cpu| Line {
            cpu,
            service: Service::Kthread,
            route: Route::Direct,
        };
        Ok(Self {
            instance: Instance::new(root, cpus, period, BUFFER_TIME)?,
            format: Format::parse(&format?)?,
            series: cpus.as_slice().iter().map(of_cpu).collect(),
            lines: cpus.as_slice().iter().map(line).collect(),
            period,
            not_put_back: None,
        })
    }
}

impl Source for Timerlat {
    fn backend(&self) -> Backend {
        Backend::Tracer
    }

    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn start(&mut self, _: Nanos, first: LineId) -> Result<(), ProbeError> {
        self.start_tracer(first).map_err(|err| ProbeError::System {
            action: "start the timerlat tracer".into(),
            remedy: "`laggard doctor` says what this machine allows".into(),
            said: Some(io::Error::other(reason_of(&err))),
        })
    }

    fn begin(&mut self, from: Nanos) {
        for one in &mut self.series {
            one.series.settled.begin(from);
        }
    }

    fn drain(&mut self, into: &mut Batch) {
        for one in &mut self.series {
            one.take_in(&self.format);
            one.series.settled.drain(into);
        }
    }

    fn end_at(&mut self, until: Nanos) {
        for one in &mut self.series {
            one.series.settled.until = until;
        }
    }

    fn is_at_rest(&mut self) -> bool {
        self.series.iter_mut().all(|one| {
            one.take_in(&self.format);
            one.series.is_at_rest()
        })
    }

    /// After what the tracer wrote has been taken in.
    fn settle(&mut self, given_up: Nanos) {
        for one in &mut self.series {
            one.take_in(&self.format);
            one.series.close(given_up);
            one.pipe = None;
        }
        self.not_put_back = self.instance.end().err().map(|err| err.to_string());
    }

    fn accounts(&self) -> Vec<Account> {
        let series = self.series.iter().map(|one| &one.series);
        series.map(|one| one.settled.account()).collect()
    }

    fn caveats(&self) -> Vec<Caveat> {
        let not_put_back = self.not_put_back.as_ref().map(|err| {
            Caveat::new(
                CaveatKind::Tracer,
                format!("the settings of the timerlat tracer were not put back: {err}"),
                "`echo nop > /sys/kernel/tracing/current_tracer` ends it; osnoise/ there holds its settings",
            )
        });
        std::iter::once(self.caveat()).chain(not_put_back).collect()
    }
}

impl Timerlat {
    /// Starts the tracer. `first` is the first of its lines.
    fn start_tracer(&mut self, first: LineId) -> io::Result<()> {
        // Nor does it begin one.
        self.instance.start()?;
        for (one, place) in self.series.iter_mut().zip(usize::from(first.0)..) {
            one.series.settled.line = LineId::at(place).expect("more lines are refused before");
            one.pipe = Some(open(&pipe_of(&self.instance.directory, one.cpu))?);
        }
        Ok(())
    }

    /// What it changes on this machine.
    fn caveat(&self) -> Caveat {
        Caveat::new(
            CaveatKind::Tracer,
            format!(
                "the kernel's timerlat tracer runs meanwhile, with a thread of SCHED_FIFO 95 on each CPU every {}, without dither; it makes every interrupt and switch a little dearer",
                self.period
            ),
            "leave out `kthread` to measure the other services undisturbed",
        )
    }
}

fn pipe_of(instance: &Path, cpu: Cpu) -> PathBuf {
    instance.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"))
}

fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .map_err(tracefs::named(path))
}

impl CpuSeries {
    /// Reads what the kernel has.
    fn take_in(&mut self, format: &Format) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut buffer = [0; page::PAGE_BYTES];
        // Nothing more (EAGAIN), or the instance is gone: nothing to read
        // either way, and gaps in the numbers are counted as losses.
        while let Ok(bytes @ 1..) = pipe.read(&mut buffer) {
            for (time, record) in page::records(&buffer[..bytes]) {
                if let Some(sample) = format.sample(record) {
                    self.series.add(Nanos::from_ns(time), sample);
                }
            }
        }
    }
}
