//! The messages of OTLP 1.x that are sent and answered, by the numbers of their fields.
//!
//! `opentelemetry-proto` has them all, and brings the SDK, an executor and a second
//! `rand`; what is sent needs these few. Fields that are not written here are left out
//! by who writes, and skipped by who reads.

/// What is posted to `/v1/metrics`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricsRequest {
    /// One for each resource: here, one.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// Metrics of a resource.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceMetrics {
    /// Of which.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By who counted them.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
    /// Whose words the attributes of the resource are.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// Metrics of one who counted.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeMetrics {
    /// Who.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// What is posted to `/v1/traces`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TracesRequest {
    /// One for each resource: here, one.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// Spans of a resource.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    /// Of which.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By who saw them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
    /// Whose words the attributes of the resource are.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// Spans of one who saw them.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    /// Who.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// Who something is told of.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// What is known of it.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Who tells.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// An attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// What it is.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// What an attribute is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    /// Of one of these sorts.
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    pub value: Option<Value>,
}

/// What an attribute is, by its sort.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A statement.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Int(i64),
}

/// A metric: all series of a name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metric {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it says.
    #[prost(string, tag = "2")]
    pub description: String,
    /// Its unit by UCUM; empty: a number.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Its series.
    #[prost(oneof = "Data", tags = "5, 7, 10")]
    pub data: Option<Data>,
}

/// The series of a metric, by their sort.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Data {
    /// What goes up and down.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// What adds up.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// What is distributed.
    #[prost(message, tag = "10")]
    Histogram(ExponentialHistogram),
}

/// Series of what goes up and down.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Gauge {
    /// One for each series.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
}

/// Series of what adds up.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sum {
    /// One for each series.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
    /// Since when it is counted: see [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// Whether it only grows.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// Series of what is distributed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExponentialHistogram {
    /// One for each series.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramPoint>,
    /// Since when it is counted: see [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

/// Counted since the start that a point names, and not since the point before.
pub const CUMULATIVE: i32 = 2;

/// A number at a time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NumberPoint {
    /// Of which series.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
    /// Since when it is counted, Unix time.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was this, Unix time.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The number.
    #[prost(double, optional, tag = "4")]
    pub as_double: Option<f64>,
    /// One of what was counted.
    #[prost(message, repeated, tag = "5")]
    pub exemplars: Vec<Exemplar>,
}

/// One of what was counted.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Exemplar {
    /// What is told of it besides.
    #[prost(message, repeated, tag = "7")]
    pub filtered_attributes: Vec<KeyValue>,
    /// By how much it was counted.
    #[prost(double, optional, tag = "3")]
    pub as_double: Option<f64>,
    /// The span that tells of it.
    #[prost(bytes = "vec", tag = "4")]
    pub span_id: Vec<u8>,
    /// The trace of that.
    #[prost(bytes = "vec", tag = "5")]
    pub trace_id: Vec<u8>,
}

/// A distribution at a time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HistogramPoint {
    /// Of which series.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
    /// Since when it is counted, Unix time.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was this, Unix time.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// How many there are.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// What they add up to.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// There are 2 to the power of this many buckets in an octave.
    #[prost(sint32, tag = "6")]
    pub scale: i32,
    /// How many are at most the threshold below.
    #[prost(fixed64, tag = "7")]
    pub zero_count: u64,
    /// The others.
    #[prost(message, optional, tag = "8")]
    pub positive: Option<Buckets>,
    /// What counts as zero.
    #[prost(double, tag = "14")]
    pub zero_threshold: f64,
}

/// Neighbouring buckets.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Buckets {
    /// The index of the first: it holds what is above base^index, and at most
    /// base^(index + 1).
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    /// How many are in each.
    #[prost(uint64, repeated, tag = "2")]
    pub bucket_counts: Vec<u64>,
}

/// A time with a beginning and an end.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    /// Of which trace: 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// Which in it: 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// The one that it is a part of; empty: of none.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// Its name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Its sort: see [`INTERNAL`].
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// Its beginning, Unix time.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// Its end, Unix time.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// What is told of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// What was in it.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// Neither asked by another machine nor asking one.
pub const INTERNAL: i32 = 1;

/// Something in a span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    /// When, Unix time.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// What is told of it.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// What is answered with 200: of metrics and of traces alike.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// What was not taken, where not all was.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// What was not taken.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartialSuccess {
    /// How many points, or spans.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// What is answered with any other status (`google.rpc.Status`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// Why.
    #[prost(string, tag = "2")]
    pub message: String,
}
