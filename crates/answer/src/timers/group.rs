//! Timers of the same class.

use std::collections::BTreeMap;

use laggard_model::{Service, ServiceRank, TimerApi};
use schemars::JsonSchema;
use serde::Serialize;

use super::class::TimerClass;
use super::row::TimerRow;

/// Timers of one class, used by threads of one service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimerGroup {
    pub class: TimerClass,
    pub service: Service,
    pub apis: Vec<TimerApi>,
    /// Timers to use instead. None of them differs from the requested times here.
    pub alternatives: Vec<TimerApi>,
}

/// Timers by whether they expire as requested. Each timer is in one list, except for
/// `partly_unknown`.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct TimersSummary {
    /// Timers that expire as requested, apart from a delay.
    pub as_requested: Vec<TimerApi>,
    /// Timers that do not expire as requested in at least one row.
    pub not_as_requested: Vec<TimerApi>,
    /// Timers of `as_requested` with a row that is unknown or not available.
    pub partly_unknown: Vec<TimerApi>,
    /// Timers with no row that is known.
    pub unknown: Vec<TimerApi>,
}

/// Returns each timer once, in the order of the rows.
fn apis<'a>(rows: impl Iterator<Item = &'a TimerRow>) -> Vec<TimerApi> {
    let mut apis = Vec::new();
    for row in rows {
        if !apis.contains(&row.api) {
            apis.push(row.api);
        }
    }
    apis
}

impl TimersSummary {
    pub(super) fn new(rows: &[TimerRow]) -> Self {
        let with = |is_as_requested| {
            let rows = rows.iter();
            apis(rows.filter(|row| row.class.is_as_requested() == is_as_requested))
        };
        let not_as_requested = with(Some(false));
        let without = |mut apis: Vec<TimerApi>| {
            apis.retain(|api| !not_as_requested.contains(api));
            apis
        };
        let as_requested = without(with(Some(true)));
        // A timer may be known with one policy or period and unknown with another.
        let (partly_unknown, unknown) = without(with(None))
            .into_iter()
            .partition(|api| as_requested.contains(api));
        Self {
            as_requested,
            not_as_requested,
            partly_unknown,
            unknown,
        }
    }
}

/// Groups the rows. The classes with the largest differences come first.
pub(super) fn groups(rows: &[TimerRow]) -> Vec<TimerGroup> {
    let mut sorted: BTreeMap<(TimerClass, ServiceRank), Vec<&TimerRow>> = BTreeMap::new();
    for row in rows {
        let key = (row.class, row.service.rank());
        sorted.entry(key).or_default().push(row);
    }
    sorted
        .into_iter()
        .map(|((class, _), group)| {
            let service = group[0].service;
            let apis = apis(group.into_iter());
            TimerGroup {
                class,
                service,
                alternatives: alternatives(class, &apis, rows),
                apis,
            }
        })
        .collect()
}

/// Returns the timers that do the same as `api` more accurately.
fn better(api: TimerApi) -> &'static [TimerApi] {
    match api {
        TimerApi::Poll => &[TimerApi::Ppoll],
        TimerApi::EpollWait => &[TimerApi::EpollPwait2],
        TimerApi::SoRcvtimeo => &[TimerApi::Ppoll],
        TimerApi::Select => &[TimerApi::Pselect],
        TimerApi::Setitimer => &[TimerApi::TimerCreate, TimerApi::Timerfd],
        TimerApi::IoUringMultishot => &[TimerApi::Timerfd],
        // No other tested timer counts CPU time.
        TimerApi::SetitimerVirtual | TimerApi::SetitimerProf => &[],
        TimerApi::Sleep
        | TimerApi::WaitForSingleObject
        | TimerApi::SleepConditionVariable
        | TimerApi::WinsockSelect
        | TimerApi::WaitableTimerAbs
        | TimerApi::WaitableTimer
        | TimerApi::WaitableTimerPeriodic
        | TimerApi::HighResTimer
        | TimerApi::HighResTimerPeriodic
        | TimerApi::TimeSetEvent
        | TimerApi::TimerQueue
        | TimerApi::ThreadpoolTimer => &[TimerApi::HighResTimer],
        _ => &[TimerApi::ClockNanosleepAbs, TimerApi::Timerfd],
    }
}

/// Returns better timers for a group that does not expire as requested. A timer that was
/// seen to have a fault here is not among them.
fn alternatives(class: TimerClass, group: &[TimerApi], rows: &[TimerRow]) -> Vec<TimerApi> {
    let mut alternatives = Vec::new();
    if class.is_as_requested() != Some(false) {
        return alternatives;
    }
    let has_fault = |api: TimerApi| {
        let mut rows = rows.iter().filter(|row| row.api == api);
        rows.any(|row| row.class.is_as_requested() == Some(false))
    };
    for &api in group.iter().flat_map(|api| better(*api)) {
        if !alternatives.contains(&api) && !has_fault(api) && !group.contains(&api) {
            alternatives.push(api);
        }
    }
    alternatives
}
