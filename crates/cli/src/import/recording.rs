//! A recording of what a trace tells: `laggard import FILE -o DIR`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use laggard_answer::trace::TraceReport;
use laggard_etl::{
    ImageEpoch, RoutineSort, TimeTold, ToldOf, Trace, TraceClock, TraceHeader, TraceTally,
};
use laggard_model::{
    Activation, Backend, Batch, Caveat, CaveatKind, Clock, Cpu, DriverName, Host, Line, LineId,
    Manifest, Nanos, ProbePlan, Route, RowsOf, STAGES, Service, State, TracedService,
};
use laggard_record::{Destination, Recorder};

/// So many rows are handed to the disk at a time.
const BATCH: usize = 1 << 16;
/// Most lines: drivers and priorities, by CPU. Others are counted.
const MOST_LINES: usize = 4_096;
/// Most routines whose driver is remembered rather than looked up.
const MOST_REMEMBERED: usize = 16_384;
/// Nothing takes longer, or is longer after the beginning, that can be recorded.
const LONGEST: Nanos = Nanos::from_secs(100 * 86_400);
/// No machine's clock is later when a trace begins: 73 years.
const LATEST_BEGIN: Nanos = Nanos::from_ns(1 << 61);
/// When the trace began, where it does not say.
const UNKNOWN: &str = "unknown";

/// When what a trace tells began and ended, and how much it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TraceExtent {
    /// When the first event of all was, in ticks of the trace's clock.
    pub(super) opened: Option<i64>,
    /// When the first of all times began, and the last ended, in the same; `None`: there
    /// is none.
    span: Option<(i64, i64)>,
    count: u64,
}

impl TraceExtent {
    pub(super) fn add(&mut self, one: &TimeTold) {
        let (begin, last) = self.span.unwrap_or((one.begun, one.ended));
        self.span = Some((begin.min(one.begun), last.max(one.ended)));
        self.count += 1;
    }
}

/// Writes what the trace tells into `place`, which must not exist or be empty. Reads the
/// trace again, of which `tally`, `report` and `extent` are already known: only then are
/// drivers known that the trace names at its end. Returns whether there is anything to
/// record.
///
/// # Errors
/// When the disk refuses, or the trace is another one meanwhile. What is written then says
/// that it failed.
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
        recorder: recorder.with_context(|| format!("begin `{path}`"))?,
        batch: Batch::default(),
        times,
        drivers: HashMap::new(),
        lines: BTreeMap::new(),
        rows: Vec::new(),
        left_out: 0,
        refused: None,
    };
    let mut again = TraceTally::new(from.header());
    let mut told = 0;
    let read = from.visit(|event| {
        again.add_and_tell(event, |one| {
            told += 1;
            writing.add(&one, tally);
        });
    });
    let refused = writing.refused.take();
    let outcome = match (read, refused) {
        (_, Some(refused)) => Err(refused.context(format!("write `{path}`"))),
        (Err(unread), None) => Err(unread.into()),
        (Ok(()), None) if told != extent.count || again.events != tally.events => {
            Err(anyhow::anyhow!("changed while it was read"))
        }
        (Ok(()), None) => Ok(()),
    };
    writing.end(outcome, &path)?;
    Ok(true)
}

/// Whether a recording can be made at `path`, without leaving anything.
pub(super) fn place(path: &Path, file: &Path) -> anyhow::Result<Destination> {
    if path == file {
        bail!(
            "`{}` is the trace itself; give a new folder with -o",
            path.display()
        );
    }
    let place = Destination::from(path);
    Recorder::check(&place).with_context(|| format!("begin `{}`", path.display()))?;
    Ok(place)
}

/// The times of the trace as the recording has them.
struct RecordedTimes {
    header: TraceHeader,
    /// Ticks at which the recording's clock is 0.
    origin: i64,
    begin: Nanos,
    end: Nanos,
}

impl RecordedTimes {
    /// Returns the times of a trace that lie between these ticks. The recording goes by the trace's
    /// clock where that began when the machine did. One that counts from elsewhere, as the
    /// system's time does from 1601, begins with the recording.
    fn new(header: &TraceHeader, (begin, end): (i64, i64)) -> Self {
        let of_trace = header
            .between(0, begin)
            .filter(|&begin| header.clock != TraceClock::SystemTime && begin <= LATEST_BEGIN);
        let origin = match of_trace {
            Some(_) => 0,
            None => begin,
        };
        let begin = of_trace.unwrap_or(Nanos::ZERO);
        let length = header.between(origin, end).unwrap_or(Nanos::ZERO);
        Self {
            header: header.clone(),
            origin,
            begin,
            end: length.clamp(begin, begin + LONGEST),
        }
    }

    /// When a row began; `None`: so long after the beginning that it cannot be recorded.
    fn expiry(&self, begun: i64) -> Option<Nanos> {
        let expiry = self.header.between(self.origin, begun)?;
        (expiry.saturating_sub(self.begin) <= LONGEST).then_some(expiry)
    }

    /// How long it took; what a clock of long steps does not tell took a step at most.
    fn took(&self, took: Nanos) -> Option<Nanos> {
        let took = match self.header.clock {
            TraceClock::SystemTime => took.max(self.header.step),
            TraceClock::PerformanceCounter | TraceClock::CycleCounter => took,
        };
        (took <= LONGEST).then_some(took)
    }
}

struct Writing {
    recorder: Recorder,
    batch: Batch,
    times: RecordedTimes,
    drivers: HashMap<(u64, ImageEpoch), DriverName>,
    lines: BTreeMap<(u16, TracedService), LineId>,
    /// How many rows each line has.
    rows: Vec<u64>,
    /// Times that no line, or no row, can hold.
    left_out: u64,
    refused: Option<anyhow::Error>,
}

impl Writing {
    fn add(&mut self, one: &TimeTold, names: &TraceTally) {
        if self.refused.is_some() {
            return;
        }
        let service = self.service(one.of, names);
        let expiry = self.times.expiry(one.begun);
        let took = self.times.took(one.took);
        let bounded = expiry.zip(took);
        let Some((line, (expiry, took))) = self.line(one.cpu, service).zip(bounded) else {
            self.left_out += 1;
            return;
        };
        let seq = &mut self.rows[usize::from(line.0)];
        let mut steps = [None; STAGES.len()];
        steps[Service::Traced(service).last_stage().index()] = Some(took);
        self.batch.push(&Activation {
            line,
            seq: *seq,
            expiry,
            missed: false,
            censored: false,
            steps,
        });
        *seq += 1;
        if self.batch.len() == BATCH {
            self.refused = self.write().err();
        }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        Ok(self.recorder.append(&std::mem::take(&mut self.batch))?)
    }

    fn service(&mut self, of: ToldOf, names: &TraceTally) -> TracedService {
        match of {
            ToldOf::Handler {
                sort,
                routine,
                epoch,
            } => {
                let at = (routine, epoch);
                let known = self.drivers.get(&at).copied();
                let driver =
                    known.unwrap_or_else(|| DriverName::new(&names.driver(routine, epoch)));
                if self.drivers.len() < MOST_REMEMBERED {
                    self.drivers.insert(at, driver);
                }
                match sort {
                    RoutineSort::Isr => TracedService::Isr(driver),
                    RoutineSort::Dpc | RoutineSort::TimerDpc | RoutineSort::ThreadedDpc => {
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
        let line = LineId::at(self.rows.len()).filter(|_| self.rows.len() < MOST_LINES)?;
        self.lines.insert((cpu, service), line);
        self.rows.push(0);
        self.recorder.update(|manifest| {
            manifest.lines.push(Line {
                cpu: Cpu(cpu.into()),
                service: Service::Traced(service),
                route: Route::Direct,
            });
        });
        Some(line)
    }

    /// Ends it, as what it is.
    fn end(mut self, outcome: anyhow::Result<()>, path: &str) -> anyhow::Result<()> {
        let outcome = outcome.and_then(|()| {
            let written = self.write();
            written.with_context(|| format!("write `{path}`"))
        });
        if self.left_out > 0 {
            let left_out = self.left_out;
            self.recorder.update(|manifest| {
                manifest.caveats.push(Caveat::new(
                    CaveatKind::TraceIncomplete,
                    format!(
                        "{left_out} times of the trace are not in the recording: it has {MOST_LINES} drivers and priorities by CPU, each time of 100 days at most"
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
        // Why it failed is the first error, not the last.
        outcome?;
        ended.with_context(|| format!("write `{path}`"))?;
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
    let (begin, end) = (times.begin, times.end);
    let first = header.between(times.origin, opened.unwrap_or(times.origin));
    let after = begin.saturating_sub(first.unwrap_or(begin));
    // The system's time says it itself; of other clocks only the trace's beginning is told.
    let of_clock = header.unix_us(times.origin);
    let began = of_clock.or_else(|| {
        let after = i64::try_from(after.ns() / 1_000).ok()?;
        header.began_unix_us?.checked_add(after)
    });
    let began = began.and_then(|at| Timestamp::from_microsecond(at).ok());
    let clock = Clock {
        name: clock_name(header.clock).into(),
        start_ns: begin,
        end_ns: Some(end),
        start_wall: began.map_or_else(|| UNKNOWN.into(), |at| at.to_string()),
    };
    let plan = ProbePlan {
        period_ns: Nanos::ZERO,
        dither: false,
        duration_ns: Some(end.saturating_sub(begin)),
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

/// What the rows are, of which clock, and what is missing.
fn caveats(clock: TraceClock, report: &TraceReport) -> Vec<Caveat> {
    let lost = &report.losses;
    let missing = format!(
        "{} events and {} buffers were lost while it was recorded, {} buffers and {} bytes of the file are damaged, {} events could not be read, {} begin outside of its time, {} threads were made ready while they ran and {} were still waiting at its end",
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
            "a trace of Windows that another program recorded, read by its {} of {} a step; {missing}",
            clock_name(clock),
            report.clock_step_ns,
        ),
        "what interrupted a handler, and what a hypervisor took, is in its time: docs/how-to/windows-traces.md",
    )];
    if clock == TraceClock::SystemTime {
        caveats.push(Caveat::new(
            CaveatKind::Clocksource,
            format!(
                "the clock of the trace moves in steps of {}: a shorter time is recorded as a step, which is the most that it took",
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
