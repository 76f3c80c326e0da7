//! What the page needs to replay an application's buffers by itself, as
//! `laggard qos` does: the blackouts that were seen.

use laggard_analyze::exceedance::{Exceedance, Stream};
use laggard_model::name::line_name;
use laggard_model::{Histogram, Keep, LoadLabel, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::Application;
use crate::load::{Load, Run};
use crate::note::Note;
use crate::selection::Selection;

/// Late activations in a page, of all services and recordings together: about
/// 20 bytes each.
const MOST_KEPT: usize = 60_000;
/// No service on a CPU has fewer.
const LEAST_KEPT: usize = 500;
/// And none more: a replay per move of a slider must be quick.
const MOST_OF_ONE: usize = 6_000;

/// Applications, and what would hinder them.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct BuffersView {
    /// To choose from; the user's own first.
    pub applications: Vec<Application>,
    /// One entry per load.
    pub loads: Vec<LoadBuffers>,
}

/// What was seen under one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LoadBuffers {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// Its recordings.
    pub recordings: Vec<String>,
    /// One entry per service, the most direct first.
    pub services: Vec<ServiceBuffers>,
    /// What is missing from the recordings, or spoils the answer.
    #[serde(serialize_with = "crate::note::as_text")]
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// What would hinder one service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceBuffers {
    /// The service.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// Both in one name.
    pub name: String,
    /// CPUs whose time is added up.
    pub cpus: usize,
    /// How long it had waited when measuring ended, where it was still waiting
    /// then; see [`crate::qos::ServiceOutlook::waited_ns`].
    pub waited_ns: Option<Nanos>,
    /// The ordinary latency, which every job pays: the median.
    pub base_ns: Nanos,
    /// The longest period of the probe.
    pub period_ns: Nanos,
    /// The mean time between two activations on a CPU, ns.
    pub apart_ns: f64,
    /// The largest latency.
    pub largest_ns: Nanos,
    /// CPUs that measuring kept busy; 0 where that is not known.
    pub own_cpus: f64,
    /// Whether what came before a late activation was not kept.
    pub is_tail: bool,
    /// When latencies up to this came, the recordings do not tell.
    pub floor_ns: Nanos,
    /// Latencies up to this were left out of the page; absent where nothing
    /// was, beyond what the recordings lack.
    pub cut_ns: Option<Nanos>,
    /// How many activations in each bucket; see the histograms of a recording.
    pub buckets: Vec<(usize, u64)>,
    /// One entry per CPU and recording.
    pub streams: Vec<StreamView>,
}

/// The late activations of one service on one CPU, by expiry.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StreamView {
    /// Which of the recordings this is of.
    pub recording: usize,
    /// How long was recorded.
    pub duration_ns: Nanos,
    /// The programmed time (of an interrupt no earlier than the CPU served
    /// another), since the one before (the first: since the recording began).
    pub after_ns: Vec<Nanos>,
    /// The latency since then.
    pub latency_ns: Vec<Nanos>,
    /// From when the service last ran to the programmed time.
    pub free_ns: Vec<Nanos>,
}

/// What the page needs of what was `seen` under each load.
pub fn buffers(seen: &[Load], applications: Vec<Application>) -> BuffersView {
    let streams: usize = seen
        .iter()
        .flat_map(|load| &load.runs)
        .map(|one| one.streams.len())
        .sum();
    let most = (MOST_KEPT / streams.max(1)).clamp(LEAST_KEPT, MOST_OF_ONE);
    BuffersView {
        applications,
        loads: seen.iter().map(|load| of_load(load, most)).collect(),
    }
}

fn of_load(seen: &Load, most: usize) -> LoadBuffers {
    LoadBuffers {
        load: seen.label.clone(),
        recordings: seen.paths(),
        services: seen
            .lines()
            .into_iter()
            .map(|line| of_service(seen, line, most))
            .collect(),
        notes: seen.notes(),
    }
}

fn of_service(seen: &Load, (service, route): (Service, Route), most: usize) -> ServiceBuffers {
    let selection = Selection::new(seen, (service, route), None);
    let streams = &selection.streams;
    let cut = streams
        .iter()
        .filter_map(|(_, stream)| cut(stream, most))
        .max();
    let mut histogram = Histogram::default();
    selection.histograms().for_each(|one| histogram.merge(one));
    let plans = || streams.iter().map(|(run, _)| &run.plan);
    ServiceBuffers {
        service,
        route,
        name: line_name(service, route),
        cpus: selection.cpus,
        waited_ns: selection.waited(),
        apart_ns: selection.apart,
        largest_ns: histogram.max().unwrap_or_default(),
        is_tail: plans().any(|plan| plan.keep == Keep::Tail),
        own_cpus: streams
            .iter()
            .map(|(run, _)| run.own_cpus)
            .fold(0.0, f64::max),
        base_ns: selection.base,
        period_ns: plans().map(|plan| plan.period_ns).max().unwrap_or_default(),
        floor_ns: selection.floor().unwrap_or_default(),
        cut_ns: cut,
        buckets: histogram.buckets().collect(),
        streams: streams
            .iter()
            .map(|&(run, stream)| StreamView {
                recording: place(seen, run),
                ..columns(run, stream, cut.unwrap_or_default())
            })
            .collect(),
    }
}

/// Which of the load's recordings this is.
fn place(seen: &Load, run: &Run) -> usize {
    let is_it = |one: &Run| std::ptr::eq(one, run);
    seen.runs.iter().position(is_it).unwrap_or_default()
}

/// Up to which latency a stream's activations are left out, so that no more
/// than `most` remain.
fn cut(stream: &Stream, most: usize) -> Option<Nanos> {
    let mut latencies: Vec<Nanos> = stream.exceedances.iter().map(|late| late.latency).collect();
    if latencies.len() <= most {
        return None;
    }
    latencies.sort_unstable_by_key(|&latency| std::cmp::Reverse(latency));
    Some(latencies[most])
}

fn columns(seen: &Run, stream: &Stream, cut: Nanos) -> StreamView {
    let mut view = StreamView {
        recording: 0,
        duration_ns: seen.duration,
        after_ns: Vec::new(),
        latency_ns: Vec::new(),
        free_ns: Vec::new(),
    };
    let mut before = seen.start;
    let kept = |late: &&Exceedance| late.latency > cut;
    let mut late: Vec<&Exceedance> = stream.exceedances.iter().filter(kept).collect();
    late.sort_by_key(|late| late.felt());
    for late in late {
        let felt = late.felt();
        view.after_ns.push(felt.saturating_sub(before));
        before = felt.max(before);
        view.latency_ns.push(late.waited());
        view.free_ns
            .push(felt.saturating_sub(late.free_until.max(seen.start)));
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::Cpu;

    fn stream(latencies: impl IntoIterator<Item = u64>) -> Stream {
        let exceedances = (1_u64..)
            .zip(latencies)
            .map(|(at, latency)| Exceedance {
                expiry: Nanos::from_ms(at),
                latency: Nanos::from_us(latency),
                free_until: Nanos::from_ms(at - 1),
            })
            .collect();
        Stream {
            cpu: Cpu(0),
            service: Service::Other,
            route: Route::Direct,
            samples: 1_000,
            floor: Nanos::ZERO,
            exceedances,
        }
    }

    #[test]
    fn what_is_left_out_is_earlier_than_all_that_is_kept() {
        let stream = stream((0..100).map(|index| 1 + index * 37 % 100));

        let cut = cut(&stream, 10).unwrap();

        let above = |late: &&Exceedance| late.latency > cut;
        assert_eq!(cut, Nanos::from_us(90));
        assert_eq!(stream.exceedances.iter().filter(above).count(), 10);
    }

    #[test]
    fn a_stream_that_fits_is_not_cut() {
        assert_eq!(cut(&stream([5, 7, 9]), 3), None);
    }
}
