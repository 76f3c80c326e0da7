//! State that the collector writes and the server reads.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use laggard_answer::live::{LateActivation, LatePart, Live};
use laggard_model::name::line_name;
use laggard_model::{NamedCause, Nanos, Route, printable_json};
use laggard_otlp::{Handover, LateSpan, SpanCause};
use laggard_view::export::prometheus_text;
use prometheus_client::registry::Registry;
use serde::Serialize;

use super::http::{Answer, Answers, BodyKind, HttpRequest, SeriesFormat};
use super::metrics::{self, Metrics};

/// Maximum number of listed late wakeups.
const MAX_LISTED: usize = 100;
/// Maximum age of a cached response. However many requests arrive, each response is generated at
/// most once in this time.
const MAX_RESPONSE_AGE: Duration = Duration::from_secs(1);
/// Collecting is considered stopped after this time without a reading of the probe.
const MIN_SILENCE: Duration = Duration::from_secs(30);
/// The thread of a line is considered stopped after this number of periods without a wakeup, and
/// after [`MIN_SILENCE`].
const MIN_SILENT_PERIODS: u32 = 20;

/// Path of a response, and format of its series.
type Document = (&'static str, SeriesFormat);

/// State that the server responds from.
pub(crate) struct ServedState {
    seen: Mutex<ServedFigures>,
    answers: Mutex<HashMap<Document, (Instant, Answer)>>,
}

/// Figures that were collected so far.
pub(crate) struct ServedFigures {
    pub(crate) metrics: Metrics,
    /// Live figures of the current piece.
    pub(crate) live: Option<Live>,
    episodes: VecDeque<ListedWakeup>,
    /// Number of late wakeups since the start of the program.
    late: u64,
    /// Time of the last reading of the probe.
    pub(crate) looked: Instant,
    /// Reason why nothing is measured, if so.
    pub(crate) unmeasured: Option<String>,
    /// Reason why the store is not written, if so.
    pub(crate) unkept: Option<String>,
    /// Start of this piece by the wall clock at that time.
    pub(crate) began: Option<SystemTime>,
    /// Receiver of late wakeups, if there is one.
    pub(crate) handover: Option<Handover>,
    /// Name of the recording in progress.
    pub(crate) recording: Option<String>,
}

/// Late wakeup in the list.
#[derive(Clone, Debug, Serialize)]
struct ListedWakeup {
    /// Number since the start of the program, from 1.
    episode: u64,
    /// Expiry of the timer.
    due: String,
    service: String,
    route: Route,
    cpu: u32,
    latency_ns: Nanos,
    /// Recording that contains it, and its number in that recording.
    recording: Option<String>,
    number: Option<u64>,
    /// Causes and their times, largest first; empty if causes were not observed.
    causes: Vec<ListedCause>,
}

#[derive(Clone, Debug, Serialize)]
struct ListedCause {
    #[serde(flatten)]
    cause: NamedCause,
    time_ns: Nanos,
}

#[derive(Debug, Serialize)]
struct EpisodeList<'a> {
    /// Number since the start of the program. Only the newest are in the list.
    count: u64,
    episodes: Vec<&'a ListedWakeup>,
}

impl ServedState {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            seen: Mutex::new(ServedFigures {
                metrics,
                live: None,
                episodes: VecDeque::new(),
                late: 0,
                looked: Instant::now(),
                unmeasured: None,
                unkept: None,
                began: None,
                handover: None,
                recording: None,
            }),
            answers: Mutex::default(),
        }
    }

    /// Locks the figures, to read or to change them. Hold the lock only for a short time, because
    /// the collector waits for it.
    pub(crate) fn seen(&self) -> MutexGuard<'_, ServedFigures> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.seen().metrics.registry()
    }

    fn make(&self, path: &str, format: SeriesFormat) -> anyhow::Result<Answer> {
        let whole = |kind, body: Vec<u8>| Answer {
            status: 200,
            kind,
            body: body.into(),
        };
        Ok(match path {
            // Formatted without the lock, so that the collector does not wait.
            "/metrics" => {
                let registry = self.registry();
                let body = match format {
                    SeriesFormat::Text => prometheus_text(&metrics::as_text(&registry)?).into(),
                    SeriesFormat::OpenMetrics => metrics::as_text(&registry)?.into(),
                    SeriesFormat::Protobuf => metrics::as_protobuf(&registry)?,
                };
                whole(BodyKind::Series(format), body)
            }
            "/episodes" => whole(BodyKind::Json, self.seen().episodes()?.into()),
            "/healthz" => self.seen().health(),
            _ => whole(BodyKind::Html, self.seen().page().into()),
        })
    }
}

impl Answers for ServedState {
    fn answer(&self, request: &HttpRequest) -> Answer {
        const PATHS: [&str; 4] = ["/", "/metrics", "/healthz", "/episodes"];
        let Some(path) = PATHS.into_iter().find(|path| *path == request.path) else {
            return Answer::plain(404, "there are /, /metrics, /episodes and /healthz");
        };
        let format = match path {
            "/metrics" => request.format,
            _ => SeriesFormat::default(),
        };
        let key = (path, format);
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, answer)) = answers.get(&key)
            && made.elapsed() < MAX_RESPONSE_AGE
        {
            return answer.clone();
        }
        match self.make(path, format) {
            Ok(answer) => {
                answers.insert(key, (Instant::now(), answer.clone()));
                answer
            }
            Err(err) => Answer::plain(500, &format!("{err:#}")),
        }
    }
}

impl ServedFigures {
    /// Adds a late wakeup that was observed at `now`, by the clock of `late.at`.
    pub(crate) fn add_late(&mut self, late: &LateActivation, now: Nanos) {
        self.late += 1;
        self.metrics.count_late(late, self.late);
        self.hand_over(late);
        let ago = now.saturating_sub(late.at);
        let due = Timestamp::now() - Duration::from(ago);
        let line = late.line;
        self.episodes.push_back(ListedWakeup {
            episode: self.late,
            due: due.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            service: line.service.to_string(),
            route: line.route,
            cpu: late.cpu.0,
            latency_ns: late.latency,
            recording: self.recording.clone().filter(|_| late.number.is_some()),
            number: late.number,
            causes: late
                .causes
                .iter()
                .map(|cause| ListedCause {
                    cause: cause.cause.clone(),
                    time_ns: cause.time,
                })
                .collect(),
        });
        if self.episodes.len() > MAX_LISTED {
            self.episodes.pop_front();
        }
    }

    /// Passes a late wakeup to the receiver. Its times are the times of recordings: the monotonic
    /// clock, aligned with the wall clock at the start of this piece.
    fn hand_over(&self, late: &LateActivation) {
        let (Some(handover), Some(began)) = (&self.handover, self.began) else {
            return;
        };
        let Some(expiry) = began.checked_add(late.at.into()) else {
            return;
        };
        let recording = self.recording.clone();
        let cause = |cause: &LatePart| SpanCause {
            class: metrics::label_of(&cause.cause.class),
            who: cause.cause.culprit(),
            time: cause.time,
        };
        handover.late(LateSpan {
            episode: self.late,
            recorded: recording.zip(late.number),
            expiry,
            line: late.line,
            cpu: late.cpu,
            latency: late.latency,
            is_censored: late.censored,
            stages: late.stages.clone(),
            causes: late.causes.iter().map(cause).collect(),
        });
    }

    /// Returns the list of late wakeups, newest first.
    fn episodes(&self) -> anyhow::Result<String> {
        let list = EpisodeList {
            count: self.late,
            episodes: self.episodes.iter().rev().collect(),
        };
        let text = serde_json::to_string_pretty(&list)?;
        Ok(format!("{}\n", printable_json(&text)))
    }

    /// Notes that nothing is recorded, for the reason `why`.
    pub(crate) fn note_store_failure(&mut self, why: &str) {
        self.metrics.store.failures.inc();
        self.metrics.store.recording.set(0);
        self.unkept = Some(why.to_owned());
    }

    /// Returns 200 if the measurement is collected and, with a store, recorded.
    fn health(&self) -> Answer {
        if let Some(why) = &self.unmeasured {
            return Answer::plain(503, &format!("nothing is measured: {why}"));
        }
        let silent = self.looked.elapsed();
        if silent > MIN_SILENCE {
            let text = format!("nothing was collected for {} s", silent.as_secs());
            return Answer::plain(503, &text);
        }
        let mut but = Vec::new();
        if let Some((line, silent)) = self.metrics.most_silent(Instant::now())
            && silent > MIN_SILENCE.max(self.metrics.period() * MIN_SILENT_PERIODS)
        {
            but.push(format!(
                "{} has not run on CPU {} for {} s",
                line_name(line.service, line.route),
                line.cpu,
                silent.as_secs()
            ));
        }
        if let Some(why) = &self.unkept {
            but.push(format!("does not record: {why}"));
        }
        // The user requested recordings. Without them, the status is an error.
        let status = if self.unkept.is_some() { 503 } else { 200 };
        if but.is_empty() {
            Answer::plain(status, "ok")
        } else {
            Answer::plain(status, &format!("measures, but {}", but.join("; ")))
        }
    }

    fn page(&self) -> String {
        laggard_view::live(
            self.live.as_ref(),
            self.unmeasured.as_deref(),
            self.unkept.as_deref(),
        )
    }
}
