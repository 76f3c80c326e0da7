//! The kthread service: a kernel thread, measured with the kernel's timerlat tracer.
//!
//! The tracer has a `SCHED_FIFO` thread on each CPU, which a timer wakes every period. The kernel
//! gives it priority 95; laggard sets another on request. The tracer records the latency of the
//! timer's callback (stage `expire`) and of the thread (stage `kthread`). laggard starts it in a
//! separate instance and reads its records. Its expiries lie on a fixed grid, because the kernel
//! does not dither.
//!
//! The records and their fields are described in Linux, `kernel/trace/trace_entries.h`, and in
//! tracefs's `events/ftrace/timerlat/format`.

mod page;
mod series;
mod threads;
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

/// Time that the kernel's buffer holds while laggard does not run.
const BUFFER_TIME: Nanos = Nanos::from_secs(8);

/// Checks whether the tracer is available.
pub(super) fn check() -> io::Result<()> {
    tracefs::check(Path::new(tracefs::ROOT))
}

/// The tracer and its records.
#[derive(Debug)]
pub(super) struct Timerlat {
    /// Before the instance, because the kernel does not end a tracer that is being read.
    series: Vec<CpuSeries>,
    instance: Instance,
    format: Format,
    lines: Vec<Line>,
    period: Nanos,
    /// Priority of its threads.
    priority: u8,
    /// Reason why its settings were not restored.
    restore_error: Option<String>,
}

/// Thread of one CPU.
#[derive(Debug)]
struct CpuSeries {
    cpu: Cpu,
    pipe: Option<File>,
    series: TracerSeries,
}

impl Timerlat {
    pub(super) fn new(cpus: &CpuList, period: Nanos, priority: u8) -> Result<Self, ProbeError> {
        Self::set_up(cpus, period, priority).map_err(no_tracer)
    }

    fn set_up(cpus: &CpuList, period: Nanos, priority: u8) -> io::Result<Self> {
        let root = Path::new(tracefs::ROOT);
        let format = super::tracefs::read(&root.join("events/ftrace/timerlat/format"));
        let of_cpu = |&cpu| CpuSeries {
            cpu,
            pipe: None,
            series: TracerSeries::new(period),
        };
        let line = |&cpu| Line::new(cpu, Service::Kthread(priority), Route::Direct);
        Ok(Self {
            instance: Instance::new(root, cpus, period, BUFFER_TIME)?,
            format: Format::parse(&format?)?,
            series: cpus.as_slice().iter().map(of_cpu).collect(),
            lines: cpus.as_slice().iter().map(line).collect(),
            period,
            priority,
            restore_error: None,
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
            remedy: "`laggard doctor` shows what this machine supports".into(),
            said: Some(io::Error::other(reason_of(&err))),
        })
    }

    fn begin(&mut self, from: Nanos) {
        for cpu_series in &mut self.series {
            cpu_series.series.settled.begin(from);
        }
    }

    fn drain(&mut self, into: &mut Batch) {
        for cpu_series in &mut self.series {
            cpu_series.take_in(&self.format);
            cpu_series.series.settled.drain(into);
        }
    }

    fn end_at(&mut self, until: Nanos) {
        for cpu_series in &mut self.series {
            cpu_series.series.settled.until = until;
        }
    }

    fn is_at_rest(&mut self) -> bool {
        self.series.iter_mut().all(|cpu_series| {
            cpu_series.take_in(&self.format);
            cpu_series.series.is_at_rest()
        })
    }

    /// After all records of the tracer have been read.
    fn settle(&mut self, given_up: Nanos) {
        for cpu_series in &mut self.series {
            cpu_series.take_in(&self.format);
            cpu_series.series.close(given_up);
            cpu_series.pipe = None;
        }
        self.restore_error = self.instance.end().err().map(|err| err.to_string());
    }

    fn accounts(&self) -> Vec<Account> {
        let series = self.series.iter().map(|cpu_series| &cpu_series.series);
        series
            .map(|cpu_series| cpu_series.settled.account())
            .collect()
    }

    fn caveats(&self) -> Vec<Caveat> {
        let restore_error = self.restore_error.as_ref().map(|err| {
            Caveat::new(
                CaveatKind::Tracer,
                format!("cannot restore the settings of the timerlat tracer: {err}"),
                "to end it, run `echo nop > /sys/kernel/tracing/current_tracer`; its settings are in osnoise/ in the same directory",
            )
        });
        std::iter::once(self.caveat())
            .chain(restore_error)
            .collect()
    }
}

impl Timerlat {
    /// Starts the tracer. `first` is the first of its lines.
    fn start_tracer(&mut self, first: LineId) -> io::Result<()> {
        // The kernel does not start a tracer that is being read, either.
        self.instance.start()?;
        if Service::Kthread(self.priority) != Service::KTHREAD {
            for cpu_series in &self.series {
                threads::set_priority(Path::new("/proc"), cpu_series.cpu, self.priority)?;
            }
        }
        for (cpu_series, place) in self.series.iter_mut().zip(usize::from(first.0)..) {
            cpu_series.series.settled.line =
                LineId::at(place).expect("more lines are refused before");
            cpu_series.pipe = Some(open(&pipe_of(&self.instance.directory, cpu_series.cpu))?);
        }
        Ok(())
    }

    /// Returns the warning about the tracer's effect on this machine.
    fn caveat(&self) -> Caveat {
        Caveat::new(
            CaveatKind::Tracer,
            format!(
                "the kernel's timerlat tracer runs during the measurement, with a SCHED_FIFO {} thread on each CPU every {} without dither; it adds a little time to every interrupt and context switch",
                self.priority, self.period
            ),
            "to measure the other services undisturbed, omit `kthread`",
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
        .map_err(super::tracefs::named(path))
}

impl CpuSeries {
    /// Reads the records that the kernel has.
    fn take_in(&mut self, format: &Format) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut buffer = [0; page::PAGE_BYTES];
        // No more data (EAGAIN), or the instance is gone: in both cases the read ends here, and
        // gaps in the numbers are counted as losses.
        while let Ok(bytes @ 1..) = pipe.read(&mut buffer) {
            for (time, record) in page::records(&buffer[..bytes]) {
                if let Some(sample) = format.sample(record) {
                    self.series.add(Nanos::from_ns(time), sample);
                }
            }
        }
    }
}
