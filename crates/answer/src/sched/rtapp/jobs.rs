//! Converts the events of a task to jobs: its work between two wakeups by its timer.

use super::error::{Problem, RtAppError};
use super::fields::{Fields, MAX_INTEGER, integer, text, type_error};
use super::json::{JsonEntry, JsonValue};

/// Effect of an event, given by the start of its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EventKind {
    Work,
    Sleep,
    Amount,
    Lock,
    Unlock,
    Wake,
    Wait,
    Timer,
    Yield,
    Fork,
}

/// In the order of rt-app's comparisons with a key.
const EVENTS: [(&str, EventKind); 20] = [
    ("run", EventKind::Work),
    ("runtime", EventKind::Work),
    ("sleep", EventKind::Sleep),
    ("memrun", EventKind::Amount),
    ("mem", EventKind::Amount),
    ("iorun", EventKind::Amount),
    ("lock", EventKind::Lock),
    ("unlock", EventKind::Unlock),
    ("signal", EventKind::Wake),
    ("broad", EventKind::Wake),
    ("resume", EventKind::Wake),
    ("sem_post", EventKind::Wake),
    ("wait", EventKind::Wait),
    ("sync", EventKind::Wait),
    ("suspend", EventKind::Wait),
    ("barrier", EventKind::Wait),
    ("sem_wait", EventKind::Wait),
    ("timer", EventKind::Timer),
    ("yield", EventKind::Yield),
    ("fork", EventKind::Fork),
];

/// Keys of an earlier grammar: work, and the events in it.
const OLD_WORK: &str = "exec";
const OLD_EVENTS: &str = "lock_order";

fn event_kind(key: &str) -> Option<EventKind> {
    let mut events = EVENTS.iter();
    let event = events.find(|(name, _)| key.starts_with(name));
    event.map(|(_, kind)| *kind)
}

/// Event that ends a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum JobWaker {
    Timer(String),
    /// The next period of `SCHED_DEADLINE`.
    Yield,
}

#[derive(Clone, Debug)]
enum Step {
    Work(i64),
    Wait {
        key: String,
        line: u32,
        waker: JobWaker,
        /// Period in microseconds; for a yield, the period of the policy.
        period: Option<i64>,
    },
}

/// A mutex that a task takes.
#[derive(Clone, Debug)]
pub(super) struct MutexUse {
    pub(super) event: String,
    pub(super) mutex: String,
    pub(super) line: u32,
}

/// A phase: events that are done in a loop.
#[derive(Clone, Debug)]
pub(super) struct Phase<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) fields: Fields<'a>,
    /// `None`: for ever.
    loops: Option<i64>,
    steps: Vec<Step>,
    pub(super) mutexes: Vec<MutexUse>,
    /// Event keys that occur again, with their lines.
    pub(super) repeated: Vec<(String, u32)>,
}

/// Work of a task from one wakeup by its timer to the next, in microseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TimerJob {
    pub(super) work: i64,
    pub(super) period: i64,
    pub(super) phase: usize,
}

/// Every job that a task has, and the timer that wakes it.
#[derive(Clone, Debug)]
pub(super) struct TimerJobs {
    /// The job that has the most work and the shortest period.
    pub(super) largest: TimerJob,
    /// True if all jobs are equal.
    pub(super) are_alike: bool,
    pub(super) waker: JobWaker,
}

impl<'a> Phase<'a> {
    /// # Errors
    /// If an event cannot be analysed or is missing.
    pub(super) fn new(name: Option<&'a str>, fields: Fields<'a>) -> Result<Self, RtAppError> {
        let loops = fields.integer("loop", (-MAX_INTEGER, MAX_INTEGER))?;
        let mut phase = Self {
            name,
            fields,
            loops: Some(loops.unwrap_or(1)).filter(|&loops| loops > 0),
            steps: Vec::new(),
            mutexes: Vec::new(),
            repeated: Vec::new(),
        };
        let mut keys: Vec<&str> = Vec::new();
        for entry in fields.entries {
            let Some(kind) = event_kind(&entry.key) else {
                continue;
            };
            if keys.contains(&entry.key.as_str()) {
                phase.repeated.push((entry.key.clone(), entry.line));
            }
            keys.push(&entry.key);
            if entry.key == OLD_EVENTS {
                return Err(Problem::OldGrammar(OLD_EVENTS.into()).on_line(entry.line));
            }
            phase.add(kind, entry)?;
        }
        if !keys.is_empty() {
            return Ok(phase);
        }
        Err(match fields.get(OLD_WORK)? {
            Some(entry) => Problem::OldGrammar(OLD_WORK.into()).on_line(entry.line),
            None => Problem::NoEvents.on_line(fields.line),
        })
    }

    fn add(&mut self, kind: EventKind, entry: &JsonEntry) -> Result<(), RtAppError> {
        let key = || entry.key.clone();
        let unsupported = |problem: Problem| Err(problem.on_line(entry.line));
        match kind {
            EventKind::Work => {
                let work = integer(entry, (0, MAX_INTEGER))?;
                self.steps.push(Step::Work(work));
            }
            EventKind::Sleep => {
                // A sleep of 0 returns at once.
                if integer(entry, (0, MAX_INTEGER))? > 0 {
                    return unsupported(Problem::Sleeps(key()));
                }
            }
            EventKind::Amount => return unsupported(Problem::Amount(key())),
            EventKind::Wait => return unsupported(Problem::Waits(key())),
            EventKind::Fork => return unsupported(Problem::Fork(key())),
            EventKind::Unlock | EventKind::Wake => {
                text(entry)?;
            }
            EventKind::Lock => self.mutexes.push(MutexUse {
                event: key(),
                mutex: text(entry)?.into(),
                line: entry.line,
            }),
            EventKind::Timer => {
                let timer = Fields::from_node(&entry.key, &entry.node)?;
                let reference = timer.text("ref")?.unwrap_or("unknown");
                timer.text("mode")?;
                let period = timer.integer("period", (0, MAX_INTEGER))?.unwrap_or(0);
                // A timer with period 0 does not wait.
                if period > 0 {
                    self.steps.push(Step::Wait {
                        key: key(),
                        line: entry.line,
                        waker: JobWaker::Timer(reference.into()),
                        period: Some(period),
                    });
                }
            }
            EventKind::Yield => match entry.node.value {
                JsonValue::Text(_) | JsonValue::Absent => self.steps.push(Step::Wait {
                    key: key(),
                    line: entry.line,
                    waker: JobWaker::Yield,
                    period: None,
                }),
                _ => {
                    return Err(type_error(&entry.key, "a string", entry.line));
                }
            },
        }
        Ok(())
    }

    /// Returns the total work of the phase if no step waits; `None` otherwise.
    fn work(&self, deadline_period: Option<i64>) -> Option<i64> {
        let mut work = 0_i64;
        for step in &self.steps {
            match step {
                Step::Work(time) => work = work.saturating_add(*time),
                Step::Wait { period, .. } => {
                    if period.or(deadline_period).is_some() {
                        return None;
                    }
                }
            }
        }
        Some(work)
    }
}

/// Follows a task through its phases.
struct Walk {
    jobs: Vec<TimerJob>,
    /// Work since the last wakeup.
    work: i64,
    waker: Option<JobWaker>,
}

impl Walk {
    fn wait(
        &mut self,
        (key, line): (&str, u32),
        waker: &JobWaker,
        period: i64,
        phase: usize,
    ) -> Result<(), RtAppError> {
        match (&self.waker, waker) {
            (None, _) => self.waker = Some(waker.clone()),
            (Some(before), _) if before == waker => {}
            (Some(JobWaker::Timer(_)), JobWaker::Timer(reference)) => {
                let problem = Problem::SecondTimer {
                    second: key.into(),
                    reference: reference.clone(),
                };
                return Err(problem.on_line(line));
            }
            (Some(_), _) => return Err(Problem::YieldAndTimer(key.into()).on_line(line)),
        }
        self.jobs.push(TimerJob {
            work: self.work,
            period,
            phase,
        });
        self.work = 0;
        Ok(())
    }
}

/// Returns the jobs of a task that goes `loops` times through `phases` (`None`: forever).
/// `deadline_period` is the period of `SCHED_DEADLINE`, in microseconds.
///
/// # Errors
/// When no timer wakes it, or jobs differ so that none is the largest.
pub(super) fn jobs(
    phases: &[Phase<'_>],
    loops: Option<i64>,
    deadline_period: Option<i64>,
    line: u32,
) -> Result<TimerJobs, RtAppError> {
    let mut walk = Walk {
        jobs: Vec::new(),
        work: 0,
        waker: None,
    };
    // Jobs repeat from the second round.
    let rounds = if loops == Some(1) { 1 } else { 2 };
    let mut is_endless = false;
    'rounds: for _ in 0..rounds {
        for (index, phase) in phases.iter().enumerate() {
            if let Some(work) = phase.work(deadline_period) {
                let Some(loops) = phase.loops else {
                    return Err(Problem::NoTimer.on_line(phase.fields.line));
                };
                let work = work
                    .checked_mul(loops)
                    .and_then(|work| walk.work.checked_add(work));
                walk.work = work.ok_or_else(|| Problem::TooLong.on_line(phase.fields.line))?;
                continue;
            }
            // Here, too, jobs repeat from the second round.
            for _ in 0..phase.loops.unwrap_or(2).min(2) {
                for step in &phase.steps {
                    match step {
                        Step::Work(work) => walk.work = walk.work.saturating_add(*work),
                        Step::Wait {
                            key,
                            line,
                            waker,
                            period,
                        } => {
                            if let Some(period) = period.or(deadline_period) {
                                walk.wait((key, *line), waker, period, index)?;
                            }
                        }
                    }
                }
            }
            if phase.loops.is_none() {
                is_endless = true;
                break 'rounds;
            }
        }
    }
    let Some(waker) = walk.waker else {
        return Err(Problem::NoTimer.on_line(line));
    };
    let work = walk.jobs.iter().map(|job| job.work).max().unwrap_or(0);
    if walk.work > work && rounds == 1 && !is_endless {
        return Err(Problem::Trailing(walk.work).on_line(line));
    }
    let period = walk.jobs.iter().map(|job| job.period).min().unwrap_or(0);
    if work == 0 {
        return Err(Problem::NoWork.on_line(line));
    }
    let is_largest = |job: &&TimerJob| (job.work, job.period) == (work, period);
    let Some(largest) = walk.jobs.iter().find(is_largest) else {
        return Err(Problem::JobsDiffer { work, period }.on_line(line));
    };
    Ok(TimerJobs {
        largest: *largest,
        are_alike: walk.jobs.iter().all(|job| is_largest(&job)),
        waker,
    })
}
