//! Start of the measurement: softirq timers are armed, and everything runs for a while before the
//! recording starts.

use std::sync::atomic::Ordering;

use laggard_model::Nanos;

use super::super::lines::CpuLines;
use super::super::usage::Usage;
use super::super::{clock, policy, reason_of};
use super::{ThreadSource, system};
use crate::board::Timeline;
use crate::probe::{ProbeError, Request};
use crate::source::Source as _;

/// Minimum time from the first expiry to the first recorded one. Programs are timed during this
/// time.
pub(super) const WARM_UP: Nanos = Nanos::from_ms(500);

/// Approximate time to collect and write a row: 0.8 to 1.1 us were measured (docs/method.md 3).
const COLLECTION_PER_ROW: Nanos = Nanos::from_us(1);

/// Minimum number of expiries per CPU in the warm-up for an estimate of the cost. The cost of fewer
/// is small beside the start of the threads, which the usage contains.
const MIN_EXPIRIES: f64 = 5.0;

impl ThreadSource {
    /// Runs everything for a while, from `start`.
    pub(super) fn warm_up(&mut self, start: Nanos) {
        self.shared.exhaustion.note(clock::now());
        let now = clock::now();
        self.warm_up = Some((self.usage(now), start));
        if let Some(programs) = &mut self.programs {
            programs.begin_timing(start);
            // If other threads had the CPU and this line runs late, the usage over the next few
            // instructions is not representative.
            std::thread::sleep(
                (start.max(now) + WARM_UP)
                    .saturating_sub(clock::now())
                    .into(),
            );
            programs.end_timing(clock::now());
        }
    }

    /// Records expiries from `from`, and discards earlier ones.
    pub(super) fn record_from(&mut self, from: Nanos) {
        for (_, reader) in &mut self.readers {
            reader.begin_at(from);
        }
        if let Some((before, start)) = self.warm_up.take() {
            self.note_stop(clock::now());
            let now = self.usage(from);
            self.price = self.price_since(before, &now, start);
            self.began = Some(from);
            self.shared.exhaustion.note(clock::now());
        }
        self.skipped.0 = self.skipped_so_far();
        self.run_delays.restart();
    }

    /// Returns the usage until now. `now` is the present time.
    fn usage(&self, now: Nanos) -> Usage {
        Usage::at(now, self.measuring_cpu(), self.competing_cpu())
    }

    /// Estimates the cost of serving every expiry, from the usage since `before`, the start of
    /// the warm-up: a fraction of the time of its CPUs.
    fn price_since(&self, before: Usage, now: &Usage, start: Nanos) -> Option<f64> {
        let programs = self.programs.as_ref()?.cost_of_timing(&self.cpus());
        let cpu = now.cpu.saturating_sub(before.cpu) + programs;
        let wall = now.at.saturating_sub(before.at).as_secs_f64();
        let each = now.at.saturating_sub(start).as_secs_f64() / self.request.period.as_secs_f64();
        let (mut planned, mut served) = (0.0, 0.0);
        for plan in &self.plans {
            let board = self.shared.board.cpu(plan.cpu);
            for place in plan.direct_threads() {
                planned += each / plan.turn_of(place).stride as f64;
                served += board.lines[place].head.load(Ordering::Relaxed) as f64;
            }
        }
        let cpus = self.plans.len() as f64;
        let share = share_of_all(cpu.as_secs_f64() / (wall * cpus), each, planned, served)?;
        let rows = self.rows_of_a_period() / self.request.period.as_secs_f64();
        Some(share + rows * COLLECTION_PER_ROW.as_secs_f64() / cpus)
    }

    /// Returns the number of rows per period. Lines that are requested in turn share one.
    fn rows_of_a_period(&self) -> f64 {
        let rows = self
            .readers
            .iter()
            .map(|(_, reader)| 1.0 / reader.stride as f64);
        rows.sum()
    }

    /// Arms every CPU's softirq timer on its CPU, then returns to all CPUs.
    pub(super) fn start_deferrals(&self, start: Nanos) -> Result<(), ProbeError> {
        let Some(programs) = &self.programs else {
            return Ok(());
        };
        for plan in &self.plans {
            programs
                .prepare_carried(plan)
                .map_err(|refused| system("prepare the work item", refused.reason))?;
        }
        for plan in self.plans.iter().filter(|plan| plan.has_callback()) {
            let place = u32::try_from(plan.direct_threads().count()).unwrap_or(0);
            let timeline = Timeline::unstarted(
                self.request.seed ^ u64::from(plan.cpu),
                self.request.period,
                self.request.dither,
                place,
                u32::try_from(plan.timelines()).expect("a CPU has 16 places at most"),
                start,
            );
            // Uses a separate thread, so that the affinity of the caller does not change.
            std::thread::scope(|scope| {
                policy::trial()
                    .spawn_scoped(scope, || {
                        policy::pin(laggard_model::Cpu(plan.cpu))
                            .map_err(|err| system("move to a CPU", reason_of(&err)))?;
                        programs
                            .start_deferral(plan, timeline)
                            .map_err(|refused| system("start the softirq timer", refused.reason))
                    })
                    .map_err(|err| system("start a thread", reason_of(&err)))?
                    .join()
                    .unwrap_or_else(|_| Err(system("start the softirq timer", "panicked".into())))
            })?;
        }
        Ok(())
    }

    pub(super) fn timeline(&self, plan: &CpuLines, place: usize, start: Nanos) -> Timeline {
        timeline(&self.request, plan, place, start)
    }
}

/// Returns the cost of serving all `planned` expiries, `each` per CPU, if `served` of them cost
/// `share`. `None` if there were too few.
fn share_of_all(share: f64, each: f64, planned: f64, served: f64) -> Option<f64> {
    let unserved = if served > 0.0 { planned / served } else { 1.0 };
    (share.is_finite() && each >= MIN_EXPIRIES).then(|| share * unserved.max(1.0))
}

/// Returns the timeline that leads to the line at `place`: the timeline of a direct thread, or the
/// softirq timer's.
pub(super) fn timeline(request: &Request, plan: &CpuLines, place: usize, start: Nanos) -> Timeline {
    Timeline::new(
        request.seed ^ u64::from(plan.cpu),
        request.period,
        request.dither,
        u32::try_from(plan.timeline_of(place)).expect("a CPU has 16 places"),
        u32::try_from(plan.timelines()).unwrap_or(1),
        start,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_of_many_threads_is_not_the_cost_of_a_long_period() {
        // 72 emulated CPUs, in fact 0.7 %.
        assert_eq!(share_of_all(0.61, 0.05, 3.6, 0.0), None);
        assert_eq!(share_of_all(0.9, 5e4, 1e5, 5e4), Some(1.8));
    }
}
