//! Preparation of the measuring threads of all lines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use laggard_model::{Route, Service};

use super::super::carrier::{self, Carrier};
use super::super::doorbell::RungThread;
use super::super::external::{External, InterruptWaiter, Raiser};
use super::super::lines::CpuLines;
use super::super::loan::{Borrower, Lender, Loan, lender_service};
use super::super::programs::Programs;
use super::super::reason_of;
use super::super::sleeper::{Contender, DescriptorWaiter, Sleeper};
use super::super::soft::SoftTimer;
use super::super::thread::{Duty, MeasuringThread, RunState};
use super::system;
use crate::probe::ProbeError;

/// Prepares a sleeping thread for each line that a thread serves.
pub(super) fn ready_threads(
    shared: &Arc<RunState>,
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
        let mut lenders = Vec::new();
        for place in plan.direct_threads().chain(plan.deferred_threads()) {
            let line = plan.lines[place];
            let prepare = |service, duty| {
                MeasuringThread::prepare(shared.clone(), line.cpu, place, service, duty)
                    .map_err(|err| system("start a measuring thread", reason_of(&err)))
            };
            let duty = match line.service.lent() {
                Some(priority) => {
                    let loan =
                        Loan::new().map_err(|err| system("make a PI futex", reason_of(&err)))?;
                    // First, because the timer that leads to the line belongs to the lender.
                    let lender = Box::new(Lender(Arc::clone(&loan)));
                    lenders.push(prepare(lender_service(priority), lender)?);
                    let busy = plan.contender.map(|(busy, _)| plan.lines[busy].service);
                    let own = busy.unwrap_or(Service::Other);
                    Box::new(Borrower { loan, own })
                }
                None => duty(plan, place, programs)?,
            };
            threads.push(prepare(line.service, duty)?);
        }
        if let Some(place) = plan.carried() {
            let carried = u32::try_from(place).expect("a CPU has 16 places");
            board.carried.store(carried, Ordering::Relaxed);
            let cpu = plan.lines[place].cpu;
            let carrier = SoftTimer::unwaited()
                .and_then(|timer| {
                    let duty = Box::new(Carrier(timer));
                    MeasuringThread::prepare(shared.clone(), cpu, place, carrier::SERVICE, duty)
                })
                .map_err(|err| system("start a carrying thread", reason_of(&err)))?;
            threads.push(carrier);
        }
        threads.append(&mut lenders);
        let count = u32::try_from(plan.lines.len()).unwrap_or(0);
        board.nr_lines.store(count, Ordering::Release);
    }
    Ok(threads)
}

/// Returns the duty of the thread of the line at `place`.
fn duty(
    plan: &CpuLines,
    place: usize,
    programs: Option<&Programs>,
) -> Result<Box<dyn Duty>, ProbeError> {
    if let Some((_, turns)) = plan.contender.filter(|_| plan.is_contender(place)) {
        return Ok(Box::new(Contender(turns)));
    }
    Ok(match plan.lines[place].route {
        Route::Direct => Box::new(Sleeper),
        Route::Deferred if !plan.has_callback() => {
            let timer = SoftTimer::new();
            let timer = timer.map_err(|err| system("make a timer descriptor", reason_of(&err)))?;
            Box::new(DescriptorWaiter(timer))
        }
        Route::Deferred => {
            let ring = programs
                .ok_or_else(|| "no BPF".to_owned())
                .and_then(|programs| {
                    let ring = programs.doorbell(plan.cpu, place);
                    ring.map_err(|refused| refused.reason)
                })
                .and_then(|ring| RungThread::new(ring).map_err(|err| reason_of(&err)));
            let ring = ring.map_err(|reason| system("make a ring buffer", reason))?;
            let busy = plan.contender.map(|(busy, _)| plan.lines[busy].service);
            Box::new(if busy == Some(plan.lines[place].service) {
                ring.in_queue()
            } else {
                ring
            })
        }
    })
}

/// Prepares the thread that waits for a device's interrupt, after the thread that raises it.
pub(super) fn ready_external(
    shared: &Arc<RunState>,
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
    let prepare = |service, duty| {
        MeasuringThread::prepare(shared.clone(), line.cpu, place, service, duty)
            .map_err(|err| system("start a measuring thread", reason_of(&err)))
    };
    let raiser = prepare(
        External::raiser_service(line.service),
        Box::new(Raiser(external.clone())),
    )?;
    let waiter = prepare(line.service, Box::new(InterruptWaiter(external.clone())))?;
    board.nr_lines.store(1, Ordering::Release);
    Ok(vec![raiser, waiter])
}
