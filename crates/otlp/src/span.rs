//! Late wakeup as a span, with its stages as child spans.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use laggard_model::name::line_name;
use laggard_model::{Cpu, Line, Nanos, Stage};
use ring::digest::{SHA256, digest};

use crate::proto::{
    Event, INTERNAL, KeyValue, Resource, ResourceSpans, ScopeSpans, Span, TracesRequest, Value,
};
use crate::resource::{SCHEMA, attribute, scope, text};

/// Late wakeup.
#[derive(Clone, Debug)]
pub struct LateSpan {
    /// Number within this run.
    pub episode: u64,
    /// Recording that contains it, and its number there.
    pub recorded: Option<(String, u64)>,
    /// Expiry, by the wall clock at the start of the measurement.
    pub expiry: SystemTime,
    pub line: Line,
    pub cpu: Cpu,
    pub latency: Nanos,
    /// True if the thread had not run when the measurement ended. The latency is then a lower
    /// bound.
    pub is_censored: bool,
    /// Times of the known stages after the expiry, in order; the last is the latency.
    pub stages: Vec<(Stage, Nanos)>,
    /// Causes, the largest first; empty if no trace data were recorded.
    pub causes: Vec<SpanCause>,
}

/// Cause of a part of a late wakeup's latency.
#[derive(Clone, Debug)]
pub struct SpanCause {
    /// Class, as recordings name it.
    pub class: String,
    /// Culprit.
    pub who: Option<String>,
    pub time: Nanos,
}

/// IDs of a late wakeup, which depend only on the run and its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpanIds {
    pub trace: [u8; 16],
    pub span: [u8; 8],
}

impl SpanIds {
    /// Computes the IDs of late wakeup `episode` of the run `instance`.
    #[must_use]
    pub fn new(instance: &str, episode: u64) -> Self {
        let hash = digest(&SHA256, format!("{instance}/{episode}").as_bytes());
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        trace.copy_from_slice(&hash.as_ref()[..16]);
        span.copy_from_slice(&hash.as_ref()[16..24]);
        Self { trace, span }
    }

    /// Returns the ID of child `index`.
    fn child(&self, index: usize) -> Vec<u8> {
        let mut input = self.span.to_vec();
        input.extend(index.to_le_bytes());
        digest(&SHA256, &input).as_ref()[..8].to_vec()
    }
}

impl LateSpan {
    /// Returns the number of spans that it is sent as.
    #[must_use]
    pub fn count(&self) -> u64 {
        1 + self.stages.len() as u64
    }

    /// Appends the span, then the spans of its stages, which are contiguous from its start to its
    /// end.
    fn spans(&self, instance: &str, into: &mut Vec<Span>) {
        let ids = SpanIds::new(instance, self.episode);
        let name = line_name(self.line.service, self.line.route);
        let start = unix_ns(self.expiry);
        into.push(Span {
            trace_id: ids.trace.to_vec(),
            span_id: ids.span.to_vec(),
            name: format!("late {name}"),
            kind: INTERNAL,
            start_time_unix_nano: start,
            end_time_unix_nano: start.saturating_add(self.latency.ns()),
            attributes: self.attributes(),
            events: self.events(start),
            ..Span::default()
        });
        let mut from = Nanos::ZERO;
        for (index, &(stage, until)) in self.stages.iter().enumerate() {
            into.push(Span {
                trace_id: ids.trace.to_vec(),
                span_id: ids.child(index),
                parent_span_id: ids.span.to_vec(),
                name: format!("to {}", stage.name()),
                kind: INTERNAL,
                start_time_unix_nano: start.saturating_add(from.ns()),
                end_time_unix_nano: start.saturating_add(until.ns()),
                attributes: vec![text("laggard.stage", stage.name())],
                ..Span::default()
            });
            from = until;
        }
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let int =
            |key, value: u64| attribute(key, Value::Int(value.try_into().unwrap_or(i64::MAX)));
        let mut attributes = vec![
            text("laggard.service", &self.line.service.to_string()),
            text("laggard.route", &self.line.route.to_string()),
            int("laggard.cpu", self.cpu.0.into()),
            int("laggard.latency_ns", self.latency.ns()),
            int("laggard.episode", self.episode),
            attribute("laggard.censored", Value::Bool(self.is_censored)),
        ];
        if let Some((recording, number)) = &self.recorded {
            attributes.push(text("laggard.recording", recording));
            attributes.push(int("laggard.recording.episode", *number));
        }
        if let Some(first) = self.causes.first() {
            attributes.push(text("laggard.cause.class", &first.class));
            if let Some(who) = &first.who {
                attributes.push(text("laggard.cause.who", who));
            }
        }
        attributes
    }

    /// Returns an event per cause. A cause does not have a single start time, because it may occur
    /// in several parts.
    fn events(&self, start: u64) -> Vec<Event> {
        let event = |cause: &SpanCause| Event {
            time_unix_nano: start,
            name: "laggard.cause".into(),
            attributes: [
                Some(text("laggard.cause.class", &cause.class)),
                cause
                    .who
                    .as_deref()
                    .map(|who| text("laggard.cause.who", who)),
                Some(attribute(
                    "laggard.cause.time_ns",
                    Value::Int(cause.time.ns().try_into().unwrap_or(i64::MAX)),
                )),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        self.causes.iter().map(event).collect()
    }
}

/// Returns late wakeups as a request.
#[must_use]
pub fn traces(late: &[LateSpan], resource: &Resource, instance: &str) -> TracesRequest {
    let mut spans = Vec::new();
    for wakeup in late {
        wakeup.spans(instance, &mut spans);
    }
    TracesRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope()),
                spans,
            }],
            schema_url: SCHEMA.into(),
        }],
    }
}

/// Returns the Unix time in ns; 0, which means unknown, before 1970.
pub(crate) fn unix_ns(time: SystemTime) -> u64 {
    let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(since).ns()
}

#[cfg(test)]
mod tests {
    use laggard_model::{Route, Service};

    use super::*;

    fn late() -> LateSpan {
        LateSpan {
            episode: 3,
            recorded: Some(("serve-a.laggard".into(), 2)),
            expiry: UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001),
            line: Line::new(Cpu(1), Service::Fifo(90), Route::Direct),
            cpu: Cpu(1),
            latency: Nanos::from_ns(1_234_567),
            is_censored: false,
            stages: [
                (Stage::Irq, 1_000),
                (Stage::Waking, 1_500),
                (Stage::User, 1_234_567),
            ]
            .map(|(stage, ns)| (stage, Nanos::from_ns(ns)))
            .into(),
            causes: vec![SpanCause {
                class: "higher_priority".into(),
                who: Some("rcu_preempt".into()),
                time: Nanos::from_us(900),
            }],
        }
    }

    fn spans(late: &LateSpan) -> Vec<Span> {
        let request = traces(std::slice::from_ref(late), &Resource::default(), "run");
        request.resource_spans[0].scope_spans[0].spans.clone()
    }

    #[test]
    fn children_of_a_late_wakeup_add_up_to_it_without_a_gap() {
        let late = late();

        let spans = spans(&late);

        let (whole, parts) = spans.split_first().unwrap();
        assert_eq!(spans.len() as u64, late.count());
        assert_eq!(whole.start_time_unix_nano, 1_700_000_000_000_000_001);
        let took = |span: &Span| span.end_time_unix_nano - span.start_time_unix_nano;
        assert_eq!(took(whole), 1_234_567);
        assert_eq!(parts.iter().map(took).sum::<u64>(), 1_234_567);
        let mut time_ns = whole.start_time_unix_nano;
        for part in parts {
            assert_eq!(part.start_time_unix_nano, time_ns, "{}", part.name);
            assert_eq!(part.parent_span_id, whole.span_id);
            assert_eq!(part.trace_id, whole.trace_id);
            time_ns = part.end_time_unix_nano;
        }
        assert_eq!(time_ns, whole.end_time_unix_nano);
    }

    #[test]
    fn span_ids_depend_only_on_the_run_and_the_number() {
        let mut ids: Vec<Vec<u8>> = Vec::new();
        ids.extend(spans(&late()).into_iter().map(|span| span.span_id));
        let again: Vec<Vec<u8>> = spans(&late())
            .into_iter()
            .map(|span| span.span_id)
            .collect();

        assert_eq!(ids, again);
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_ne!(SpanIds::new("run", 3), SpanIds::new("run", 4));
        assert_ne!(SpanIds::new("run", 3), SpanIds::new("another", 3));
    }
}
