//! What clients are shown: the collector writes it, the server reads it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use laggard_answer::live::{LateActivation, LatePart, Live};
use laggard_model::name::line_name;
use laggard_model::{Nanos, Route, printable_json};
use laggard_otlp::{Handover, LateSpan, SpanCause};
use laggard_view::export::prometheus_text;
use prometheus_client::registry::Registry;
use serde::Serialize;

use super::http::{Answer, Answers, Asked, BodyKind, SeriesFormat};
use super::metrics::{self, Metrics};

/// Late activations that are listed.
const LISTED: usize = 100;
/// How long an answer may be given again: however often is asked, what it takes to
/// write one is spent once in so long.
const FRESH: Duration = Duration::from_secs(1);
/// Without a look at the probe for so long, nothing is collected.
const SILENT: Duration = Duration::from_secs(30);
/// Without an activation of a line for so many periods, and [`SILENT`], its thread does
/// not run.
const PERIODS: u32 = 20;

/// Path that is answered, and the format of its series.
type Document = (&'static str, SeriesFormat);

/// What the server answers from.
pub(crate) struct ServedState {
    seen: Mutex<ServedFigures>,
    answers: Mutex<HashMap<Document, (Instant, Answer)>>,
}

/// What was seen so far.
pub(crate) struct ServedFigures {
    pub(crate) metrics: Metrics,
    /// Of the piece that is measured.
    pub(crate) live: Option<Live>,
    episodes: VecDeque<Listed>,
    /// How many late activations there were since the start.
    late: u64,
    /// The last look at the probe.
    pub(crate) looked: Instant,
    /// Why nothing is measured, where nothing is.
    pub(crate) unmeasured: Option<String>,
    /// Why the store is not written to, where it is not.
    pub(crate) unkept: Option<String>,
    /// When this piece began, by the wall clock as it was then.
    pub(crate) began: Option<SystemTime>,
    /// To who sends, where somebody does.
    pub(crate) handover: Option<Handover>,
    /// The recording that is being made.
    pub(crate) recording: Option<String>,
}

/// A late activation.
#[derive(Clone, Debug, Serialize)]
struct Listed {
    /// From 1 on since this program began.
    episode: u64,
    /// When it was due.
    due: String,
    service: String,
    route: Route,
    cpu: u32,
    latency_ns: Nanos,
    /// The recording that it is in, and its number there.
    recording: Option<String>,
    number: Option<u64>,
    /// Who took how much of it, most first; empty: nobody watched.
    causes: Vec<ListedCause>,
}

#[derive(Clone, Debug, Serialize)]
struct ListedCause {
    class: String,
    who: Option<String>,
    time_ns: Nanos,
}

#[derive(Debug, Serialize)]
struct EpisodeList<'a> {
    /// All since this program began; the newest of them are listed.
    count: u64,
    episodes: Vec<&'a Listed>,
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

    /// What was seen, to read or to add to: for short, because the collector waits.
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
            // Written without the lock: the collector does not wait for it.
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
    fn answer(&self, asked: &Asked) -> Answer {
        const PATHS: [&str; 4] = ["/", "/metrics", "/healthz", "/episodes"];
        let Some(path) = PATHS.into_iter().find(|path| *path == asked.path) else {
            return Answer::plain(404, "there are /, /metrics, /episodes and /healthz");
        };
        let format = match path {
            "/metrics" => asked.format,
            _ => SeriesFormat::default(),
        };
        let key = (path, format);
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, answer)) = answers.get(&key)
            && made.elapsed() < FRESH
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
    /// Takes in a late activation, seen at `now` by the clock of `at`.
    pub(crate) fn add_late(&mut self, late: &LateActivation, now: Nanos) {
        self.late += 1;
        self.metrics.count_late(late, self.late);
        self.hand_over(late);
        let ago = now.saturating_sub(late.at);
        let due = Timestamp::now() - Duration::from(ago);
        let line = late.line;
        self.episodes.push_back(Listed {
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
                    class: metrics::label_of(&cause.class),
                    who: cause.who.clone(),
                    time_ns: cause.time,
                })
                .collect(),
        });
        if self.episodes.len() > LISTED {
            self.episodes.pop_front();
        }
    }

    /// To who sends it. Times are those of recordings: the steady clock, laid upon the wall
    /// clock as this piece began.
    fn hand_over(&self, late: &LateActivation) {
        let (Some(handover), Some(began)) = (&self.handover, self.began) else {
            return;
        };
        let Some(expiry) = began.checked_add(late.at.into()) else {
            return;
        };
        let recording = self.recording.clone();
        let cause = |cause: &LatePart| SpanCause {
            class: metrics::label_of(&cause.class),
            who: cause.who.clone(),
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

    /// The newest late activations, the newest first.
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

    /// Whether what is measured is collected and, with a store, recorded.
    fn health(&self) -> Answer {
        if let Some(why) = &self.unmeasured {
            return Answer::plain(503, &format!("nothing is measured: {why}"));
        }
        let silent = self.looked.elapsed();
        if silent > SILENT {
            let text = format!("nothing was collected for {} s", silent.as_secs());
            return Answer::plain(503, &text);
        }
        let mut but = Vec::new();
        if let Some((line, silent)) = self.metrics.most_silent(Instant::now())
            && silent > SILENT.max(self.metrics.period() * PERIODS)
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
        // Somebody asked for recordings: without them, not all is well.
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
