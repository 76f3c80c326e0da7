//! A late activation as a span, and its stages as the children of that.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use laggard_model::name::line_name;
use laggard_model::{Cpu, Line, Nanos, Stage};
use ring::digest::{SHA256, digest};

use crate::proto::{
    Event, INTERNAL, KeyValue, Resource, ResourceSpans, ScopeSpans, Span, TracesRequest, Value,
};
use crate::resource::{SCHEMA, attribute, scope, text};

/// A late activation.
#[derive(Clone, Debug)]
pub struct LateSpan {
    /// Its number among those of this run.
    pub episode: u64,
    /// The recording that it is in, and its number there.
    pub recorded: Option<(String, u64)>,
    /// The programmed time, by the wall clock as it was when measuring began.
    pub expiry: SystemTime,
    /// The service.
    pub line: Line,
    /// Where it ran.
    pub cpu: Cpu,
    /// How late it was.
    pub latency: Nanos,
    /// Whether it had not run when measuring ended: it was at least so late.
    pub is_censored: bool,
    /// Each stage that was seen, after the expiry, in order; the last is the latency.
    pub stages: Vec<(Stage, Nanos)>,
    /// Who took how much of it, most first; empty: nobody watched.
    pub causes: Vec<SpanCause>,
}

/// What took a part of a late activation's time.
#[derive(Clone, Debug)]
pub struct SpanCause {
    /// Its class, as recordings name it.
    pub class: String,
    /// Who it was.
    pub who: Option<String>,
    /// How much it took.
    pub time: Nanos,
}

/// What a late activation of a run is called: the same whenever it is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpanIds {
    /// The trace's.
    pub trace: [u8; 16],
    /// The span's.
    pub span: [u8; 8],
}

impl SpanIds {
    /// Of the late activation `episode` of the run that is called `instance`.
    #[must_use]
    pub fn new(instance: &str, episode: u64) -> Self {
        let hash = digest(&SHA256, format!("{instance}/{episode}").as_bytes());
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        trace.copy_from_slice(&hash.as_ref()[..16]);
        span.copy_from_slice(&hash.as_ref()[16..24]);
        Self { trace, span }
    }

    /// Of the child that is the `index`th.
    fn child(&self, index: usize) -> Vec<u8> {
        let mut of = self.span.to_vec();
        of.extend(index.to_le_bytes());
        digest(&SHA256, &of).as_ref()[..8].to_vec()
    }
}

impl LateSpan {
    /// How many spans it is sent as.
    #[must_use]
    pub fn count(&self) -> u64 {
        1 + self.stages.len() as u64
    }

    /// The span, then those of its stages, which follow each other without a gap from its
    /// beginning to its end.
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
        let mut all = vec![
            text("laggard.service", &self.line.service.to_string()),
            text("laggard.route", &self.line.route.to_string()),
            int("laggard.cpu", self.cpu.0.into()),
            int("laggard.latency_ns", self.latency.ns()),
            int("laggard.episode", self.episode),
            attribute("laggard.censored", Value::Bool(self.is_censored)),
        ];
        if let Some((recording, number)) = &self.recorded {
            all.push(text("laggard.recording", recording));
            all.push(int("laggard.recording.episode", *number));
        }
        if let Some(first) = self.causes.first() {
            all.push(text("laggard.cause.class", &first.class));
            if let Some(who) = &first.who {
                all.push(text("laggard.cause.who", who));
            }
        }
        all
    }

    /// Every cause. When it began is not one time: it may have come and gone.
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

/// Late activations as they are sent.
#[must_use]
pub fn traces(late: &[LateSpan], resource: &Resource, instance: &str) -> TracesRequest {
    let mut spans = Vec::new();
    for one in late {
        one.spans(instance, &mut spans);
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

/// Unix time; 0 before 1970, which is "not known".
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
            line: Line {
                service: Service::Fifo(90),
                route: Route::Direct,
                cpu: Cpu(1),
            },
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
    fn the_children_of_a_late_activation_add_up_to_it_exactly_and_leave_no_gap() {
        let late = late();

        let spans = spans(&late);

        let (whole, parts) = spans.split_first().unwrap();
        assert_eq!(spans.len() as u64, late.count());
        assert_eq!(whole.start_time_unix_nano, 1_700_000_000_000_000_001);
        let took = |one: &Span| one.end_time_unix_nano - one.start_time_unix_nano;
        assert_eq!(took(whole), 1_234_567);
        assert_eq!(parts.iter().map(took).sum::<u64>(), 1_234_567);
        let mut at = whole.start_time_unix_nano;
        for part in parts {
            assert_eq!(part.start_time_unix_nano, at, "{}", part.name);
            assert_eq!(part.parent_span_id, whole.span_id);
            assert_eq!(part.trace_id, whole.trace_id);
            at = part.end_time_unix_nano;
        }
        assert_eq!(at, whole.end_time_unix_nano);
    }

    #[test]
    fn the_same_late_activation_is_the_same_span_and_another_or_another_run_s_is_not() {
        let mut ids: Vec<Vec<u8>> = Vec::new();
        ids.extend(spans(&late()).into_iter().map(|one| one.span_id));
        let again: Vec<Vec<u8>> = spans(&late()).into_iter().map(|one| one.span_id).collect();

        assert_eq!(ids, again);
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_ne!(SpanIds::new("run", 3), SpanIds::new("run", 4));
        assert_ne!(SpanIds::new("run", 3), SpanIds::new("another", 3));
    }
}
