//! Xruns of an application, estimated from the late samples of recordings.

use std::collections::BTreeMap;

use laggard_analyze::InputError;
use laggard_analyze::exceedance::Stream;
use laggard_analyze::qos::{self, Buffering, Observed};
use laggard_model::{Nanos, Route, Service, whole};

use super::error::{MAX_JOBS, QosError};
use super::resolution::{ORDINARY_PART, Resolution};
use super::{
    Apart, Application, CurvePoint, Fitness, Goal, HOUR_NS, LoadOutlook, MissFigures, Needed,
    ServiceOutlook, runs,
};
use crate::finer::two_digits;
use crate::load::{Load, Run};
use crate::selection::Selection;

/// Interrupts that were seen in at least this share of samples count as observed all the
/// time. A few join an interrupt that is already running.
const MIN_IRQ_SHARE: f64 = 0.9;

/// Confidence of an interval, unless stated otherwise.
pub const CONFIDENCE: f64 = 0.95;
/// Buffers at the end of the curve, unless the application has more.
const MAX_BUFFERS: u32 = 12;
/// Buffers at the end of the curve of an application that has more. Its own are added.
const MAX_CURVE_BUFFERS: u32 = 64;
/// -ln 0.05: a recording without a failure proves a goal if it is this many times longer.
const RULE_OF_THREE: f64 = 2.995_732_273_553_991;

/// Estimates the xruns of `application` under `load`, as each recorded service or as the
/// service `only`.
///
/// # Errors
/// When a figure of the application is out of its range, or its buffers are too short for
/// a replay in reasonable time.
pub fn assess(
    load: &Load,
    application: &Application,
    only: Option<Service>,
) -> Result<LoadOutlook, QosError> {
    let mut series = load.lines();
    series.retain(|(service, _)| only.is_none_or(|only| only == *service));
    let own = runs(only.or(application.service), series.iter().copied());
    let services = series
        .into_iter()
        .map(|series| {
            let outlook = assess_series(load, application, series)?;
            Ok(ServiceOutlook {
                is_own: own == Some(series),
                ..outlook
            })
        })
        .collect::<Result<_, QosError>>()?;
    Ok(LoadOutlook {
        load: load.label.clone(),
        recordings: load.paths(),
        services,
        goal: None,
        notes: load.notes(),
    })
}

/// Estimates the xruns of `application` as one service by one route. The result does not
/// state whether this service would run it.
pub(crate) fn assess_series(
    load: &Load,
    application: &Application,
    series: (Service, Route),
) -> Result<ServiceOutlook, QosError> {
    assess_series_at(load, application, series, CONFIDENCE)
}

/// Estimates like [`assess_series`], with intervals of this `confidence`.
pub(crate) fn assess_series_at(
    load: &Load,
    application: &Application,
    (service, route): (Service, Route),
    confidence: f64,
) -> Result<ServiceOutlook, QosError> {
    let selection = Selection::new(load, (service, route), None);
    let waited = selection.waited();
    selection.check_effort(application, service)?;
    let numbers = curve_buffers(application.buffers);
    let mut estimates = numbers
        .iter()
        .map(|&buffers| selection.estimate(application, buffers, confidence))
        .collect::<Result<Vec<_>, InputError>>()?;
    pool(&mut estimates);
    let mut curve = numbers
        .into_iter()
        .zip(&estimates)
        .map(|(buffers, estimate)| {
            Ok(CurvePoint {
                buffers,
                total_ns: application.buffer_ns * buffers.into(),
                buffering_ns: application.buffer_ns * buffers.saturating_sub(1).into(),
                figures: selection.figures(application, buffers, estimate)?,
                apart: selection.standing_out(application, buffers, (estimate, confidence))?,
            })
        })
        .collect::<Result<Vec<_>, InputError>>()?;
    order(&mut curve);
    let own = curve
        .iter()
        .find(|point| point.buffers == application.buffers)
        .expect("the curve includes the buffers of the application");
    let resolution = |buffers| selection.resolution(slack(application, buffers));
    let own_resolution = resolution(application.buffers);
    let is_too_coarse = |point: &CurvePoint| resolution(point.buffers).is_too_coarse();
    Ok(ServiceOutlook {
        service,
        route,
        is_own: false,
        verdict: Fitness::new(own, waited, own_resolution.is_too_coarse()),
        cpus: selection.cpus,
        samples: selection
            .histograms()
            .map(|histogram| histogram.count())
            .sum(),
        needed: Goal::ALL
            .map(|goal| needed(&curve, is_too_coarse, goal, selection.span(), waited))
            .into(),
        waited_ns: waited,
        resolution: own_resolution,
        outlook: own.figures.clone(),
        apart: own.apart.clone(),
        curve,
    })
}

/// Failures with one number of buffers.
enum Estimate {
    Replayed(Resolution, qos::Outlook),
    Bounded(qos::Bounds),
}

/// Makes the estimates monotone: more buffers never fail more often.
fn pool(estimates: &mut [Estimate]) {
    let mut outlooks: Vec<&mut qos::Outlook> = estimates
        .iter_mut()
        .filter_map(|estimate| match estimate {
            Estimate::Replayed(resolution, outlook) => resolution.has_estimate().then_some(outlook),
            Estimate::Bounded(_) => None,
        })
        .collect();
    let mut pooled: Vec<qos::Outlook> = outlooks.iter().map(|outlook| **outlook).collect();
    qos::monotone(&mut pooled);
    for (outlook, pooled) in outlooks.iter_mut().zip(pooled) {
        **outlook = pooled;
    }
}

/// Makes both limits monotone, also between estimates and bounds. More buffers never fail more
/// often, so a point without an estimate has at most the upper limit of more buffers.
fn order(curve: &mut [CurvePoint]) {
    let mut low = f64::INFINITY;
    for point in curve.iter_mut().rev() {
        low = low.min(point.figures.mttf_low_ns);
        point.figures.mttf_low_ns = low;
    }
    let mut limit = f64::INFINITY;
    for figures in curve.iter_mut().rev().map(|point| &mut point.figures) {
        limit = limit.min(figures.mttf_high_ns.unwrap_or(f64::INFINITY));
        if figures.failures.is_none() {
            figures.mttf_high_ns = limit.is_finite().then_some(limit);
        }
    }
    let mut high = 0.0_f64;
    for figures in curve.iter_mut().map(|point| &mut point.figures) {
        high = high.max(figures.mttf_high_ns.unwrap_or(f64::INFINITY));
        figures.mttf_high_ns = high.is_finite().then_some(high);
    }
}

/// Returns the numbers of buffers of the curve, which include the application's `own`.
fn curve_buffers(own: u32) -> Vec<u32> {
    let max = own.clamp(MAX_BUFFERS, MAX_CURVE_BUFFERS);
    (2..=max).chain((own > max).then_some(own)).collect()
}

/// Finds the buffers that a goal needs, from a recording of `span`.
fn needed(
    curve: &[CurvePoint],
    is_too_coarse: impl Fn(&CurvePoint) -> bool,
    goal: Goal,
    span: f64,
    waited: Option<Nanos>,
) -> Needed {
    let first = |meets: &dyn Fn(&CurvePoint) -> bool| {
        let point = curve.iter().find(|point| meets(point));
        point.map(|point| point.buffers)
    };
    let goal_ns = goal.mean_time();
    let is_met = |point: &CurvePoint| point.against(goal_ns, is_too_coarse(point)) == Fitness::Fit;
    let record = goal_ns * RULE_OF_THREE;
    Needed {
        one_miss_per: goal,
        by_estimate: first(&|point| point.mean_time().is_some_and(|mttf| mttf >= goal_ns)),
        // A stall that had not ended can be longer than any buffering.
        surely: first(&|point| waited.is_none() && is_met(point)),
        record_ns: (span < record || waited.is_some()).then_some(record),
        is_coarse: curve
            .last()
            .is_some_and(|point| point.figures.failures.is_none()),
    }
}

impl Selection<'_> {
    fn estimate(
        &self,
        application: &Application,
        buffers: u32,
        confidence: f64,
    ) -> Result<Estimate, InputError> {
        let slack = slack(application, buffers);
        let (observed, resolution) = (self.observed(slack), self.resolution(slack));
        let buffering = buffering(application, buffers)?;
        if resolution.can_replay() {
            let outlook = qos::outlook(&observed, buffering, confidence)?;
            return Ok(Estimate::Replayed(resolution, outlook));
        }
        qos::failure_bounds(&observed, &self.sampled(slack), buffering, confidence)
            .map(Estimate::Bounded)
    }

    fn figures(
        &self,
        application: &Application,
        buffers: u32,
        estimate: &Estimate,
    ) -> Result<MissFigures, InputError> {
        let share = self.share_above(slack(application, buffers));
        let buffering = buffering(application, buffers)?;
        let paper = qos::paper_mean_time(buffering, share)?;
        Ok(match estimate {
            Estimate::Replayed(resolution, outlook) => {
                let figures = MissFigures::from_outlook(outlook, paper);
                if resolution.has_estimate() {
                    figures
                } else {
                    figures.without_estimate(HOUR_NS / buffering.period() * share)
                }
            }
            Estimate::Bounded(bounds) => MissFigures::from_bounds(bounds, paper),
        })
    }

    /// Finds the CPUs that fail more often; `None` if failures are not counted.
    fn standing_out(
        &self,
        application: &Application,
        buffers: u32,
        (estimate, confidence): (&Estimate, f64),
    ) -> Result<Option<Apart>, InputError> {
        let together = match estimate {
            Estimate::Replayed(resolution, together) if resolution.has_estimate() => together,
            Estimate::Replayed(..) | Estimate::Bounded(_) => return Ok(None),
        };
        let slack = slack(application, buffers);
        let buffering = buffering(application, buffers)?;
        self.apart(slack, together, buffering, confidence)
    }

    /// Refuses buffers that are too short for a replay. The fewest buffers have the least
    /// slack, and so the most blackouts.
    fn check_effort(&self, application: &Application, service: Service) -> Result<(), QosError> {
        let observed = self.observed(slack(application, 2));
        let jobs = qos::jobs_to_play(&observed, buffering(application, 2)?);
        if jobs <= MAX_JOBS as f64 {
            return Ok(());
        }
        let least = application.buffer_ns.as_f64() * jobs / MAX_JOBS as f64;
        Err(QosError::TooShort {
            buffer: application.buffer_ns,
            service,
            jobs: whole(jobs),
            // A little more, so that rounding down does not refuse it again.
            least: two_digits(Nanos::from_ns(whole(least * 1.1) + 1)),
        })
    }

    /// Returns the blackouts that matter to a stream with this slack.
    pub(crate) fn observed(&self, slack: Nanos) -> Vec<Observed> {
        let floor = Nanos::from_ns(slack.ns() / ORDINARY_PART);
        self.streams
            .iter()
            .map(|(run, stream)| Observed {
                recording: self.index_of(run),
                blackouts: stream.blackouts(run.start, self.base, floor),
                exposure: exposure(run, stream),
                base: self.base.as_f64(),
            })
            .collect()
    }

    /// Returns the observed wall-clock time, ns. More CPUs do not add to it, because a
    /// stall of all CPUs at once cannot be excluded.
    fn span(&self) -> f64 {
        let mut lengths = BTreeMap::new();
        for (run, stream) in &self.streams {
            let length: &mut f64 = lengths.entry(self.index_of(run)).or_default();
            *length = length.max(exposure(run, stream));
        }
        lengths.values().sum()
    }

    /// Returns the position of a recording among the recordings of the streams.
    fn index_of(&self, recording: &Run) -> usize {
        let is_same = |(run, _): &(&Run, &Stream)| std::ptr::eq(*run, recording);
        self.streams.iter().position(is_same).unwrap_or_default()
    }
}

/// Returns the observation time of a stream, ns: the whole recording, unless interrupts were seen
/// in too few samples of a CPU (another thread kept its threads from arming their timers). Then it
/// is the same share of the time, plus the stalls: few interrupts come in a stall, and its start
/// and end are known.
fn exposure(run: &Run, stream: &Stream) -> f64 {
    let whole = run.duration.as_f64();
    if stream.service.has_lines() {
        return whole;
    }
    let same_cpu = run.streams.iter().filter(|other| other.cpu == stream.cpu);
    let requested = same_cpu
        .filter(|other| !matches!(other.service, Service::Irq | Service::Kthread(_)))
        .map(|other| other.samples)
        .sum::<u64>();
    let share = stream.samples as f64 / requested.max(1) as f64;
    if share >= MIN_IRQ_SHARE {
        return whole;
    }
    let stalls = stream.blackouts(run.start, Nanos::ZERO, Nanos::ZERO).inner;
    let stalled: f64 = stalls.iter().map(|stall| stall.end - stall.start).sum();
    (whole * share + stalled).min(whole)
}

fn buffering(application: &Application, buffers: u32) -> Result<Buffering, InputError> {
    let ns = |time: Nanos| time.as_f64();
    let (buffer, compute) = (ns(application.buffer_ns), ns(application.compute_ns));
    let buffering = Buffering::new(buffers, buffer, compute)?;
    Ok(buffering.after_miss(application.policy))
}

fn slack(application: &Application, buffers: u32) -> Nanos {
    (application.buffer_ns * u64::from(buffers.saturating_sub(1)))
        .saturating_sub(application.compute_ns)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use laggard_analyze::exceedance::Exceedance;
    use laggard_model::{Cpu, LoadLabel, ProbePlan};

    use super::*;
    use crate::Trust;

    #[test]
    fn interrupts_are_observed_for_the_share_of_samples_that_shows_them() {
        let stream = |service, cpu: u32, samples| Stream {
            cpu: Cpu(cpu),
            service,
            route: Route::Direct,
            samples,
            floor: Nanos::ZERO,
            exceedances: Vec::new(),
        };
        let exposures = |interrupts: u64, stalls: &[Exceedance]| {
            let run = Run {
                dir: PathBuf::new(),
                path: String::new(),
                load: None,
                start: Nanos::ZERO,
                duration: Nanos::from_ns(8_000),
                plan: ProbePlan::default(),
                groups: Vec::new(),
                streams: vec![
                    Stream {
                        exceedances: stalls.to_vec(),
                        ..stream(Service::Irq, 0, interrupts)
                    },
                    stream(Service::Fifo(90), 0, 600),
                    stream(Service::Other, 0, 400),
                    // Interrupts of other timers.
                    stream(Service::KTHREAD, 0, 5_000),
                    stream(Service::Fifo(90), 1, 9_000),
                ],
                own_cpus: 0.0,
                waiting: Vec::new(),
                doubts: Vec::new(),
                trust: Trust::Good,
            };
            [0, 1].map(|index| exposure(&run, &run.streams[index]))
        };

        // A thread is observed during the whole time. The same holds for interrupts if a few came
        // during another interrupt.
        assert_eq!(exposures(1_000, &[]), [8_000.0, 8_000.0]);
        assert_eq!(exposures(900, &[]), [8_000.0, 8_000.0]);
        assert_eq!(exposures(250, &[]), [2_000.0, 8_000.0]);
        assert_eq!(exposures(0, &[]), [0.0, 8_000.0]);
        // The recording keeps the first wakeup that waited in a stall, so the whole stall was seen.
        let stall = |latency| Exceedance {
            expiry: Nanos::from_ns(1_000),
            latency: Nanos::from_ns(latency),
            free_until: Nanos::ZERO,
        };
        assert_eq!(exposures(250, &[stall(4_000)]), [6_000.0, 8_000.0]);
        assert_eq!(exposures(250, &[stall(7_000)]), [8_000.0, 8_000.0]);
    }

    #[test]
    fn more_cpus_do_not_shorten_the_time_that_proves_a_goal() {
        let stream = |cpu: u32| Stream {
            cpu: Cpu(cpu),
            service: Service::Fifo(90),
            route: Route::Direct,
            samples: 7_200_000,
            floor: Nanos::ZERO,
            exceedances: Vec::new(),
        };
        let load = |cpus: u32, duration| {
            Load::new(
                LoadLabel::none(),
                vec![Run {
                    dir: PathBuf::new(),
                    path: String::new(),
                    load: None,
                    start: Nanos::ZERO,
                    duration,
                    plan: ProbePlan::default(),
                    groups: Vec::new(),
                    streams: (0..cpus).map(stream).collect(),
                    own_cpus: 0.0,
                    waiting: Vec::new(),
                    doubts: Vec::new(),
                    trust: Trust::Good,
                }],
            )
        };
        let is_short = |cpus, hours: u64| {
            let load = load(cpus, Nanos::from_secs(3_600 * hours));
            let selection = Selection::new(&load, (Service::Fifo(90), Route::Direct), None);
            let needed = needed(&[], |_| false, Goal::Hour, selection.span(), None);
            needed.record_ns.is_some()
        };

        // Two hours of 64 CPUs are 128 h of CPU time, but prove only two hours.
        for cpus in [1, 2, 64] {
            assert!(is_short(cpus, 2), "{cpus} CPUs");
            assert!(!is_short(cpus, 3), "{cpus} CPUs");
        }
    }

    /// Returns the upper limits after ordering; each point has its limit and whether it has an
    /// estimate.
    fn ordered(points: &[(Option<f64>, bool)]) -> Vec<Option<f64>> {
        let mut curve: Vec<CurvePoint> = (2..)
            .zip(points)
            .map(|(buffers, &(high, has_estimate))| CurvePoint {
                buffers,
                total_ns: Nanos::ZERO,
                buffering_ns: Nanos::ZERO,
                figures: MissFigures {
                    exposure_ns: 100.0,
                    failures: has_estimate.then_some(3.0),
                    clusters: None,
                    mttf_ns: None,
                    mttf_low_ns: 1.0,
                    mttf_high_ns: high,
                    late_per_hour: 0.0,
                    dispersion: None,
                    paper_mttf_ns: None,
                },
                apart: None,
            })
            .collect();
        order(&mut curve);
        curve
            .iter()
            .map(|point| point.figures.mttf_high_ns)
            .collect()
    }

    #[test]
    fn upper_limits_of_the_curve_are_monotone() {
        let (none, some) = (None::<f64>, Some::<f64>);
        // A bound without a limit takes the limit of more buffers. The last bound does not have a
        // limit.
        assert_eq!(
            ordered(&[(none, false), (some(8.0), true), (none, false)]),
            [some(8.0), some(8.0), none]
        );
        // A bound below the limit of fewer buffers is raised.
        assert_eq!(
            ordered(&[(some(10.0), true), (some(5.0), false), (some(12.0), true)]),
            [some(10.0), some(10.0), some(12.0)]
        );
        assert_eq!(ordered(&[(none, true), (some(5.0), false)]), [none, none]);
    }

    #[test]
    fn curve_is_bounded_and_includes_the_buffers_of_the_application() {
        assert_eq!(curve_buffers(3), (2..=12).collect::<Vec<_>>());
        assert_eq!(curve_buffers(40).last(), Some(&40));
        let many = curve_buffers(5_000);
        assert_eq!((many.len(), many.last()), (64, Some(&5_000)));
    }
}
