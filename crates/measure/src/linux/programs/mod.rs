//! The BPF objects of one run, loaded over one board.

mod callback;
mod cost;
mod enlist;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; the programs use some fields alone"
)]
pub(super) mod values {
    include!(concat!(env!("OUT_DIR"), "/programs.rs"));
}

use std::os::fd::AsFd;

use laggard_bpf::object::{LoadedObject, ObjectFile, ObjectRefused};
use laggard_bpf::value::Value as _;
use laggard_model::{Cpu, Service, Stage, Tid};
use libbpf_rs::OpenObject;

use super::lines::Deferral as DeferredBy;
use super::statistics::Statistics;
use super::{objects, soft};
use crate::board::{Board, LINES_PER_CPU, NO_LINE, Stamps};
pub(crate) use callback::{DOORBELL_BYTES, MAX_FOLLOWERS};
use callback::{prepare_work, set_deferral};
pub(crate) use enlist::Enlist;
use values::{Deferral, Interrupt, StartArgs};

/// In [`Programs::refused`], that timer descriptors give no softirq.
const SOFT_TIMERS: &str = "soft timers";

/// The objects that this kernel takes. Each that it does not take has left a
/// reason in [`Programs::refused`].
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) chain: LoadedObject,
    pub(crate) irq: Option<LoadedObject>,
    pub(crate) raise: Option<LoadedObject>,
    pub(crate) deferred: Option<LoadedObject>,
    /// Beside `deferred`, where the softirq timer is armed for a delay.
    arming: Option<LoadedObject>,
    /// Whether timer descriptors were seen to expire in softirq context.
    pub(crate) has_soft_timers: bool,
    pub(crate) worker: Option<LoadedObject>,
    external: Option<LoadedObject>,
    pub(crate) refused: Vec<(&'static str, ObjectRefused)>,
    statistics: Statistics,
    pub(crate) stamps: Stamps,
}

/// How large the board is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) nr_cpus: usize,
    pub(crate) nr_slots: usize,
}

impl Programs {
    /// Loads what `services` need and the kernel takes; `Err` when even the
    /// first object is refused.
    pub(crate) fn load(
        extent: Extent,
        services: &[Service],
        stamps: Stamps,
    ) -> Result<Self, ObjectRefused> {
        let sizes = [
            ("cpus", extent.nr_cpus),
            ("slots", extent.nr_slots),
            ("owners", extent.nr_cpus * LINES_PER_CPU),
        ];
        let waking_is_stamped = u32::from(stamps.has(Stage::Waking)).to_ne_bytes();
        let chain = objects::CHAIN.load(&[], &sizes, |open| {
            objects::CHAIN.set_input(open, "waking_is_stamped", &waking_is_stamped)
        })?;
        let mut all = Self {
            chain,
            irq: None,
            raise: None,
            deferred: None,
            arming: None,
            has_soft_timers: false,
            worker: None,
            external: None,
            refused: Vec::new(),
            statistics: Statistics::default(),
            stamps,
        };
        if all.stamps.has(Stage::Irq) {
            all.irq = all.load_optional(objects::IRQ, extent);
        }
        let wants_worker = services.contains(&Service::Worker);
        if wants_worker || services.contains(&Service::Softirq) {
            if all.stamps.need_raise() {
                all.raise = all.load_optional(objects::RAISE, extent);
            }
            match all.load_deferred(extent) {
                Ok((deferred, arming)) => (all.deferred, all.arming) = (Some(deferred), arming),
                Err(refused) => all.refused.push((objects::DEFERRED.name, refused)),
            }
        }
        if wants_worker {
            match all.load_worker(extent) {
                Ok(worker) => all.worker = Some(worker),
                Err(refused) => all.refused.push((objects::WORKER.name, refused)),
            }
        }
        Ok(all)
    }

    fn load_optional(&mut self, source: ObjectFile, extent: Extent) -> Option<LoadedObject> {
        match self.load_shared(source, extent, |_| Ok(())) {
            Ok(loaded) => Some(loaded),
            Err(refused) => {
                self.refused.push((source.name, refused));
                None
            }
        }
    }

    fn load_shared(
        &self,
        source: ObjectFile,
        extent: Extent,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
    ) -> Result<LoadedObject, ObjectRefused> {
        let (cpus, slots) = (self.chain.map("cpus")?, self.chain.map("slots")?);
        let shared = [("cpus", cpus.as_fd()), ("slots", slots.as_fd())];
        let sizes = [
            ("deferrals", extent.nr_cpus),
            ("rings", extent.nr_cpus * LINES_PER_CPU),
            ("works", extent.nr_cpus),
        ];
        source.load(&shared, &sizes, prepare)
    }

    /// The work item, by either of the two ways to name its callback, tried
    /// once without effect. `Err`: why the first way is refused.
    fn load_worker(&self, extent: Extent) -> Result<LoadedObject, ObjectRefused> {
        let load = |source: ObjectFile| {
            let loaded = self.load_shared(source, extent, |_| Ok(()))?;
            prepare_work(&loaded, 0, NO_LINE as usize, false).map(|()| loaded)
        };
        load(objects::WORKER)
            .or_else(|refused| load(objects::WORKER_IMPLICIT).map_err(|_: ObjectRefused| refused))
    }

    /// The softirq timer, absolute and pinned where the kernel can, tried
    /// once without effect.
    fn load_deferred(
        &self,
        extent: Extent,
    ) -> Result<(LoadedObject, Option<LoadedObject>), ObjectRefused> {
        let load = |plain: bool| {
            let loaded = self.load_shared(objects::DEFERRED, extent, |open| {
                if plain {
                    objects::DEFERRED.set_input(open, "timer_flags", &0_u32.to_ne_bytes())
                } else {
                    Ok(())
                }
            })?;
            set_deferral(&loaded, &Deferral::stopped())?;
            loaded.call_with("start_deferral", &StartArgs { index: 0 })?;
            Ok(loaded)
        };
        load(false)
            .map(|loaded| (loaded, None))
            .or_else(|_: ObjectRefused| {
                let arming = self.load_shared(objects::ARMING, extent, |_| Ok(()))?;
                Ok((load(true)?, Some(arming)))
            })
    }

    /// Whether `service` can be measured with what was loaded.
    pub(crate) fn gives(&self, service: Service) -> bool {
        match service {
            Service::Irq => self.irq.is_some(),
            Service::Softirq => self.deferred.is_some() || self.has_soft_timers,
            Service::Worker => self.worker.is_some() && self.gives(Service::Softirq),
            Service::Fifo(_)
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
            | Service::Traced(_) => true,
        }
    }

    /// Why `service` cannot be measured.
    pub(crate) fn reason_against(&self, service: Service) -> String {
        let name = match service {
            Service::Irq => objects::IRQ.name,
            Service::Worker if self.worker.is_none() => objects::WORKER.name,
            Service::Softirq
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
            | Service::Traced(_) => objects::DEFERRED.name,
        };
        let reason = self
            .refusal_of(name)
            .map_or("not tried", |refused| &refused.reason);
        match (service, self.refusal_of(SOFT_TIMERS)) {
            (Service::Softirq, Some(other)) => format!("{reason}; {}", other.reason),
            _ => reason.into(),
        }
    }

    /// Why an object was refused, if it was.
    pub(crate) fn refusal_of(&self, name: &str) -> Option<&ObjectRefused> {
        self.refused
            .iter()
            .find(|(refused, _)| *refused == name)
            .map(|(_, refused)| refused)
    }

    /// Adds what stamps the handler of a device's interrupt `irq` and the threads
    /// that it may run in, for a thread that waits on `cpu`; instead of what
    /// stamps the timer's.
    pub(crate) fn load_external(&mut self, extent: Extent, irq: u32, handlers: &[Tid], cpu: Cpu) {
        self.irq = None;
        let mut source = Interrupt {
            irq,
            cpu: cpu.0,
            ..Interrupt::default()
        };
        for (thread, tid) in source.threads.iter_mut().zip(handlers) {
            *thread = tid.0;
        }
        let loaded = self.load_shared(objects::EXTERNAL, extent, |open| {
            objects::EXTERNAL.set_input(open, "source", &source.to_bytes())
        });
        match loaded {
            Ok(loaded) => self.external = Some(loaded),
            Err(refused) => self.refused.push((objects::EXTERNAL.name, refused)),
        }
    }

    /// Whether stage `irq` is stamped.
    pub(crate) fn has_irq(&self) -> bool {
        self.stamps.has(Stage::Irq) && (self.irq.is_some() || self.external.is_some())
    }

    /// Where the softirq timer is refused, tries on `cpu` whether timer
    /// descriptors serve instead. The programs must be attached and `board`,
    /// which is theirs, not in use.
    pub(crate) fn try_soft_timers(&mut self, cpu: Cpu, board: &Board) {
        if self.refusal_of(objects::DEFERRED.name).is_none()
            || self.refusal_of(objects::RAISE.name).is_some()
        {
            return;
        }
        match soft::try_on(cpu, board) {
            Ok(()) => self.has_soft_timers = true,
            Err(err) => {
                let reason = err.to_string();
                self.refused.push((SOFT_TIMERS, ObjectRefused { reason }));
            }
        }
    }

    /// Lets timer descriptors be learnt as long as the result lives, where they
    /// serve.
    pub(crate) fn learn_timers(
        &self,
        extent: Extent,
    ) -> Result<Option<LoadedObject>, ObjectRefused> {
        if !self.has_soft_timers {
            return Ok(None);
        }
        let mut learning = self.load_shared(objects::LEARNING, extent, |_| Ok(()))?;
        learning.attach()?;
        Ok(Some(learning))
    }

    /// What serves the deferred route here.
    pub(crate) fn deferral(&self) -> DeferredBy {
        if self.has_soft_timers {
            DeferredBy::Descriptor
        } else {
            DeferredBy::Callback
        }
    }

    /// Hooks the programs to their tracepoints.
    pub(crate) fn attach(&mut self) -> Result<(), ObjectRefused> {
        let stamps = self.stamps;
        if let Some(external) = &mut self.external {
            let mut wanted = vec!["on_irq_handler_entry"];
            wanted.extend(
                stamps
                    .has(Stage::IrqThread)
                    .then_some("on_irq_thread_switch"),
            );
            if stamps.has(Stage::Irq) || wanted.len() > 1 {
                external.attach_some(&wanted)?;
            }
        }
        // The softirq of a timer descriptor has no other program.
        let is_refused = self.refusal_of(objects::DEFERRED.name).is_some();
        let wanted = [
            (
                "on_hrtimer_expire_entry",
                self.external.is_none() && (stamps.need_expire() || is_refused),
            ),
            ("on_sched_waking", stamps.has(Stage::Waking)),
            ("on_sched_switch", stamps.has(Stage::Running)),
        ];
        let wanted = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted);
        let wanted: Vec<&str> = wanted.map(|(name, _)| name).collect();
        self.chain.attach_some(&wanted)?;
        let optional = [
            &mut self.irq,
            &mut self.raise,
            &mut self.arming,
            &mut self.worker,
        ];
        for object in optional.into_iter().flatten() {
            object.attach()?;
        }
        Ok(())
    }
}
