//! Activations that start with the interrupt of a device instead of the expiry of a timer. One
//! thread raises the interrupt on time, another waits for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use laggard_model::{Caveat, CaveatKind, Cpu, Service, Tid};

use super::clock;
use super::thread::{Duty, LinePlan, RunState, publish};
use super::uio::Uio;
use crate::board::LineWriter;
use crate::probe::{ProbeError, Request};

/// Device, and whether a thread waits for its interrupt.
#[derive(Debug)]
pub(crate) struct External {
    uio: Uio,
    is_awaited: AtomicBool,
}

impl External {
    /// Opens the device and selects one thread service and one CPU: the requested ones, or the
    /// CPU that the interrupt is routed to. A request for all usable CPUs is treated as missing.
    pub(crate) fn open(path: &Path, request: &mut Request) -> Result<Arc<Self>, ProbeError> {
        let refused = |reason: String| ProbeError::Source {
            path: path.to_owned(),
            reason,
        };
        let uio = Uio::open(path).map_err(|err| refused(err.to_string()))?;
        // A killed process may have left the interrupt raised. It could not be raised again.
        uio.acknowledge();
        uio.enable()
            .map_err(|err| refused(format!("cannot enable its interrupt: {err}")))?;
        match request.services[..] {
            [only] if only.is_thread() => {}
            _ => {
                return Err(refused(
                    "its interrupt wakes one thread; record one service, for example --services fifo:90".into(),
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
                    "one thread on one CPU waits for its interrupt, but {} CPUs were given; record each CPU separately, for example --cpus {}",
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

    /// Returns the kernel's number of the interrupt.
    pub(crate) fn irq(&self) -> u32 {
        self.uio.irq
    }

    /// Returns the threads that run the interrupt's handlers, if any.
    pub(crate) fn handler_tids(&self) -> Vec<Tid> {
        let threads = self.uio.handler_threads();
        threads.into_iter().map(|(tid, _)| tid).collect()
    }

    /// Returns the scheduling of the thread that raises the interrupt: one priority below the
    /// waiting thread, so that it does not delay that thread.
    pub(crate) fn raiser_service(waiter: Service) -> Service {
        match waiter {
            Service::Fifo(priority @ 2..) => Service::Fifo(priority - 1),
            _ => Service::Other,
        }
    }

    /// Returns the warning that names the interrupt and the context of its handler.
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
                "wakeups start when interrupt {} is raised, not when a timer expires; {handler}; the thread waits on CPU {cpu}",
                self.uio.irq
            ),
            "compare only with recordings of the same source",
        )
    }
}

/// Waits for the device's interrupts. Ends at the first interrupt after the stop.
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

/// Raises the interrupt at each expiry that the thread waits for. Raises it once more at the stop,
/// so that the thread does not wait forever.
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
                // Not earlier: the waiter may have filled its slot only now.
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
    /// The last interrupt, which ends the wait, may come after the waiter has left. A device that
    /// stays raised cannot interrupt the next user.
    fn drop(&mut self) {
        self.uio.acknowledge();
    }
}
