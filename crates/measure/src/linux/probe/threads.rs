//! Readying the measuring threads of all lines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use laggard_model::Route;

use super::super::board::NO_LINE;
use super::super::carrier;
use super::super::external::External;
use super::super::lines::CpuLines;
use super::super::programs::Programs;
use super::super::reason_of;
use super::super::thread::{MeasuringThread, Shared, Waking};
use super::system;
use crate::probe::ProbeError;

/// A thread for each line that one serves, asleep.
pub(super) fn ready_threads(
    shared: &Arc<Shared>,
    plans: &[CpuLines],
    ring_bits: u32,
    programs: Option<&Programs>,
) -> Result<Vec<MeasuringThread>, ProbeError> {
    let mut threads = Vec::new();
    let mut first_slot = 0;
    for plan in plans {
        let board = shared.board.cpu(plan.cpu);
        board.ring_bits.store(ring_bits, Ordering::Relaxed);
        board.lines_first_slot.store(first_slot, Ordering::Relaxed);
        first_slot += (plan.lines.len() as u64) << ring_bits;
        let waking = |place: usize| match plan.lines[place].route {
            Route::Direct => Ok(Waking::Timer),
            Route::Deferred if !plan.has_callback() => Ok(Waking::SoftTimer),
            Route::Deferred => programs
                .ok_or_else(|| "no BPF".to_owned())
                .and_then(|all| {
                    all.doorbell(plan.cpu, place)
                        .map_err(|refused| refused.reason)
                })
                .map(Waking::Doorbell)
                .map_err(|reason| system("make a ring buffer", reason)),
        };
        for place in plan.direct_threads().chain(plan.deferred_threads()) {
            let line = plan.lines[place];
            let thread = MeasuringThread::prepare(
                shared.clone(),
                line.cpu,
                place,
                line.service,
                waking(place)?,
            )
            .map_err(|err| system("start a measuring thread", reason_of(&err)))?;
            threads.push(thread);
        }
        if let Some(place) = plan.carried() {
            let carried = u32::try_from(place).unwrap_or(NO_LINE);
            board.carried.store(carried, Ordering::Relaxed);
            let cpu = plan.lines[place].cpu;
            let carrier = MeasuringThread::prepare(
                shared.clone(),
                cpu,
                place,
                carrier::SERVICE,
                Waking::Carrier,
            )
            .map_err(|err| system("start a carrying thread", reason_of(&err)))?;
            threads.push(carrier);
        }
        let count = u32::try_from(plan.lines.len()).unwrap_or(0);
        board.nr_lines.store(count, Ordering::Release);
    }
    Ok(threads)
}

/// The thread that waits for a device's interrupt, after the one that raises
/// it.
pub(super) fn ready_external(
    shared: &Arc<Shared>,
    plans: &[CpuLines],
    ring_bits: u32,
    external: &Arc<External>,
) -> Result<Vec<MeasuringThread>, ProbeError> {
    let (Some(plan), place) = (plans.first(), 0) else {
        return Ok(Vec::new());
    };
    let line = plan.lines[place];
    let board = shared.board.cpu(plan.cpu);
    board.ring_bits.store(ring_bits, Ordering::Relaxed);
    let prepare = |service, waking| {
        MeasuringThread::prepare(shared.clone(), line.cpu, place, service, waking)
            .map_err(|err| system("start a measuring thread", reason_of(&err)))
    };
    let raiser = prepare(
        External::raiser_service(line.service),
        Waking::Raising(external.clone()),
    )?;
    let waiter = prepare(line.service, Waking::Interrupt(external.clone()))?;
    board.nr_lines.store(1, Ordering::Release);
    Ok(vec![raiser, waiter])
}
