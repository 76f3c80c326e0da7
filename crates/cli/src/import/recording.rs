//! Recordings of Windows traces: `laggard import FILE -o DIR`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use laggard_answer::trace::TraceReport;
use laggard_etl::{
    HandlerKind, ImageEpoch, TimeTold, ToldOf, Trace, TraceClock, TraceHeader, TraceTally,
};
use laggard_model::{
    Activation, Backend, Batch, Caveat, CaveatKind, Clock, Cpu, DriverName, Host, Line, LineId,
    Manifest, Nanos, ProbePlan, Route, RowsOf, STAGES, Service, State, TracedService,
};
use laggard_record::{Destination, Recorder};

/// Rows written at a time.
const MAX_BATCH: usize = 1 << 16;
/// Series: drivers and priorities per CPU. Others are counted.
const MAX_LINES: usize = 4_096;
/// Routines with a cached driver.
const MAX_CACHED_DRIVERS: usize = 16_384;
/// Maximum latency, and maximum time since the start, that can be recorded.
const MAX_TIME: Nanos = Nanos::from_secs(100 * 86_400);
/// Maximum time between the boot of a machine and the start of a trace: 73 years.
const MAX_START: Nanos = Nanos::from_ns(1 << 61);
/// Start of a trace that does not state it.
const UNKNOWN: &str = "unknown";

/// Range and number of the latencies of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TraceExtent {
    /// Time of the first event, in ticks of the trace's clock.
    pub(super) opened: Option<i64>,
    /// Start of the first latency and end of the last, in ticks. `None` without any.
    span: Option<(i64, i64)>,
    count: u64,
}

impl TraceExtent {
    pub(super) fn add(&mut self, time: &TimeTold) {
        let (start, end) = self.span.unwrap_or((time.begun, time.ended));
        self.span = Some((start.min(time.begun), end.max(time.ended)));
        self.count += 1;
    }
}

/// Writes the latencies of the trace into `place`, which must not exist or be empty. Reads
/// the trace again, because it names drivers at its end: `tally`, `report` and `extent`
/// are from the first time. Returns whether there is anything to record.
///
/// # Errors
/// When the recording cannot be written, or the trace has changed since. The recording then
/// has the state `failed`.
pub(super) fn record(
    place: &Destination,
    from: &mut Trace<File>,
    tally: &TraceTally,
    report: &TraceReport,
    extent: &TraceExtent,
) -> anyhow::Result<bool> {
    let Some(span) = extent.span else {
        return Ok(false);
    };
    let path = place.path().display().to_string();
    let times = RecordedTimes::new(from.header(), span);
    let manifest = manifest(from, report, extent.opened, &times);
    let recorder = Recorder::create(place.clone(), manifest);
    let mut writing = Writing {
        recorder: recorder.with_context(|| format!("cannot create `{path}`"))?,
        batch: Batch::default(),
        times,
        drivers: HashMap::new(),
        lines: BTreeMap::new(),
        rows: Vec::new(),
        left_out: 0,
        refused: None,
    };
    let mut again = TraceTally::new(from.header());
    let mut count = 0;
    let read = from.visit(|event| {
        again.add_and_tell(event, |time| {
            count += 1;
            writing.add(&time, tally);
        });
    });
    let refused = writing.refused.take();
    let outcome = match (read, refused) {
        (_, Some(refused)) => Err(refused.context(format!("cannot write `{path}`"))),
        (Err(unread), None) => Err(unread.into()),
        (Ok(()), None) if count != extent.count || again.events != tally.events => {
            Err(anyhow::anyhow!("the file changed while laggard read it"))
        }
        (Ok(()), None) => Ok(()),
    };
    writing.end(outcome, &path)?;
    Ok(true)
}

/// Checks that a recording can be written to `path`, without creating anything.
pub(super) fn place(path: &Path, file: &Path) -> anyhow::Result<Destination> {
    if path == file {
        bail!(
            "--output {} is the trace itself; use a new directory",
            path.display()
        );
    }
    let place = Destination::from(path);
    Recorder::check(&place).with_context(|| format!("cannot create `{}`", path.display()))?;
    Ok(place)
}

/// Times of the trace in the recording.
struct RecordedTimes {
    header: TraceHeader,
    /// Ticks when the clock of the recording is 0.
    origin: i64,
    start: Nanos,
    end: Nanos,
}

impl RecordedTimes {
    /// Creates the times of a trace between these ticks. If the trace's clock started with the
    /// machine, it is the clock of the recording. Another one, such as system time, which
    /// counts from 1601, is replaced by the time since the first latency.
    fn new(header: &TraceHeader, (start, end): (i64, i64)) -> Self {
        let of_trace = header
            .between(0, start)
            .filter(|&start| header.clock != TraceClock::SystemTime && start <= MAX_START);
        let origin = if of_trace.is_some() { 0 } else { start };
        let start = of_trace.unwrap_or(Nanos::ZERO);
        let length = header.between(origin, end).unwrap_or(Nanos::ZERO);
        Self {
            header: header.clone(),
            origin,
            start,
            end: length.clamp(start, start + MAX_TIME),
        }
    }

    /// Returns the start of a row. `None` if it is too long after the start of the trace.
    fn expiry(&self, begun: i64) -> Option<Nanos> {
        let expiry = self.header.between(self.origin, begun)?;
        (expiry.saturating_sub(self.start) <= MAX_TIME).then_some(expiry)
    }

    /// Returns the latency of a row; with a coarse clock at least a step. `None` if it is too
    /// long.
    fn took(&self, took: Nanos) -> Option<Nanos> {
        let took = match self.header.clock {
            TraceClock::SystemTime => took.max(self.header.step),
            TraceClock::PerformanceCounter | TraceClock::CycleCounter => took,
        };
        (took <= MAX_TIME).then_some(took)
    }
}

struct Writing {
    recorder: Recorder,
    batch: Batch,
    times: RecordedTimes,
    drivers: HashMap<(u64, ImageEpoch), DriverName>,
    lines: BTreeMap<(u16, TracedService), LineId>,
    /// Number of rows of each series.
    rows: Vec<u64>,
    /// Number of latencies that cannot be recorded.
    left_out: u64,
    refused: Option<anyhow::Error>,
}

impl Writing {
    fn add(&mut self, time: &TimeTold, names: &TraceTally) {
        if self.refused.is_some() {
            return;
        }
        let service = self.service(time.of, names);
        let expiry = self.times.expiry(time.begun);
        let took = self.times.took(time.took);
        let bounded = expiry.zip(took);
        let Some((line, (expiry, took))) = self.line(time.cpu, service).zip(bounded) else {
            self.left_out += 1;
            return;
        };
        let seq = &mut self.rows[usize::from(line.0)];
        let mut steps = [None; STAGES.len()];
        steps[Service::Traced(service).last_stage().index()] = Some(took);
        self.batch.push(&Activation::new(line, *seq, expiry, steps));
        *seq += 1;
        if self.batch.len() == MAX_BATCH {
            self.refused = self.write().err();
        }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        Ok(self.recorder.append(&std::mem::take(&mut self.batch))?)
    }

    fn service(&mut self, source: ToldOf, names: &TraceTally) -> TracedService {
        match source {
            ToldOf::Handler {
                sort,
                routine,
                epoch,
            } => {
                let key = (routine, epoch);
                let cached = self.drivers.get(&key).copied();
                let driver =
                    cached.unwrap_or_else(|| DriverName::new(&names.driver(routine, epoch)));
                if self.drivers.len() < MAX_CACHED_DRIVERS {
                    self.drivers.insert(key, driver);
                }
                match sort {
                    HandlerKind::Isr => TracedService::Isr(driver),
                    HandlerKind::Dpc | HandlerKind::TimerDpc | HandlerKind::ThreadedDpc => {
                        TracedService::Dpc(driver)
                    }
                }
            }
            ToldOf::Ready(priority) => TracedService::Ready(priority),
            ToldOf::HardFault => TracedService::HardFault,
        }
    }

    fn line(&mut self, cpu: u16, service: TracedService) -> Option<LineId> {
        if let Some(&line) = self.lines.get(&(cpu, service)) {
            return Some(line);
        }
        let line = LineId::at(self.rows.len()).filter(|_| self.rows.len() < MAX_LINES)?;
        self.lines.insert((cpu, service), line);
        self.rows.push(0);
        self.recorder.update(|manifest| {
            manifest.lines.push(Line::new(
                Cpu(cpu.into()),
                Service::Traced(service),
                Route::Direct,
            ));
        });
        Some(line)
    }

    /// Completes the recording with the state of the outcome.
    fn end(mut self, outcome: anyhow::Result<()>, path: &str) -> anyhow::Result<()> {
        let outcome = outcome.and_then(|()| {
            let written = self.write();
            written.with_context(|| format!("cannot write `{path}`"))
        });
        if self.left_out > 0 {
            let left_out = self.left_out;
            self.recorder.update(|manifest| {
                manifest.caveats.push(Caveat::new(
                    CaveatKind::TraceIncomplete,
                    format!(
                        "{left_out} latencies of the trace are not in the recording, which holds {MAX_LINES} drivers and priorities per CPU, and latencies up to 100 days"
                    ),
                    "`laggard import` without -o counts them",
                ));
            });
        }
        let state = match &outcome {
            Ok(()) => State::Complete,
            Err(error) => State::Failed {
                error: format!("{error:#}"),
            },
        };
        let ended = self.recorder.finish(state);
        // The first error is the reason.
        outcome?;
        ended.with_context(|| format!("cannot write `{path}`"))?;
        Ok(())
    }
}

fn manifest(
    from: &Trace<File>,
    report: &TraceReport,
    opened: Option<i64>,
    times: &RecordedTimes,
) -> Manifest {
    let header = from.header();
    let (start, end) = (times.start, times.end);
    let first = header.between(times.origin, opened.unwrap_or(times.origin));
    let after = start.saturating_sub(first.unwrap_or(start));
    // System time is wall-clock time. For other clocks the header has the start of the trace.
    let of_clock = header.unix_us(times.origin);
    let started = of_clock.or_else(|| {
        let after = i64::try_from(after.ns() / 1_000).ok()?;
        header.began_unix_us?.checked_add(after)
    });
    let started = started.and_then(|time| Timestamp::from_microsecond(time).ok());
    let clock = Clock {
        name: clock_name(header.clock).into(),
        start_ns: start,
        end_ns: Some(end),
        start_wall: started.map_or_else(|| UNKNOWN.into(), |time| time.to_string()),
    };
    let plan = ProbePlan {
        period_ns: Nanos::ZERO,
        dither: false,
        duration_ns: Some(end.saturating_sub(start)),
        rows: RowsOf::Traced,
        ..ProbePlan::default()
    };
    let words = std::env::args_os();
    let mut host = Host::windows(&report.windows);
    host.processor.threads = report.cpus;
    Manifest {
        command: words
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        host,
        caveats: caveats(header.clock, report),
        ..Manifest::new(Backend::Imported, plan, clock, Vec::new())
    }
}

const fn clock_name(clock: TraceClock) -> &'static str {
    match clock {
        TraceClock::PerformanceCounter => "performance counter",
        TraceClock::SystemTime => "system time",
        TraceClock::CycleCounter => "cycle counter",
    }
}

/// Describes the source, the clock and the losses.
fn caveats(clock: TraceClock, report: &TraceReport) -> Vec<Caveat> {
    let lost = &report.losses;
    let missing = format!(
        "{} events and {} buffers lost while recording, {} buffers and {} bytes of the file damaged, {} events unreadable, {} with implausible times, {} threads made ready while they ran, {} threads waiting at the end",
        lost.events,
        lost.buffers,
        lost.damaged_buffers,
        lost.unread_bytes,
        lost.unreadable,
        lost.implausible,
        report.ready.unclear,
        report.ready.waiting,
    );
    let mut caveats = vec![Caveat::new(
        CaveatKind::Imported,
        format!(
            "a Windows trace of another program, with {} as clock (step {}); {missing}",
            clock_name(clock),
            report.clock_step_ns,
        ),
        "times of handlers contain interruptions and steal time: docs/how-to/windows-traces.md",
    )];
    if clock == TraceClock::SystemTime {
        caveats.push(Caveat::new(
            CaveatKind::Clocksource,
            format!(
                "the clock of the trace has steps of {}; a shorter time is recorded as one step, its upper bound",
                report.clock_step_ns
            ),
            "record with the performance counter (`xperf -ClockType PerfCounter`)",
        ));
    }
    if !report.trusted {
        caveats.push(Caveat::new(
            CaveatKind::TraceIncomplete,
            format!("too much of the trace is missing: {missing}"),
            "record again with more and larger buffers (`xperf -BufferSize 1024 -MaxBuffers 1024`)",
        ));
    }
    caveats
}
