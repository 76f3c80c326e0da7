//! Conversion of Prometheus series to OTLP metrics.
//!
//! Both have the same histogram: a bucket of schema `s` holds values above `base^(i - 1)` and up
//! to `base^i`, with base 2^(2^-s). OTLP calls `s` the scale and counts from the lower edge, so
//! its index is one less (`OpenTelemetry`, "Prometheus and `OpenMetrics` Compatibility",
//! "Exponential Histograms").

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

/// Label of an exemplar with the number of the late wakeup.
const EPISODE: &str = "episode";

/// Name and labels of a series.
type Series = (String, Vec<(String, String)>);

/// First observation of a series.
#[derive(Clone, Copy, Debug)]
struct FirstSeen {
    /// Start of the count.
    start: SystemTime,
    count: f64,
    /// Last snapshot that contained it.
    snapshot: u64,
}

/// Conversion of successive snapshots of the same series to requests.
///
/// A series can end and return, for example the series of a culprit. Its count then restarts, and
/// its start is the last snapshot without it.
#[derive(Debug)]
pub struct Conversion {
    instance: String,
    resource: Resource,
    seen: HashMap<Series, FirstSeen>,
    /// Time of the previous snapshot; at first, the start of the count.
    before: SystemTime,
    snapshots: u64,
}

impl Conversion {
    /// Creates the conversion for the run `instance`, whose count started at `began`.
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

    /// Converts a snapshot taken at `now` to a request.
    pub fn request(
        &mut self,
        families: &[theirs::MetricFamily],
        now: SystemTime,
    ) -> MetricsRequest {
        // If the clock was set back, an end must not precede a start.
        let now = now.max(self.before);
        self.snapshots += 1;
        let metrics = families
            .iter()
            .filter_map(|family| self.metric(family, now))
            .collect();
        let snapshot = self.snapshots;
        self.seen
            .retain(|_, first_seen| first_seen.snapshot == snapshot);
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
                    .filter_map(|metric| self.counter(&family.name, metric, now))
                    .collect(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            }),
            MetricType::Histogram | MetricType::GaugeHistogram => {
                Data::Histogram(ExponentialHistogram {
                    data_points: points
                        .filter_map(|metric| self.histogram(&family.name, metric, now))
                        .collect(),
                    aggregation_temporality: CUMULATIVE,
                })
            }
            MetricType::Gauge | MetricType::Untyped | MetricType::Summary => Data::Gauge(Gauge {
                data_points: points.filter_map(|metric| gauge(metric, now)).collect(),
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
        metric: &theirs::Metric,
        now: SystemTime,
    ) -> Option<NumberPoint> {
        let counter = metric.counter.as_ref()?;
        let start = self.start(name, metric, counter.value);
        let exemplar = counter.exemplar.as_ref();
        Some(NumberPoint {
            attributes: attributes(&metric.label),
            start_time_unix_nano: unix_ns(start),
            time_unix_nano: unix_ns(now),
            as_double: Some(counter.value),
            exemplars: exemplar
                .map(|metric| self.exemplar(metric))
                .into_iter()
                .collect(),
        })
    }

    /// Converts an exemplar, which points to the span of the late wakeup that it names.
    fn exemplar(&self, exemplar: &theirs::Exemplar) -> Exemplar {
        let number = exemplar.label.iter().find(|label| label.name == EPISODE);
        let number = number.and_then(|label| label.value.parse().ok());
        let ids = number.map(|number| SpanIds::new(&self.instance, number));
        Exemplar {
            filtered_attributes: attributes(&exemplar.label),
            as_double: Some(exemplar.value),
            span_id: ids.map(|ids| ids.span.to_vec()).unwrap_or_default(),
            trace_id: ids.map(|ids| ids.trace.to_vec()).unwrap_or_default(),
        }
    }

    fn histogram(
        &mut self,
        name: &str,
        metric: &theirs::Metric,
        now: SystemTime,
    ) -> Option<HistogramPoint> {
        let histogram = metric.histogram.as_ref()?;
        #[expect(clippy::cast_precision_loss, reason = "compared with itself")]
        let first_seen = self.start(name, metric, histogram.sample_count as f64);
        let created = histogram.start_timestamp.as_ref();
        let created = created.and_then(|time| wall(time.seconds, time.nanos));
        Some(HistogramPoint {
            attributes: attributes(&metric.label),
            start_time_unix_nano: unix_ns(created.map_or(first_seen, |created| created.min(now))),
            time_unix_nano: unix_ns(now),
            count: histogram.sample_count,
            sum: Some(histogram.sample_sum),
            scale: histogram.schema,
            zero_count: histogram.zero_count,
            positive: buckets(&histogram.positive_span, &histogram.positive_delta),
            zero_threshold: histogram.zero_threshold,
        })
    }

    /// Returns the start of the count of a series with the current `count`.
    fn start(&mut self, name: &str, metric: &theirs::Metric, count: f64) -> SystemTime {
        let labels = metric.label.iter();
        let labels = labels.map(|label| (label.name.clone(), label.value.clone()));
        let series = (name.to_owned(), labels.collect());
        let before = self
            .seen
            .get(&series)
            .filter(|first_seen| first_seen.count <= count);
        let start = before.map_or(self.before, |first_seen| first_seen.start);
        let snapshot = self.snapshots;
        let first_seen = FirstSeen {
            start,
            count,
            snapshot,
        };
        self.seen.insert(series, first_seen);
        start
    }
}

fn gauge(metric: &theirs::Metric, now: SystemTime) -> Option<NumberPoint> {
    Some(NumberPoint {
        attributes: attributes(&metric.label),
        time_unix_nano: unix_ns(now),
        as_double: Some(metric.gauge.as_ref()?.value),
        ..NumberPoint::default()
    })
}

/// Returns all buckets from the first used bucket to the last. `spans` cover the used buckets;
/// `deltas` are the differences between consecutive counts.
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

/// Converts labels. A CPU is a number, as in the spans.
fn attributes(labels: &[theirs::LabelPair]) -> Vec<KeyValue> {
    let value_of = |label: &theirs::LabelPair| match &*label.name {
        "cpu" => label.value.parse().map_or_else(
            |_| text(&label.name, &label.value),
            |number| attribute(&label.name, Value::Int(number)),
        ),
        _ => text(&label.name, &label.value),
    };
    labels.iter().map(value_of).collect()
}

/// Returns the unit of a series by its name, in UCUM. A conversion back to Prometheus adds
/// nothing, because the name already contains the unit.
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
