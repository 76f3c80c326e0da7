//! Sender in a separate thread.
//!
//! Series are cumulative: counts from a time when the collector was not reachable are in the next
//! accepted request. Only the newest snapshot is needed, and it is taken when it is sent. Late
//! wakeups are sent once, so they wait in the queue.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;

use crate::backoff::Backoff;
use crate::client::{Client, PostOutcome, packed};
use crate::metrics::Conversion;
use crate::proto::Resource;
use crate::queue::SpanQueue;
use crate::series::{Became, Loss, OtlpSeries, Signal};
use crate::span::{LateSpan, traces};
use crate::target::{OtlpTarget, TargetError};

/// Maximum number of late wakeups that wait for the sender: enough for a few minutes. The sender
/// may be waiting for a collector.
const MAX_HANDED_OVER: usize = 256;
/// Late wakeups of this time are collected into one request.
const GATHER: Duration = Duration::from_secs(5);
/// Maximum number of late wakeups per request.
const MAX_PER_REQUEST: usize = 100;
/// Maximum time at the end for each of two requests.
const MAX_LAST_WAIT: Duration = Duration::from_secs(1);

pub struct SenderParts {
    /// Destination.
    pub target: OtlpTarget,
    /// Resource of the data.
    pub resource: Resource,
    /// ID of this run.
    pub instance: String,
    /// Start of the count.
    pub began: SystemTime,
    pub queue: SpanQueue,
    /// Series about the sender itself.
    pub series: OtlpSeries,
    /// Function that reads all series.
    pub snapshot: Box<dyn Fn() -> Vec<MetricFamily> + Send>,
    /// Function that prints a message for the user.
    pub say: fn(&str),
}

impl std::fmt::Debug for SenderParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SenderParts")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// Interface that passes late wakeups to the sender. The sender ends when this is dropped.
#[derive(Clone, Debug)]
pub struct Handover {
    to: SyncSender<LateSpan>,
    series: OtlpSeries,
}

impl Handover {
    /// Passes a late wakeup without blocking. If the channel is full, it is counted.
    pub fn late(&self, late: LateSpan) {
        match self.to.try_send(late) {
            Ok(()) => {}
            Err(TrySendError::Full(late) | TrySendError::Disconnected(late)) => {
                self.series.lose(Loss::crowded, late.count());
            }
        }
    }
}

/// State of one kind of request, and the time of the next.
#[derive(Debug)]
struct Course {
    due: Instant,
    backoff: Backoff,
    /// Last message, which is not repeated.
    said: Option<String>,
}

pub struct OtlpSender {
    client: Client,
    parts: SenderParts,
    conversion: Conversion,
    from: Receiver<LateSpan>,
    gathered: Vec<LateSpan>,
    /// Time when the collected wakeups become a request.
    gathered_by: Option<Instant>,
    metrics: Course,
    traces: Course,
    /// Last message about the queue.
    unwritten: Option<String>,
}

impl std::fmt::Debug for OtlpSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtlpSender")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl OtlpSender {
    /// Creates a sender and its interface.
    ///
    /// # Errors
    ///
    /// Returns an error for an encrypted connection without trusted authorities.
    pub fn new(parts: SenderParts) -> Result<(Self, Handover), TargetError> {
        let (to, from) = sync_channel(MAX_HANDED_OVER);
        let handover = Handover {
            to,
            series: parts.series.clone(),
        };
        let now = Instant::now();
        let course = |due| Course {
            due,
            backoff: Backoff::default(),
            said: None,
        };
        let sender = Self {
            client: Client::new(parts.target.clone())?,
            conversion: Conversion::new(&parts.instance, parts.resource.clone(), parts.began),
            from,
            gathered: Vec::new(),
            gathered_by: None,
            metrics: course(now + parts.target.every),
            traces: course(now),
            unwritten: None,
            parts,
        };
        Ok((sender, handover))
    }

    /// Sends until the interface is dropped, then makes one last short attempt.
    pub fn run(mut self) {
        loop {
            let wait = self.next().saturating_duration_since(Instant::now());
            match self.from.recv_timeout(wait) {
                Ok(late) => self.gather(late),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if self.gathered_by.is_some_and(|by| now >= by) {
                self.put_by();
            }
            let patience = self.client.target().patience;
            if now >= self.metrics.due {
                self.send_metrics(patience);
            }
            if now >= self.traces.due && !self.parts.queue.is_empty() {
                self.send_traces(patience);
            }
        }
        self.end();
    }

    /// Returns the time of the next work.
    fn next(&self) -> Instant {
        let is_waiting = !self.parts.queue.is_empty();
        let traces = is_waiting.then_some(self.traces.due);
        let others = [self.gathered_by, traces].into_iter().flatten();
        others.fold(self.metrics.due, Instant::min)
    }

    fn gather(&mut self, late: LateSpan) {
        self.gathered.push(late);
        let by = self.gathered_by.get_or_insert(Instant::now() + GATHER);
        if self.gathered.len() >= MAX_PER_REQUEST {
            *by = Instant::now();
        }
    }

    /// Moves the collected wakeups to the queue.
    fn put_by(&mut self) {
        self.gathered_by = None;
        let late = std::mem::take(&mut self.gathered);
        if late.is_empty() {
            return;
        }
        let parts = &mut self.parts;
        let spans = late.iter().map(LateSpan::count).sum();
        let request = traces(&late, &parts.resource, &parts.instance);
        parts.queue.push(packed(&request), spans, SystemTime::now());
        if parts.queue.unwritten == self.unwritten {
            return;
        }
        self.unwritten.clone_from(&parts.queue.unwritten);
        if let Some(why) = &self.unwritten {
            (parts.say)(&format!(
                "cannot write the queue of late wakeups: {why}; up to 1 MiB of it is kept in memory"
            ));
        }
    }

    fn send_metrics(&mut self, patience: Duration) {
        let now = SystemTime::now();
        let request = self.conversion.request(&(self.parts.snapshot)(), now);
        let to = &self.client.target().metrics;
        let outcome = self.client.post(to, &packed(&request), patience);
        let series = &self.parts.series;
        series.count(Signal::metrics, became(&outcome));
        if let PostOutcome::Taken(rejected, _) = &outcome {
            series.reject_points(*rejected);
        }
        let every = self.client.target().every;
        self.metrics.went(outcome, every, "series", self.parts.say);
    }

    /// Sends the oldest request of the queue.
    fn send_traces(&mut self, patience: Duration) {
        let Some(due) = self.parts.queue.first(SystemTime::now()) else {
            return;
        };
        let to = &self.client.target().traces;
        let outcome = self.client.post(to, &due.body, patience);
        let series = &self.parts.series;
        series.count(Signal::traces, became(&outcome));
        match &outcome {
            PostOutcome::Taken(rejected, _) => {
                let rejected = (*rejected).min(due.spans);
                series.sent(due.spans - rejected);
                series.lose(Loss::rejected, rejected);
                self.parts.queue.done();
            }
            PostOutcome::Refused(_) => {
                series.lose(Loss::refused, due.spans);
                self.parts.queue.done();
            }
            PostOutcome::Later(..) => {}
        }
        self.traces
            .went(outcome, Duration::ZERO, "late wakeups", self.parts.say);
    }

    /// Makes a last short attempt with the current data. The next run sends the requests on disk.
    fn end(&mut self) {
        self.put_by();
        self.send_metrics(MAX_LAST_WAIT);
        let until = Instant::now() + MAX_LAST_WAIT;
        while !self.parts.queue.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.traces.said.is_some() {
                break;
            }
            self.send_traces(left);
        }
        let lost = self.parts.queue.spans_in_memory();
        if lost > 0 {
            (self.parts.say)(&format!(
                "{lost} spans of late wakeups were only in memory and are lost"
            ));
        }
    }
}

fn became(outcome: &PostOutcome) -> Became {
    match outcome {
        PostOutcome::Taken(..) => Became::taken,
        PostOutcome::Later(..) => Became::delayed,
        PostOutcome::Refused(_) => Became::refused,
    }
}

impl Course {
    /// Handles the outcome of a request. The next is due after `every`.
    fn went(&mut self, outcome: PostOutcome, every: Duration, what: &str, say: fn(&str)) {
        let (wait, news) = match outcome {
            PostOutcome::Taken(0, None) => (every, None),
            PostOutcome::Taken(rejected, why) => {
                let why = why.unwrap_or_else(|| "it gives no reason".into());
                (
                    every,
                    Some(format!("the collector rejected {rejected}: {why}")),
                )
            }
            PostOutcome::Refused(why) => {
                let news = format!("the collector refuses them, so they are dropped: it {why}");
                (every, Some(news))
            }
            PostOutcome::Later(after, why) => {
                let wait = self.backoff.wait(after);
                let news = format!("cannot send them now, will retry: {why}");
                self.due = Instant::now() + wait;
                self.tell(Some(news), what, say);
                return;
            }
        };
        self.backoff.succeeded();
        self.due = Instant::now() + wait;
        self.tell(news, what, say);
    }

    fn tell(&mut self, news: Option<String>, what: &str, say: fn(&str)) {
        if self.said == news {
            return;
        }
        match &news {
            Some(news) => say(&format!("OTLP, {what}: {news}")),
            None => say(&format!("OTLP, {what}: the collector accepts them again")),
        }
        self.said = news;
    }
}
