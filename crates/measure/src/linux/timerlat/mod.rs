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

use laggard_model::{Account, Batch, Caveat, CaveatKind, Cpu, Line, LineId, Nanos, Route, Service};

use crate::probe::{Drive, ProbeError, Request};
use series::{Format, Series};
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
    period: Nanos,
}

/// A CPU's thread.
#[derive(Debug)]
struct CpuSeries {
    cpu: Cpu,
    pipe: Option<File>,
    series: Series,
}

impl Timerlat {
    /// Takes the service out of the request, if it is there, and sets the
    /// tracer up.
    pub(super) fn of_request(request: &mut Request) -> Result<Option<Self>, ProbeError> {
        if !request.services.contains(&Service::Kthread) {
            return Ok(None);
        }
        request
            .services
            .retain(|service| *service != Service::Kthread);
        let refused = |err: io::Error| {
            ProbeError::Service {
            service: Service::Kthread,
            reason: err.to_string(),
            remedy: "it needs root, tracefs, and the kernel's timerlat tracer (CONFIG_TIMERLAT_TRACER=y) for itself; `laggard doctor` says what is there".into(),
        }
        };
        if request.drive != Drive::Timer {
            return Err(refused(io::Error::other(
                "the tracer's threads wait for timers, not for a device",
            )));
        }
        let root = Path::new(tracefs::ROOT);
        let set_up = || -> io::Result<Self> {
            Ok(Self {
                instance: Instance::new(root, &request.cpus, request.period, BUFFER_TIME)?,
                format: Format::parse(&tracefs::read(
                    &root.join("events/ftrace/timerlat/format"),
                )?)?,
                series: Vec::new(),
                period: request.period,
            })
        };
        let mut all = set_up().map_err(refused)?;
        for &cpu in request.cpus.as_slice() {
            all.series.push(CpuSeries {
                cpu,
                pipe: None,
                series: Series::new(request.period),
            });
        }
        Ok(Some(all))
    }

    /// One line per CPU.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        self.series.iter().map(|one| Line {
            cpu: one.cpu,
            service: Service::Kthread,
            route: Route::Direct,
        })
    }

    /// Starts the tracer. `first` is the first of its lines.
    pub(super) fn start(&mut self, first: usize) -> io::Result<()> {
        // Nor does it begin one.
        self.instance.start()?;
        for (one, index) in self.series.iter_mut().zip(first..) {
            one.series.line = LineId(u16::try_from(index).unwrap_or(u16::MAX));
            one.pipe = Some(open(&pipe_of(&self.instance.directory, one.cpu))?);
        }
        Ok(())
    }

    /// Nothing before `begin` is recorded.
    pub(super) fn begin(&mut self, begin: Nanos) {
        for one in &mut self.series {
            one.series.begin(begin);
        }
    }

    /// Nothing from `ended` on is recorded.
    pub(super) fn end_at(&mut self, ended: Nanos) {
        for one in &mut self.series {
            one.series.until = ended;
        }
    }

    /// Whether its threads have come to all that expired.
    pub(super) fn is_at_rest(&mut self) -> bool {
        self.series.iter_mut().all(|one| {
            one.take_in(&self.format);
            one.series.is_at_rest()
        })
    }

    /// Ends the tracer and puts its settings back, after what it wrote has been
    /// taken in. Whatever its threads have not come to by now, `given_up`, is.
    pub(super) fn stop(&mut self, given_up: Nanos) -> io::Result<()> {
        for one in &mut self.series {
            one.take_in(&self.format);
            one.series.close(given_up);
            one.pipe = None;
        }
        self.instance.end()
    }

    /// Appends everything new.
    pub(super) fn drain(&mut self, into: &mut Batch) {
        for one in &mut self.series {
            one.take_in(&self.format);
            one.series.drain(into);
        }
    }

    /// What became of each line's plan.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (LineId, Account)> + '_ {
        let series = self.series.iter().map(|one| &one.series);
        series.map(|series| (series.line, series.account()))
    }

    /// What it changes on this machine.
    pub(super) fn caveat(&self) -> Caveat {
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
