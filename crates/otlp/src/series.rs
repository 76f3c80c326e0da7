//! Series about the sender itself.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Kind of data.
#[derive(Clone, Copy, Debug, EncodeLabelValue, Eq, Hash, PartialEq)]
#[expect(non_camel_case_types, reason = "they are the values of a label")]
pub(crate) enum Signal {
    metrics,
    traces,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, EncodeLabelValue, Eq, Hash, PartialEq)]
#[expect(non_camel_case_types, reason = "they are the values of a label")]
pub(crate) enum Became {
    /// Accepted, at least partly.
    taken,
    /// Will be retried.
    delayed,
    /// Will never be accepted.
    refused,
}

/// Reason why a span was not sent.
#[derive(Clone, Copy, Debug, EncodeLabelValue, Eq, Hash, PartialEq)]
#[expect(non_camel_case_types, reason = "they are the values of a label")]
pub(crate) enum Loss {
    /// More late wakeups than the sender takes at once.
    crowded,
    /// The queue was full.
    full,
    /// The request was too old.
    old,
    /// The file on disk was damaged.
    damaged,
    /// The collector refused the request.
    refused,
    /// The collector accepted the request without this span.
    rejected,
}

/// All reasons, so that each series starts with zero.
const LOSSES: [Loss; 6] = [
    Loss::crowded,
    Loss::full,
    Loss::old,
    Loss::damaged,
    Loss::refused,
    Loss::rejected,
];

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct RequestLabels {
    signal: Signal,
    outcome: Became,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct LossLabels {
    reason: Loss,
}

/// Counts of sent and unsent data.
#[derive(Clone, Debug, Default)]
pub struct OtlpSeries {
    requests: Family<RequestLabels, Counter>,
    spans: Counter,
    lost: Family<LossLabels, Counter>,
    damaged_files: Counter,
    rejected_points: Counter,
    pub(crate) queue_bytes: Gauge,
}

impl OtlpSeries {
    pub fn register(&self, registry: &mut Registry) {
        for signal in [Signal::metrics, Signal::traces] {
            for outcome in [Became::taken, Became::delayed, Became::refused] {
                let labels = RequestLabels { signal, outcome };
                self.requests.get_or_create_owned(&labels);
            }
        }
        for reason in LOSSES {
            self.lost.get_or_create_owned(&LossLabels { reason });
        }
        registry.register(
            "otlp_requests",
            "Requests to the collector per outcome; delayed requests are sent again",
            self.requests.clone(),
        );
        registry.register(
            "otlp_spans",
            "Spans that the collector accepted: late wakeups and their stages",
            self.spans.clone(),
        );
        registry.register(
            "otlp_lost_spans",
            "Spans that the collector will never have, by reason",
            self.lost.clone(),
        );
        registry.register(
            "otlp_damaged_files",
            "Files of the queue that could not be read; how many spans are in one may not be known",
            self.damaged_files.clone(),
        );
        registry.register(
            "otlp_rejected_points",
            "Points of series that the collector did not take of requests that it took",
            self.rejected_points.clone(),
        );
        registry.register_with_unit(
            "otlp_queue_size",
            "Data that waits to be sent, without series",
            Unit::Bytes,
            self.queue_bytes.clone(),
        );
    }

    pub(crate) fn count(&self, signal: Signal, outcome: Became) {
        let labels = RequestLabels { signal, outcome };
        self.requests.get_or_create_owned(&labels).inc();
    }

    pub(crate) fn sent(&self, spans: u64) {
        self.spans.inc_by(spans);
    }

    pub(crate) fn lose(&self, reason: Loss, spans: u64) {
        let series = self.lost.get_or_create_owned(&LossLabels { reason });
        series.inc_by(spans);
    }

    pub(crate) fn lose_file(&self) {
        self.damaged_files.inc();
    }

    pub(crate) fn reject_points(&self, points: u64) {
        self.rejected_points.inc_by(points);
    }

    #[cfg(test)]
    pub(crate) fn lost(&self, reason: Loss) -> u64 {
        self.lost.get_or_create_owned(&LossLabels { reason }).get()
    }

    #[cfg(test)]
    pub(crate) fn files_lost(&self) -> u64 {
        self.damaged_files.get()
    }
}
