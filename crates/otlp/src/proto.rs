//! Messages of OTLP 1.x that laggard sends and receives, with their field numbers.
//!
//! `opentelemetry-proto` has all messages, and brings the SDK, an executor and a second `rand`.
//! laggard needs only these. Fields that are not listed are omitted by the writer and skipped by
//! the reader.

/// Body of a post to `/v1/metrics`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricsRequest {
    /// One element per resource: here, one.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Metrics per scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
    /// Schema of the resource's attributes.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// Body of a post to `/v1/traces`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TracesRequest {
    /// One element per resource: here, one.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Spans per scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
    /// Schema of the resource's attributes.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// Subject of the data: machine and program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Library that produced the data.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// Value of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    pub value: Option<Value>,
}

/// Typed value of an attribute.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
}

/// Metric: all series with one name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metric {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub description: String,
    /// Unit in UCUM; empty for a plain number.
    #[prost(string, tag = "3")]
    pub unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 10")]
    pub data: Option<Data>,
}

/// Series of a metric, by type.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Data {
    /// Value that goes up and down.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// Distribution.
    #[prost(message, tag = "10")]
    Histogram(ExponentialHistogram),
}

/// Series of a gauge.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Gauge {
    /// One point per series.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
}

/// Series of a sum.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sum {
    /// One point per series.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
    /// Start of the count: see [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// Series of a distribution.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExponentialHistogram {
    /// One point per series.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramPoint>,
    /// Start of the count: see [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

/// Temporality: counted since the start in the point, not since the previous point.
pub const CUMULATIVE: i32 = 2;

/// Number at a time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NumberPoint {
    /// Labels of the series.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
    /// Start of the count, Unix time.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Time of the number, Unix time.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    pub as_double: Option<f64>,
    #[prost(message, repeated, tag = "5")]
    pub exemplars: Vec<Exemplar>,
}

/// Example of a counted event.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Exemplar {
    /// Attributes that are not labels of the series.
    #[prost(message, repeated, tag = "7")]
    pub filtered_attributes: Vec<KeyValue>,
    /// Amount of the count.
    #[prost(double, optional, tag = "3")]
    pub as_double: Option<f64>,
    /// Span of the event.
    #[prost(bytes = "vec", tag = "4")]
    pub span_id: Vec<u8>,
    /// Trace of the event.
    #[prost(bytes = "vec", tag = "5")]
    pub trace_id: Vec<u8>,
}

/// Distribution at a time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HistogramPoint {
    /// Labels of the series.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
    /// Start of the count, Unix time.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Time of the distribution, Unix time.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// Log2 of the number of buckets per octave.
    #[prost(sint32, tag = "6")]
    pub scale: i32,
    /// Number of values up to `zero_threshold`.
    #[prost(fixed64, tag = "7")]
    pub zero_count: u64,
    /// Buckets of the other values.
    #[prost(message, optional, tag = "8")]
    pub positive: Option<Buckets>,
    /// Maximum value that counts as zero.
    #[prost(double, tag = "14")]
    pub zero_threshold: f64,
}

/// Consecutive buckets.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Buckets {
    /// Index of the first bucket, which holds values above base^index and up to base^(index + 1).
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    /// Number of values per bucket.
    #[prost(uint64, repeated, tag = "2")]
    pub bucket_counts: Vec<u64>,
}

/// Interval of time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    /// ID of the trace: 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// ID of the span: 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// ID of the parent span; empty without a parent.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    /// Kind: see [`INTERNAL`].
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// Start, Unix time.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// End, Unix time.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// Kind of a span: no request from or to another machine.
pub const INTERNAL: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// Body of an answer with status 200, for metrics and traces.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// Rejected items, if there are any.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// Rejected items.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartialSuccess {
    /// Number of points or spans.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// Reason.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// Body of an answer with any other status (`google.rpc.Status`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// Reason.
    #[prost(string, tag = "2")]
    pub message: String,
}
