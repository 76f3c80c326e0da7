//! Sends, on a thread of its own, what others hand over.
//!
//! Series are cumulative: what was counted while a collector could not be reached is in
//! the next request that it takes, so none of them waits but the newest, which is read
//! when it is sent. Late activations are told once, so they wait in the queue.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;

use crate::backoff::Backoff;
use crate::client::{Client, Posted, packed};
use crate::metrics::Conversion;
use crate::proto::Resource;
use crate::queue::SpanQueue;
use crate::series::{Became, Loss, OtlpSeries, Signal};
use crate::span::{LateSpan, traces};
use crate::target::{OtlpTarget, TargetError};

/// Late activations that may wait to be looked at by the sender, which may wait for a
/// collector meanwhile: a few minutes of those that there may be.
const HANDED_OVER: usize = 256;
/// For so long late activations are gathered into one request.
const GATHER: Duration = Duration::from_secs(5);
/// So many of them make one, at most.
const TOGETHER: usize = 100;
/// How long the end may wait for the collector, for each of two requests.
const LAST: Duration = Duration::from_secs(1);

/// What a sender is made of.
pub struct SenderParts {
    /// Where to.
    pub target: OtlpTarget,
    /// Of whom.
    pub resource: Resource,
    /// What this run is called.
    pub instance: String,
    /// When it began to count.
    pub began: SystemTime,
    /// What waits.
    pub queue: SpanQueue,
    /// What is said of sending.
    pub series: OtlpSeries,
    /// Reads all series.
    pub snapshot: Box<dyn Fn() -> Vec<MetricFamily> + Send>,
    /// Tells the user.
    pub say: fn(&str),
}

impl std::fmt::Debug for SenderParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SenderParts")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// Takes late activations to the sender, which ends when this is dropped.
#[derive(Clone, Debug)]
pub struct Handover {
    to: SyncSender<LateSpan>,
    series: OtlpSeries,
}

impl Handover {
    /// Hands one over, and waits for nothing: where there is no room, it is counted.
    pub fn late(&self, late: LateSpan) {
        match self.to.try_send(late) {
            Ok(()) => {}
            Err(TrySendError::Full(late) | TrySendError::Disconnected(late)) => {
                self.series.lose(Loss::crowded, late.count());
            }
        }
    }
}

/// Whether one sort of request goes well, and when the next is due.
#[derive(Debug)]
struct Course {
    due: Instant,
    backoff: Backoff,
    /// What was said of it last: the same again is not news.
    said: Option<String>,
}

/// Sends.
pub struct OtlpSender {
    client: Client,
    parts: SenderParts,
    conversion: Conversion,
    from: Receiver<LateSpan>,
    gathered: Vec<LateSpan>,
    /// When what is gathered becomes a request.
    gathered_by: Option<Instant>,
    metrics: Course,
    traces: Course,
    /// What was said of the queue last.
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
    /// A sender, and how to hand over to it.
    ///
    /// # Errors
    /// When it is to be encrypted, and nobody is trusted.
    pub fn new(parts: SenderParts) -> Result<(Self, Handover), TargetError> {
        let (to, from) = sync_channel(HANDED_OVER);
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

    /// Sends until nobody can hand over any more; then once more, for short.
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

    /// When there is something to do.
    fn next(&self) -> Instant {
        let is_waiting = !self.parts.queue.is_empty();
        let traces = is_waiting.then_some(self.traces.due);
        let others = [self.gathered_by, traces].into_iter().flatten();
        others.fold(self.metrics.due, Instant::min)
    }

    fn gather(&mut self, late: LateSpan) {
        self.gathered.push(late);
        let by = self.gathered_by.get_or_insert(Instant::now() + GATHER);
        if self.gathered.len() >= TOGETHER {
            *by = Instant::now();
        }
    }

    /// Puts what was gathered into the queue.
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
                "late activations that wait to be sent cannot be written: {why}; 1 MiB of them is \
                 kept in memory"
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
        if let Posted::Taken(rejected, _) = &outcome {
            series.reject_points(*rejected);
        }
        let every = self.client.target().every;
        self.metrics.went(outcome, every, "series", self.parts.say);
    }

    /// Sends the oldest that waits.
    fn send_traces(&mut self, patience: Duration) {
        let Some(due) = self.parts.queue.first(SystemTime::now()) else {
            return;
        };
        let to = &self.client.target().traces;
        let outcome = self.client.post(to, &due.body, patience);
        let series = &self.parts.series;
        series.count(Signal::traces, became(&outcome));
        match &outcome {
            Posted::Taken(rejected, _) => {
                let rejected = (*rejected).min(due.spans);
                series.sent(due.spans - rejected);
                series.lose(Loss::rejected, rejected);
                self.parts.queue.done();
            }
            Posted::Refused(_) => {
                series.lose(Loss::refused, due.spans);
                self.parts.queue.done();
            }
            Posted::Later(..) => {}
        }
        self.traces
            .went(outcome, Duration::ZERO, "late activations", self.parts.say);
    }

    /// What is known now is tried once more, for short. What waits on disk is sent by the
    /// next run.
    fn end(&mut self) {
        self.put_by();
        self.send_metrics(LAST);
        let until = Instant::now() + LAST;
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
                "{lost} spans of late activations waited in memory and are lost"
            ));
        }
    }
}

fn became(outcome: &Posted) -> Became {
    match outcome {
        Posted::Taken(..) => Became::taken,
        Posted::Later(..) => Became::delayed,
        Posted::Refused(_) => Became::refused,
    }
}

impl Course {
    /// A request went so; the next is due `every` so often.
    fn went(&mut self, outcome: Posted, every: Duration, what: &str, say: fn(&str)) {
        let (wait, news) = match outcome {
            Posted::Taken(0, None) => (every, None),
            Posted::Taken(rejected, why) => {
                let why = why.unwrap_or_else(|| "it does not say why".into());
                (
                    every,
                    Some(format!("of them, the collector left out {rejected}: {why}")),
                )
            }
            Posted::Refused(why) => {
                let news = format!("the collector refuses them, and they are dropped: it {why}");
                (every, Some(news))
            }
            Posted::Later(after, why) => {
                let wait = self.backoff.wait(after);
                let news = format!("they are not sent now, and it is tried again: {why}");
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
            None => say(&format!("OTLP, {what}: the collector takes them again")),
        }
        self.said = news;
    }
}
