//! Series of Prometheus as metrics of OTLP.
//!
//! Both have the same histogram: a bucket of schema `s` holds what is above
//! `base^(i - 1)` and at most `base^i`, with base 2^(2^-s); OTLP calls `s` the scale,
//! and counts from the lower edge, so that its index is one less (`OpenTelemetry`,
//! "Prometheus and `OpenMetrics` Compatibility", "Exponential Histograms").

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model as theirs;
use theirs::MetricType;

use crate::proto::{
    Buckets, CUMULATIVE, Data, Exemplar, ExponentialHistogram, Gauge, HistogramPoint, KeyValue,
    Metric, MetricsRequest, NumberPoint, Resource, ResourceMetrics, ScopeMetrics, Sum, Value,
};
use crate::resource::{SCHEMA, attribute, scope, text};
use crate::span::{SpanIds, unix_ns};

/// The label of an exemplar that says which late activation it is.
const EPISODE: &str = "episode";

/// A name, and labels.
type Series = (String, Vec<(String, String)>);

/// What was seen of a series.
#[derive(Clone, Copy, Debug)]
struct FirstSeen {
    /// Since when it is counted.
    start: SystemTime,
    count: f64,
    /// In which snapshot it was last.
    snapshot: u64,
}

/// Turns snapshots of the same series into requests, one after the other.
///
/// A series that ends and comes again, as that of a culprit may, is counted anew: its
/// start is then the snapshot in which it was not there yet.
#[derive(Debug)]
pub struct Conversion {
    instance: String,
    resource: Resource,
    seen: HashMap<Series, FirstSeen>,
    /// When the snapshot before was taken; at first, when counting began.
    before: SystemTime,
    snapshots: u64,
}

impl Conversion {
    /// Of the run that is called `instance`, which began to count at `began`.
    #[must_use]
    pub fn new(instance: &str, resource: Resource, began: SystemTime) -> Self {
        Self {
            instance: instance.into(),
            resource,
            seen: HashMap::new(),
            before: began,
            snapshots: 0,
        }
    }

    /// A snapshot that was taken at `now`, as it is sent.
    pub fn request(&mut self, all: &[theirs::MetricFamily], now: SystemTime) -> MetricsRequest {
        // A clock that was set back must not put an end before a start.
        let now = now.max(self.before);
        self.snapshots += 1;
        let metrics = all.iter().filter_map(|one| self.metric(one, now)).collect();
        let snapshot = self.snapshots;
        self.seen.retain(|_, seen| seen.snapshot == snapshot);
        self.before = now;
        MetricsRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics,
                }],
                schema_url: SCHEMA.into(),
            }],
        }
    }

    fn metric(&mut self, family: &theirs::MetricFamily, now: SystemTime) -> Option<Metric> {
        if family.metric.is_empty() {
            return None;
        }
        let points = family.metric.iter();
        let data = match family.r#type() {
            MetricType::Counter => Data::Sum(Sum {
                data_points: points
                    .filter_map(|one| self.counter(&family.name, one, now))
                    .collect(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            }),
            MetricType::Histogram | MetricType::GaugeHistogram => {
                Data::Histogram(ExponentialHistogram {
                    data_points: points
                        .filter_map(|one| self.histogram(&family.name, one, now))
                        .collect(),
                    aggregation_temporality: CUMULATIVE,
                })
            }
            MetricType::Gauge | MetricType::Untyped | MetricType::Summary => Data::Gauge(Gauge {
                data_points: points.filter_map(|one| gauge(one, now)).collect(),
            }),
        };
        Some(Metric {
            name: family.name.clone(),
            description: family.help.clone(),
            unit: unit(&family.name).into(),
            data: Some(data),
        })
    }

    fn counter(
        &mut self,
        name: &str,
        one: &theirs::Metric,
        now: SystemTime,
    ) -> Option<NumberPoint> {
        let counter = one.counter.as_ref()?;
        let start = self.start(name, one, counter.value);
        let exemplar = counter.exemplar.as_ref();
        Some(NumberPoint {
            attributes: attributes(&one.label),
            start_time_unix_nano: unix_ns(start),
            time_unix_nano: unix_ns(now),
            as_double: Some(counter.value),
            exemplars: exemplar.map(|one| self.exemplar(one)).into_iter().collect(),
        })
    }

    /// Leads to the span of the late activation that it names.
    fn exemplar(&self, one: &theirs::Exemplar) -> Exemplar {
        let number = one.label.iter().find(|label| label.name == EPISODE);
        let number = number.and_then(|label| label.value.parse().ok());
        let ids = number.map(|number| SpanIds::new(&self.instance, number));
        Exemplar {
            filtered_attributes: attributes(&one.label),
            as_double: Some(one.value),
            span_id: ids.map(|ids| ids.span.to_vec()).unwrap_or_default(),
            trace_id: ids.map(|ids| ids.trace.to_vec()).unwrap_or_default(),
        }
    }

    fn histogram(
        &mut self,
        name: &str,
        one: &theirs::Metric,
        now: SystemTime,
    ) -> Option<HistogramPoint> {
        let histogram = one.histogram.as_ref()?;
        #[expect(clippy::cast_precision_loss, reason = "compared with itself")]
        let seen = self.start(name, one, histogram.sample_count as f64);
        let created = histogram.start_timestamp.as_ref();
        let created = created.and_then(|time| wall(time.seconds, time.nanos));
        Some(HistogramPoint {
            attributes: attributes(&one.label),
            start_time_unix_nano: unix_ns(created.map_or(seen, |created| created.min(now))),
            time_unix_nano: unix_ns(now),
            count: histogram.sample_count,
            sum: Some(histogram.sample_sum),
            scale: histogram.schema,
            zero_count: histogram.zero_count,
            positive: buckets(&histogram.positive_span, &histogram.positive_delta),
            zero_threshold: histogram.zero_threshold,
        })
    }

    /// Since when a series is counted that has come to `count`.
    fn start(&mut self, name: &str, one: &theirs::Metric, count: f64) -> SystemTime {
        let labels = one.label.iter();
        let labels = labels.map(|label| (label.name.clone(), label.value.clone()));
        let series = (name.to_owned(), labels.collect());
        let before = self.seen.get(&series).filter(|seen| seen.count <= count);
        let start = before.map_or(self.before, |seen| seen.start);
        let snapshot = self.snapshots;
        let seen = FirstSeen {
            start,
            count,
            snapshot,
        };
        self.seen.insert(series, seen);
        start
    }
}

fn gauge(one: &theirs::Metric, now: SystemTime) -> Option<NumberPoint> {
    Some(NumberPoint {
        attributes: attributes(&one.label),
        time_unix_nano: unix_ns(now),
        as_double: Some(one.gauge.as_ref()?.value),
        ..NumberPoint::default()
    })
}

/// Every bucket from the first that is used to the last, from the spans of those that
/// are, each with the difference to the one before.
fn buckets(spans: &[theirs::BucketSpan], deltas: &[i64]) -> Option<Buckets> {
    let mut left = deltas.iter();
    let (mut index, mut count) = (0_i32, 0_i64);
    let mut first = None;
    let mut counts: Vec<u64> = Vec::new();
    for span in spans {
        index = index.checked_add(span.offset)?;
        if first.is_some() {
            counts.resize(counts.len() + usize::try_from(span.offset).ok()?, 0);
        }
        for delta in left.by_ref().take(usize::try_from(span.length).ok()?) {
            first.get_or_insert(index);
            count = count.checked_add(*delta)?;
            counts.push(count.try_into().ok()?);
            index = index.checked_add(1)?;
        }
    }
    Some(Buckets {
        offset: first?.checked_sub(1)?,
        bucket_counts: counts,
    })
}

/// Labels. A CPU is a number, as in the spans.
fn attributes(labels: &[theirs::LabelPair]) -> Vec<KeyValue> {
    let of = |label: &theirs::LabelPair| match &*label.name {
        "cpu" => label.value.parse().map_or_else(
            |_| text(&label.name, &label.value),
            |number| attribute(&label.name, Value::Int(number)),
        ),
        _ => text(&label.name, &label.value),
    };
    labels.iter().map(of).collect()
}

/// The unit of a series by its name, in UCUM. Where Prometheus gets it again it adds
/// nothing, because the name has it already.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}

fn wall(seconds: i64, nanos: i32) -> Option<SystemTime> {
    let since = Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?);
    UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests;
