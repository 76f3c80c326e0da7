//! From the late activations of recordings to how often an application misses.

use std::collections::BTreeMap;

use laggard_analyze::InputError;
use laggard_analyze::exceedance::Stream;
use laggard_analyze::qos::{self, Buffering, Observed};
use laggard_model::text::count;
use laggard_model::{Nanos, Route, Service, whole};

use super::told::{Coarse, ORDINARY_PART, Told};
use super::{
    Apart, Application, CurvePoint, Fitness, HOUR_NS, LoadOutlook, MissFigures, Needed,
    ServiceOutlook, runs,
};
use crate::finer::two_digits;
use crate::load::{Load, Run};
use crate::selection::Selection;

/// From this share of activations on in which the interrupt was seen, it was
/// observed all the time: a few join one that runs already.
const ENOUGH_IRQ: f64 = 0.9;

/// How sure every interval is, unless it says another.
pub const CONFIDENCE: f64 = 0.95;
/// Buffers that the curve goes up to, unless the application has more.
const MOST_BUFFERS: u32 = 12;
/// Nor does it go further then; the application's own are added.
const MOST_TRIED: u32 = 64;
/// Jobs that a replay may play; an answer takes 48 replays for each point of
/// the curve (three lists of blackouts, 16 phases).
const MOST_JOBS: u64 = 1_000_000;
/// Goals, as mean times between failures.
const GOALS: [(&str, f64); 3] = [
    ("hour", HOUR_NS),
    ("day", 24.0 * HOUR_NS),
    ("week", 168.0 * HOUR_NS),
];
/// -ln 0.05: so many times a goal must be recorded without a miss to show it.
const RULE_OF_THREE: f64 = 2.995_732_273_553_991;

/// Why there is no answer.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QosError {
    /// A figure of the application is out of its range.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Nothing that could run the application was recorded.
    #[error("no thread that could run it was measured")]
    NoThread,
    /// The buffers are so short that a replay would take too long.
    #[error(
        "buffers of {buffer} are too short to be replayed: `{service}` was stopped for {} of them, more than {}; the limit for these recordings is `--buffer {least}`",
        count(*jobs),
        count(MOST_JOBS)
    )]
    TooShort {
        /// The length of one.
        buffer: Nanos,
        /// The service that was stopped.
        service: Service,
        /// Jobs that a replay would play.
        jobs: u64,
        /// The shortest that can be replayed, about.
        least: Nanos,
    },
}

/// How `application` fares under `seen`, for `only` one service or all.
///
/// # Errors
/// When the application's figures are out of their range, or its buffers too
/// short to be replayed in reasonable time.
pub fn assess(
    seen: &Load,
    application: &Application,
    only: Option<Service>,
) -> Result<LoadOutlook, QosError> {
    let mut lines = seen.lines();
    lines.retain(|line| only.is_none_or(|only| only == line.0));
    let own = runs(only.or(application.service), lines.iter().copied());
    let services = lines
        .into_iter()
        .map(|line| {
            let found = of_line(seen, application, line)?;
            Ok(ServiceOutlook {
                is_own: own == Some(line),
                ..found
            })
        })
        .collect::<Result<_, QosError>>()?;
    Ok(LoadOutlook {
        load: seen.label.clone(),
        recordings: seen.paths(),
        services,
        notes: seen.notes(),
    })
}

/// How `application` fares with one service by one route, which is not taken to
/// be its own.
pub(crate) fn of_line(
    seen: &Load,
    application: &Application,
    line: (Service, Route),
) -> Result<ServiceOutlook, QosError> {
    of_line_at(seen, application, line, CONFIDENCE)
}

/// The same with intervals of this `confidence`.
pub(crate) fn of_line_at(
    seen: &Load,
    application: &Application,
    (service, route): (Service, Route),
    confidence: f64,
) -> Result<ServiceOutlook, QosError> {
    let way = Selection::new(seen, (service, route), None);
    let waited = way.waited();
    way.check_effort(application, service)?;
    let tried = tried(application.buffers);
    let mut found = tried
        .iter()
        .map(|&buffers| way.found(application, buffers, confidence))
        .collect::<Result<Vec<_>, InputError>>()?;
    pool(&mut found);
    let mut curve = tried
        .into_iter()
        .zip(&found)
        .map(|(buffers, found)| {
            Ok(CurvePoint {
                buffers,
                total_ns: application.buffer_ns * buffers.into(),
                buffering_ns: application.buffer_ns * buffers.saturating_sub(1).into(),
                figures: way.figures(application, buffers, found)?,
                apart: way.standing_out(application, buffers, (found, confidence))?,
            })
        })
        .collect::<Result<Vec<_>, InputError>>()?;
    order(&mut curve);
    let own = curve
        .iter()
        .find(|point| point.buffers == application.buffers)
        .expect("an application's own buffers are tried");
    let coarse = way.coarse(slack(application, application.buffers));
    let coarse = coarse.map(|coarse| Coarse {
        policy: application.policy,
        ..coarse
    });
    let is_blind = coarse.as_ref().is_some_and(Coarse::is_blind);
    let blind = |point: &CurvePoint| way.told(slack(application, point.buffers)) == Told::Between;
    Ok(ServiceOutlook {
        service,
        route,
        is_own: false,
        verdict: Fitness::of(own, waited, is_blind),
        cpus: way.cpus,
        samples: way
            .groups
            .iter()
            .map(|one| one.latency.histogram().count())
            .sum(),
        needed: GOALS
            .map(|goal| needed(&curve, blind, goal, way.span(), waited))
            .into(),
        waited_ns: waited,
        coarse,
        outlook: own.figures.clone(),
        apart: own.apart.clone(),
        curve,
    })
}

/// What is known of failures with so many buffers.
enum Found {
    Replayed(Told, qos::Outlook),
    Bounded(qos::Bounds),
}

/// Estimates of more buffers agree with those of fewer, where there are any.
fn pool(found: &mut [Found]) {
    let is_estimate = |told: &Told| *told != Told::Loosely;
    let mut pooled: Vec<qos::Outlook> = found
        .iter()
        .filter_map(|one| match one {
            Found::Replayed(told, outlook) => is_estimate(told).then_some(*outlook),
            Found::Bounded(_) => None,
        })
        .collect();
    qos::monotone(&mut pooled);
    let mut pooled = pooled.into_iter();
    for one in found {
        if let Found::Replayed(told, outlook) = one
            && is_estimate(told)
            && let Some(with) = pooled.next()
        {
            *outlook = with;
        }
    }
}

/// Fewer buffers are never surer than more, whichever way each is told.
fn order(curve: &mut [CurvePoint]) {
    let mut low = f64::INFINITY;
    for point in curve.iter_mut().rev() {
        low = low.min(point.figures.mttf_low_ns);
        point.figures.mttf_low_ns = low;
    }
}

/// The numbers of buffers of the curve, the application's own among them.
fn tried(own: u32) -> Vec<u32> {
    let most = own.clamp(MOST_BUFFERS, MOST_TRIED);
    (2..=most).chain((own > most).then_some(own)).collect()
}

/// What one miss in a goal takes, of a recording of `span`; at which points of the
/// curve it is blind, `is_blind` says.
fn needed(
    curve: &[CurvePoint],
    is_blind: impl Fn(&CurvePoint) -> bool,
    (name, goal): (&str, f64),
    span: f64,
    waited: Option<Nanos>,
) -> Needed {
    let first = |meets: &dyn Fn(&CurvePoint) -> bool| {
        let point = curve.iter().find(|point| meets(point));
        point.map(|point| point.buffers)
    };
    let is_met = |point: &CurvePoint| point.against(goal, is_blind(point)) == Fitness::Fit;
    let record = goal * RULE_OF_THREE;
    Needed {
        one_miss_per: name.into(),
        by_estimate: first(&|point| point.mean_time().is_some_and(|mttf| mttf >= goal)),
        // A stall that had not ended can have been longer than any buffers.
        surely: first(&|point| waited.is_none() && is_met(point)),
        // What had not ended says nothing of a goal, however long it was recorded.
        record_ns: (span < record || waited.is_some()).then_some(record),
        is_coarse: curve
            .last()
            .is_some_and(|point| point.figures.failures.is_none()),
    }
}

impl Selection<'_> {
    fn found(
        &self,
        application: &Application,
        buffers: u32,
        confidence: f64,
    ) -> Result<Found, InputError> {
        let slack = slack(application, buffers);
        let (observed, told) = (self.observed(slack), self.told(slack));
        let buffering = buffering(application, buffers)?;
        if told.is_replayed() {
            let found = qos::outlook(&observed, buffering, confidence)?;
            return Ok(Found::Replayed(told, found));
        }
        qos::failure_bounds(&observed, &self.sampled(slack), buffering, confidence)
            .map(Found::Bounded)
    }

    fn figures(
        &self,
        application: &Application,
        buffers: u32,
        found: &Found,
    ) -> Result<MissFigures, InputError> {
        let share = self.share_above(slack(application, buffers));
        let buffering = buffering(application, buffers)?;
        let paper = qos::paper_mean_time(buffering, share)?;
        Ok(match found {
            Found::Replayed(Told::Loosely, found) => {
                let late = HOUR_NS / buffering.period() * share;
                MissFigures::of(found, paper).without_estimate(late)
            }
            Found::Replayed(_, found) => MissFigures::of(found, paper),
            Found::Bounded(found) => MissFigures::bounded(found, paper),
        })
    }

    /// The CPUs on which it fails more often; `None` where failures are not counted.
    fn standing_out(
        &self,
        application: &Application,
        buffers: u32,
        (found, confidence): (&Found, f64),
    ) -> Result<Option<Apart>, InputError> {
        let all = match found {
            Found::Replayed(Told::Loosely, _) | Found::Bounded(_) => return Ok(None),
            Found::Replayed(_, all) => all,
        };
        let observed = self.observed(slack(application, buffers));
        let buffering = buffering(application, buffers)?;
        self.apart(&observed, all, buffering, confidence)
    }

    /// Refuses buffers that are too short to be replayed. Fewest buffers have
    /// the least slack, and so the most blackouts.
    fn check_effort(&self, application: &Application, service: Service) -> Result<(), QosError> {
        let observed = self.observed(slack(application, 2));
        let jobs = qos::jobs_to_play(&observed, buffering(application, 2)?);
        if jobs <= MOST_JOBS as f64 {
            return Ok(());
        }
        let least = application.buffer_ns.as_f64() * jobs / MOST_JOBS as f64;
        Err(QosError::TooShort {
            buffer: application.buffer_ns,
            service,
            jobs: whole(jobs),
            // A little more, so that rounding down does not refuse it again.
            least: two_digits(Nanos::from_ns(whole(least * 1.1) + 1)),
        })
    }

    /// The blackouts that matter to a stream with this slack.
    pub(crate) fn observed(&self, slack: Nanos) -> Vec<Observed> {
        let floor = Nanos::from_ns(slack.ns() / ORDINARY_PART);
        self.streams
            .iter()
            .map(|(seen, stream)| Observed {
                recording: self.index_of(seen),
                blackouts: stream.blackouts(seen.start, self.base, floor),
                exposure: exposure(seen, stream),
                base: self.base.as_f64(),
            })
            .collect()
    }

    /// How long that was by the clock on the wall, ns: CPUs do not add to it, for
    /// what stops all of them at once cannot be ruled out.
    fn span(&self) -> f64 {
        let mut lengths = BTreeMap::new();
        for (seen, stream) in &self.streams {
            let length: &mut f64 = lengths.entry(self.index_of(seen)).or_default();
            *length = length.max(exposure(seen, stream));
        }
        lengths.values().sum()
    }

    /// The place of a recording among those that the streams are of.
    fn index_of(&self, recording: &Run) -> usize {
        let is_it = |(seen, _): &(&Run, &Stream)| std::ptr::eq(*seen, recording);
        self.streams.iter().position(is_it).unwrap_or_default()
    }
}

/// For how long a stream was observed, ns: all the time but where interrupts
/// were seen in too few of a CPU's activations, as beside a thread that kept
/// others from arming their timers. Then as large a part of the time, and its
/// stalls: few interrupts come in one, and it is known from beginning to end.
fn exposure(seen: &Run, stream: &Stream) -> f64 {
    let whole = seen.duration.as_f64();
    if stream.service.has_lines() {
        return whole;
    }
    let of_cpu = seen.streams.iter().filter(|one| one.cpu == stream.cpu);
    let asked = of_cpu
        .filter(|one| !matches!(one.service, Service::Irq | Service::Kthread))
        .map(|one| one.samples)
        .sum::<u64>();
    let share = stream.samples as f64 / asked.max(1) as f64;
    if share >= ENOUGH_IRQ {
        return whole;
    }
    let stalls = stream.blackouts(seen.start, Nanos::ZERO, Nanos::ZERO).inner;
    let stalled: f64 = stalls.iter().map(|one| one.end - one.start).sum();
    (whole * share + stalled).min(whole)
}

fn buffering(application: &Application, buffers: u32) -> Result<Buffering, InputError> {
    let ns = |time: Nanos| time.as_f64();
    let (buffer, compute) = (ns(application.buffer_ns), ns(application.compute_ns));
    let buffering = Buffering::new(buffers, buffer, compute)?;
    Ok(buffering.after_miss(application.policy.into()))
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
    fn interrupts_were_observed_for_as_large_a_part_of_the_time_as_they_were_seen() {
        let stream = |service, cpu: u32, samples| Stream {
            cpu: Cpu(cpu),
            service,
            route: Route::Direct,
            samples,
            floor: Nanos::ZERO,
            exceedances: Vec::new(),
        };
        let exposures = |interrupts: u64, stalls: &[Exceedance]| {
            let seen = Run {
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
                    // Not asked for by a timer of ours, or elsewhere.
                    stream(Service::Kthread, 0, 5_000),
                    stream(Service::Fifo(90), 1, 9_000),
                ],
                own_cpus: 0.0,
                waiting: Vec::new(),
                doubts: Vec::new(),
                trust: Trust::Good,
            };
            [0, 1].map(|at| exposure(&seen, &seen.streams[at]))
        };

        // A thread's is all the time, and so is that of interrupts of which a
        // few came while one ran already.
        assert_eq!(exposures(1_000, &[]), [8_000.0, 8_000.0]);
        assert_eq!(exposures(900, &[]), [8_000.0, 8_000.0]);
        assert_eq!(exposures(250, &[]), [2_000.0, 8_000.0]);
        assert_eq!(exposures(0, &[]), [0.0, 8_000.0]);
        // Of a stall the first that waited is kept, and all of it was seen.
        let stall = |latency| Exceedance {
            expiry: Nanos::from_ns(1_000),
            latency: Nanos::from_ns(latency),
            free_until: Nanos::ZERO,
        };
        assert_eq!(exposures(250, &[stall(4_000)]), [6_000.0, 8_000.0]);
        assert_eq!(exposures(250, &[stall(7_000)]), [8_000.0, 8_000.0]);
    }

    #[test]
    fn more_cpus_do_not_shorten_the_time_that_shows_a_goal() {
        let stream = |cpu: u32| Stream {
            cpu: Cpu(cpu),
            service: Service::Fifo(90),
            route: Route::Direct,
            samples: 7_200_000,
            floor: Nanos::ZERO,
            exceedances: Vec::new(),
        };
        let seen = |cpus: u32, duration| {
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
            let seen = seen(cpus, Nanos::from_secs(3_600 * hours));
            let way = Selection::new(&seen, (Service::Fifo(90), Route::Direct), None);
            let needed = needed(&[], |_| false, GOALS[0], way.span(), None);
            needed.record_ns.is_some()
        };

        // Two hours of 64 CPUs are 128 h of CPU time, and show no more than two hours.
        for cpus in [1, 2, 64] {
            assert!(is_short(cpus, 2), "{cpus} CPUs");
            assert!(!is_short(cpus, 3), "{cpus} CPUs");
        }
    }

    #[test]
    fn the_curve_is_bounded_and_has_the_applications_own_buffers() {
        assert_eq!(tried(3), (2..=12).collect::<Vec<_>>());
        assert_eq!(tried(40).last(), Some(&40));
        let many = tried(5_000);
        assert_eq!((many.len(), many.last()), (64, Some(&5_000)));
    }
}
