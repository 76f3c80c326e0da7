//! Activations that begin with a device's interrupt instead of a timer's
//! expiry: one thread raises it on time, another waits for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use laggard_model::{Caveat, CaveatKind, Cpu, Service, Tid};

use super::clock;
use super::thread::{Duty, LinePlan, RunState, publish};
use super::uio::Uio;
use crate::board::LineWriter;
use crate::probe::{ProbeError, Request};

/// A device and whether somebody waits for its interrupt.
#[derive(Debug)]
pub(crate) struct External {
    uio: Uio,
    is_awaited: AtomicBool,
}

impl External {
    /// Opens the device, and settles on one thread service and one CPU: those
    /// that were asked for, or the one where the interrupt goes. All CPUs that
    /// may be used count as not asked.
    pub(crate) fn open(path: &Path, request: &mut Request) -> Result<Arc<Self>, ProbeError> {
        let refused = |reason: String| ProbeError::Source {
            path: path.to_owned(),
            reason,
        };
        let uio = Uio::open(path).map_err(|err| refused(err.to_string()))?;
        // Somebody who was killed may have left it raised: then it never rises.
        uio.acknowledge();
        uio.enable()
            .map_err(|err| refused(format!("its interrupt cannot be enabled: {err}")))?;
        match request.services[..] {
            [only] if only.is_thread() => {}
            _ => {
                return Err(refused(
                    "its interrupt wakes one thread: ask for one service, such as fifo:90".into(),
                ));
            }
        }
        match request.cpus.as_slice() {
            [_] => {}
            cpus if *cpus == *super::usual_cpus().as_slice() => {
                request.cpus = [uio.cpu()].into_iter().collect();
            }
            cpus => {
                return Err(refused(format!(
                    "one thread waits for its interrupt, on one CPU, and {} were asked for: record each CPU by itself, as in --cpus {}",
                    cpus.len(),
                    cpus.first().map_or(0, |cpu| cpu.0)
                )));
            }
        }
        Ok(Arc::new(Self {
            uio,
            is_awaited: AtomicBool::new(false),
        }))
    }

    /// The kernel's number of the interrupt.
    pub(crate) fn irq(&self) -> u32 {
        self.uio.irq
    }

    /// The threads that the interrupt's handlers run in, if any.
    pub(crate) fn handler_tids(&self) -> Vec<Tid> {
        let threads = self.uio.handler_threads();
        threads.into_iter().map(|(tid, _)| tid).collect()
    }

    /// What raises the interrupt: a step below the thread that waits for it,
    /// so that it does not hold that thread up.
    pub(crate) fn raiser_service(waiter: Service) -> Service {
        match waiter {
            Service::Fifo(priority @ 2..) => Service::Fifo(priority - 1),
            Service::Irq
            | Service::Softirq
            | Service::Worker
            | Service::Fifo(_)
            | Service::Deadline
            | Service::Nice(_)
            | Service::Slice(_)
            | Service::Lent(_)
            | Service::Realtime(_)
            | Service::Mmcss
            | Service::Dpc
            | Service::SystemThread(_)
            | Service::Other
            | Service::Kthread
            | Service::Task(_)
            | Service::Traced(_) => Service::Other,
        }
    }

    /// What begins the activations, and who handles the interrupt.
    pub(crate) fn caveat(&self, cpu: Cpu) -> Caveat {
        let threads: Vec<String> = self
            .uio
            .handler_threads()
            .into_iter()
            .map(|(_, name)| name)
            .collect();
        let handler = if threads.is_empty() {
            "its handler runs in the interrupt".into()
        } else {
            format!("its handlers run in threads ({})", threads.join(", "))
        };
        Caveat::new(
            CaveatKind::ExternalSource,
            format!(
                "activations begin when interrupt {} is raised, not at a timer's expiry; {handler}; the thread waits on CPU {cpu}",
                self.uio.irq
            ),
            "compare with recordings of the same source only",
        )
    }
}

/// Waits for the device's interrupts. Ends at the first after the stop.
#[derive(Debug)]
pub(super) struct InterruptWaiter(pub(super) Arc<External>);

impl Duty for InterruptWaiter {
    fn name_suffix(&self) -> &'static str {
        ""
    }

    fn serves(&self) -> Option<bool> {
        Some(true)
    }

    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, _: Option<LinePlan>) {
        let device = &*self.0;
        while !shared.stop.load(Ordering::Relaxed) {
            if device.uio.enable().is_err() {
                return;
            }
            device.is_awaited.store(true, Ordering::Release);
            let waited = device.uio.wait();
            let user = clock::now();
            if waited.is_err() {
                return;
            }
            device.uio.acknowledge();
            if let Some(slot) = line.claimed() {
                publish(line, cpu, slot, user);
            }
        }
    }
}

/// Raises the interrupt at each expiry at which somebody waits for it, and once
/// at the stop, so that nobody waits on.
#[derive(Debug)]
pub(super) struct Raiser(pub(super) Arc<External>);

impl Duty for Raiser {
    fn name_suffix(&self) -> &'static str {
        "r"
    }

    fn serves(&self) -> Option<bool> {
        None
    }

    fn measure(&self, shared: &RunState, _: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>) {
        let Some((mut timeline, _)) = plan else {
            return;
        };
        let device = &*self.0;
        while !shared.stop.load(Ordering::Relaxed) {
            clock::sleep_until(timeline.expiry());
            if device.is_awaited.swap(false, Ordering::AcqRel) {
                // Not before: the waiter may only now have filled its slot.
                match line.claim(timeline.seq(), timeline.expiry()) {
                    Some(slot) => {
                        compiler_fence(Ordering::SeqCst);
                        slot.expiry_ns.store(clock::now().ns(), Ordering::Relaxed);
                        device.uio.raise();
                    }
                    None => device.is_awaited.store(true, Ordering::Release),
                }
            }
            let now = clock::now();
            while timeline.expiry() <= now {
                timeline.advance();
            }
        }
        device.uio.raise();
    }
}

impl Drop for External {
    /// The last interrupt, which ends the waiting, may come after the waiter
    /// has left: a device that stays raised cannot interrupt the next user.
    fn drop(&mut self) {
        self.uio.acknowledge();
    }
}
