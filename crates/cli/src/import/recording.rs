//! A recording of what a trace tells: `laggard import FILE -o DIR`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use laggard_answer::trace::TraceReport;
use laggard_etl::{RoutineSort, TimeTold, ToldOf, Trace, TraceClock, TraceTally};
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
/// When the trace began, where it does not say.
const UNKNOWN: &str = "unknown";

/// When what a trace tells began and ended, and how much it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TraceExtent {
    /// When the first event of all was, by the trace's clock.
    pub(super) opened: Option<Nanos>,
    /// When the first of all times began, and the last ended; `None`: there is none.
    span: Option<(Nanos, Nanos)>,
    count: u64,
}

impl TraceExtent {
    pub(super) fn add(&mut self, one: &TimeTold) {
        let end = one.begun + one.took;
        let (begin, last) = self.span.unwrap_or((one.begun, end));
        self.span = Some((begin.min(one.begun), last.max(end)));
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
    let manifest = manifest(from, report, extent.opened, span);
    let recorder = Recorder::create(place.clone(), manifest);
    let mut writing = Writing {
        recorder: recorder.with_context(|| format!("begin `{path}`"))?,
        batch: Batch::default(),
        begin: span.0,
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

struct Writing {
    recorder: Recorder,
    batch: Batch,
    begin: Nanos,
    drivers: HashMap<u64, DriverName>,
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
        let is_bounded = one.took <= LONGEST && one.begun.saturating_sub(self.begin) <= LONGEST;
        let service = self.service(one.of, names);
        let Some(line) = self.line(one.cpu, service).filter(|_| is_bounded) else {
            self.left_out += 1;
            return;
        };
        let seq = &mut self.rows[usize::from(line.0)];
        let mut steps = [None; STAGES.len()];
        steps[Service::Traced(service).last_stage().index()] = Some(one.took);
        self.batch.push(&Activation {
            line,
            seq: *seq,
            expiry: one.begun,
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
            ToldOf::Handler { sort, routine } => {
                let known = self.drivers.get(&routine).copied();
                let driver = known.unwrap_or_else(|| DriverName::new(&names.driver(routine)));
                if self.drivers.len() < MOST_REMEMBERED {
                    self.drivers.insert(routine, driver);
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
    opened: Option<Nanos>,
    (begin, end): (Nanos, Nanos),
) -> Manifest {
    let header = from.header();
    let after = begin.saturating_sub(opened.unwrap_or(begin));
    let began = header.began_unix_us.and_then(|at| {
        let after = i64::try_from(after.ns() / 1_000).ok()?;
        Timestamp::from_microsecond(at.checked_add(after)?).ok()
    });
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
        caveats: caveats(header.clock, header.hz, report),
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
fn caveats(clock: TraceClock, hz: u64, report: &TraceReport) -> Vec<Caveat> {
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
    let step = 1_000_000_000_u64.div_ceil(hz.max(1));
    let mut caveats = vec![Caveat::new(
        CaveatKind::Imported,
        format!(
            "a trace of Windows that another program recorded, read by its {} of {} a step; {missing}",
            clock_name(clock),
            Nanos::from_ns(step),
        ),
        "what interrupted a handler, and what a hypervisor took, is in its time: docs/import.md",
    )];
    if clock == TraceClock::SystemTime {
        caveats.push(Caveat::new(
            CaveatKind::Clocksource,
            "the clock of the trace moves in steps of milliseconds, so that shorter times are 0 or a step",
            "record with the performance counter (`xperf -ClockType PerfCounter`)",
        ));
    }
    if !report.is_trusted() {
        caveats.push(Caveat::new(
            CaveatKind::TraceIncomplete,
            format!("too much of the trace is missing: {missing}"),
            "record again with more and larger buffers (`xperf -BufferSize 1024 -MaxBuffers 1024`)",
        ));
    }
    caveats
}
