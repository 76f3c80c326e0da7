use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_protobuf::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::CounterWithExemplar;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, NativeHistogramConfig};
use prometheus_client::registry::{Registry, Unit};

use super::*;

const BEGAN: SystemTime = UNIX_EPOCH;

fn after(seconds: u64) -> SystemTime {
    BEGAN + Duration::from_secs(seconds)
}

fn conversion() -> Conversion {
    Conversion::new("run", Resource::default(), BEGAN)
}

fn metrics(conversion: &mut Conversion, registry: &Registry, now: SystemTime) -> Vec<Metric> {
    let request = conversion.request(&encode(registry).unwrap(), now);
    request.resource_metrics[0].scope_metrics[0].metrics.clone()
}

fn histogram() -> Histogram {
    let native = NativeHistogramConfig::with_schema(6);
    Histogram::new_classic_and_native([1e-3, 1.0], native)
}

fn only_histogram(metrics: &[Metric]) -> HistogramPoint {
    let Some(Data::Histogram(histogram)) = &metrics[0].data else {
        panic!("{metrics:?}");
    };
    assert_eq!(histogram.aggregation_temporality, CUMULATIVE);
    histogram.data_points[0].clone()
}

/// Checks that each value is in the bucket that counted it, by OTLP's definition of the edges.
#[test]
fn bucket_holds_the_values_between_its_edges_and_counts_add_up() {
    for value in [
        1e-9,
        1.5e-6,
        0.000_05,
        0.001,
        0.0625,
        0.062_500_001,
        1.0,
        2.0,
        3.7,
        900.0,
    ] {
        let mut registry = Registry::default();
        let histogram = histogram();
        registry.register_with_unit("latency", "x", Unit::Seconds, histogram.clone());
        histogram.observe(value);

        let point = only_histogram(&metrics(&mut conversion(), &registry, after(1)));

        let buckets = point.positive.unwrap();
        assert_eq!(
            (point.scale, point.count, point.zero_count),
            (6, 1, 0),
            "for {value}"
        );
        assert_eq!(buckets.bucket_counts, [1], "for {value}");
        let edge = |index: i32| f64::from(index).mul_add(1.0 / 64.0, 0.0).exp2();
        let (lower, upper) = (edge(buckets.offset), edge(buckets.offset + 1));
        assert!(
            lower < value && value <= upper,
            "{value} is not in ({lower}, {upper}]"
        );
    }
}

#[test]
fn distant_buckets_keep_their_places() {
    let mut registry = Registry::default();
    let histogram = histogram();
    registry.register("latency", "x", histogram.clone());
    for (value, times) in [(0.001, 3), (0.001_02, 2), (0.5, 7)] {
        (0..times).for_each(|_| histogram.observe(value));
    }

    let point = only_histogram(&metrics(&mut conversion(), &registry, after(1)));

    let buckets = point.positive.unwrap();
    let used = buckets.bucket_counts.iter().zip(buckets.offset..);
    let used: Vec<(u64, i32)> = used
        .filter(|(count, _)| **count > 0)
        .map(|(count, index)| (*count, index))
        .collect();
    let index = |value: f64| (value.log2() * 64.0).ceil() - 1.0;
    let expected = [(3, 0.001), (2, 0.001_02), (7, 0.5)];
    assert_eq!(used.len(), 3);
    for ((count, index_of), (times, value)) in used.iter().zip(expected) {
        assert_eq!(
            (*count, f64::from(*index_of)),
            (times, index(value)),
            "for {value}"
        );
    }
    assert_eq!(buckets.bucket_counts.iter().sum::<u64>(), point.count);
    assert!((point.sum.unwrap() - 3.505_04).abs() < 1e-9);
}

#[test]
fn invalid_spans_give_no_buckets_and_no_panic() {
    let span = |offset, length| theirs::BucketSpan { offset, length };

    assert_eq!(buckets(&[], &[]), None);
    assert_eq!(buckets(&[span(i32::MAX, 2)], &[1, 1]), None);
    assert_eq!(buckets(&[span(0, 2)], &[1, -2]), None);
    assert_eq!(buckets(&[span(0, 1), span(-5, 1)], &[1, 0]), None);
    let short = buckets(&[span(3, 9)], &[1]).unwrap();
    assert_eq!((short.offset, short.bucket_counts), (2, vec![1]));
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Labels {
    culprit: &'static str,
    cpu: u32,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Which {
    episode: u64,
}

fn sums(metrics: &[Metric]) -> Vec<NumberPoint> {
    let Some(Data::Sum(sum)) = &metrics[0].data else {
        panic!("{metrics:?}");
    };
    assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
    sum.data_points.clone()
}

#[test]
fn counter_keeps_its_name_its_labels_and_its_span() {
    let mut registry = Registry::with_prefix("laggard");
    let family =
        Family::<Labels, CounterWithExemplar<Which, u64, std::sync::atomic::AtomicU64>>::default();
    registry.register("episodes", "Late", family.clone());
    let labels = Labels {
        culprit: "a",
        cpu: 3,
    };
    family
        .get_or_create_owned(&labels)
        .inc_by(2, Some(Which { episode: 7 }), None);

    let metrics = metrics(&mut conversion(), &registry, after(60));

    assert_eq!(
        (&*metrics[0].name, &*metrics[0].unit),
        ("laggard_episodes_total", "")
    );
    let point = &sums(&metrics)[0];
    assert_eq!(point.as_double, Some(2.0));
    let keys: Vec<&str> = point
        .attributes
        .iter()
        .map(|attribute| &*attribute.key)
        .collect();
    assert_eq!(keys, ["culprit", "cpu"]);
    let ids = SpanIds::new("run", 7);
    assert_eq!(point.exemplars[0].trace_id, ids.trace);
    assert_eq!(point.exemplars[0].span_id, ids.span);
    assert_eq!(point.time_unix_nano, 60_000_000_000);
}

#[test]
fn series_that_returns_starts_at_its_absence() {
    let mut registry = Registry::default();
    let family = Family::<Labels, Counter>::default();
    registry.register("x", "x", family.clone());
    let labels = Labels {
        culprit: "a",
        cpu: 0,
    };
    let mut conversion = conversion();
    let mut start = |now| {
        let metrics = metrics(&mut conversion, &registry, after(now));
        metrics
            .first()
            .map(|_| sums(&metrics)[0].start_time_unix_nano / 1_000_000_000)
    };
    family.get_or_create_owned(&labels).inc_by(9);
    assert_eq!((start(60), start(120)), (Some(0), Some(0)));

    family.remove(&labels);
    assert_eq!(start(180), None);
    family.get_or_create_owned(&labels).inc_by(20);
    assert_eq!((start(240), start(300)), (Some(180), Some(180)));

    // Removed between two snapshots.
    family.remove(&labels);
    family.get_or_create_owned(&labels).inc();
    assert_eq!((start(360), start(420)), (Some(300), Some(300)));
}

#[test]
fn clock_set_back_gives_no_end_before_a_start() {
    let mut registry = Registry::default();
    let counter: Counter = Counter::default();
    registry.register("x", "x", counter);
    let mut conversion = conversion();
    metrics(&mut conversion, &registry, after(600));

    let later = metrics(&mut conversion, &registry, after(60));

    assert_eq!(sums(&later)[0].time_unix_nano, 600_000_000_000);
}

#[test]
fn gauge_has_no_start_and_the_unit_of_its_name() {
    let mut registry = Registry::default();
    let gauge: Gauge = Gauge::default();
    gauge.set(-4);
    registry.register_with_unit("memory", "x", Unit::Bytes, gauge);

    let metrics = metrics(&mut conversion(), &registry, after(1));

    let Some(Data::Gauge(gauge)) = &metrics[0].data else {
        panic!("{metrics:?}");
    };
    assert_eq!(gauge.data_points[0].as_double, Some(-4.0));
    assert_eq!(gauge.data_points[0].start_time_unix_nano, 0);
    assert_eq!(
        (&*metrics[0].name, &*metrics[0].unit),
        ("memory_bytes", "By")
    );
}
