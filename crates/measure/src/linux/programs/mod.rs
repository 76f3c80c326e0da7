//! BPF objects of one run, loaded with one board.

mod callback;
mod cost;
mod enlist;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; only the programs use some fields"
)]
pub(super) mod values {
    include!(concat!(env!("OUT_DIR"), "/programs.rs"));
}

use std::os::fd::AsFd;

use laggard_bpf::object::{LoadedObject, ObjectFile, ObjectRefused};
use laggard_bpf::value::Value as _;
use laggard_model::{Cpu, CpuList, Service, Stage, Tid};
use libbpf_rs::OpenObject;

use super::flight::FlightRings;
use super::interrupts::{CpuInterrupts, HAVE_NUMBERS, timer_without_tracepoint};
use super::lines::Deferral as DeferredBy;
use super::statistics::Statistics;
use super::{objects, soft};
use crate::board::{Board, LINES_PER_CPU, NO_LINE, Stamps};
pub(crate) use callback::{MAX_FOLLOWERS, doorbell_bytes};
use callback::{prepare_work, set_deferral};
pub(crate) use enlist::Enlist;
use values::{Deferral, Interrupt, StartArgs};

/// Key in [`Programs::refused`] for timer descriptors that do not expire in softirq context.
const SOFT_TIMERS: &str = "soft timers";

/// Objects that this kernel accepts. Each refused object has a reason in [`Programs::refused`].
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) chain: LoadedObject,
    pub(crate) irq: Option<LoadedObject>,
    pub(crate) raise: Option<LoadedObject>,
    pub(crate) deferred: Option<LoadedObject>,
    /// Loaded in addition to `deferred` if the softirq timer is armed with a delay.
    arming: Option<LoadedObject>,
    /// Whether timer descriptors expire in softirq context, by a trial.
    pub(crate) has_soft_timers: bool,
    pub(crate) worker: Option<LoadedObject>,
    external: Option<LoadedObject>,
    /// Programs that stamp the stages of `chain` and `irq` in their place, and record the
    /// activity of the CPUs.
    joined: Option<LoadedObject>,
    pub(crate) refused: Vec<(&'static str, ObjectRefused)>,
    statistics: Statistics,
    pub(crate) stamps: Stamps,
}

/// Size of the board.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) nr_cpus: usize,
    pub(crate) nr_slots: usize,
}

impl Programs {
    /// Loads the objects that `services` need and the kernel accepts. `Err` if even the first
    /// object is refused.
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
        let mut programs = Self {
            chain,
            irq: None,
            raise: None,
            deferred: None,
            arming: None,
            has_soft_timers: false,
            worker: None,
            external: None,
            joined: None,
            refused: Vec::new(),
            statistics: Statistics::default(),
            stamps,
        };
        if programs.stamps.has(Stage::Irq) {
            programs.irq = if HAVE_NUMBERS {
                programs.load_numbered_irq(extent)
            } else if let Some(timer) = timer_without_tracepoint() {
                let reason = format!("interrupts of the timer `{timer}` have no tracepoint");
                let refused = ObjectRefused { reason };
                programs.refused.push((objects::IRQ.name, refused));
                None
            } else {
                programs.load_optional(objects::IRQ, extent)
            };
        }
        let wants_worker = services.contains(&Service::Worker);
        if wants_worker || services.contains(&Service::Softirq) {
            if programs.stamps.need_raise() {
                programs.raise = programs.load_optional(objects::RAISE, extent);
            }
            match programs.load_deferred(extent) {
                Ok((deferred, arming)) => {
                    (programs.deferred, programs.arming) = (Some(deferred), arming)
                }
                Err(refused) => programs.refused.push((objects::DEFERRED.name, refused)),
            }
        }
        if wants_worker {
            match programs.load_worker(extent) {
                Ok(worker) => programs.worker = Some(worker),
                Err(refused) => programs.refused.push((objects::WORKER.name, refused)),
            }
        }
        Ok(programs)
    }

    /// Loads the program for stage `irq` on an architecture where the timer's interrupt has a
    /// number.
    fn load_numbered_irq(&mut self, extent: Extent) -> Option<LoadedObject> {
        let timers = CpuInterrupts::of_machine().timer_input();
        let loaded = self.load_shared(objects::IRQ_NUMBERED, extent, |open| {
            objects::IRQ_NUMBERED.set_input(open, "timer_irqs", &timers)
        });
        match loaded {
            Ok(loaded) => Some(loaded),
            Err(refused) => {
                self.refused.push((objects::IRQ.name, refused));
                None
            }
        }
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

    /// Loads the work item with either of the two ways to name its callback and tries it once
    /// without effect. `Err`: the reason against the first way.
    fn load_worker(&self, extent: Extent) -> Result<LoadedObject, ObjectRefused> {
        let load = |source: ObjectFile| {
            let loaded = self.load_shared(source, extent, |_| Ok(()))?;
            prepare_work(&loaded, 0, NO_LINE as usize, false).map(|()| loaded)
        };
        load(objects::WORKER)
            .or_else(|refused| load(objects::WORKER_IMPLICIT).map_err(|_: ObjectRefused| refused))
    }

    /// Loads the softirq timer, absolute and pinned if the kernel supports it, and tries it once
    /// without effect.
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

    /// Returns whether `service` can be measured with the loaded objects.
    pub(crate) fn gives(&self, service: Service) -> bool {
        match service {
            Service::Irq => self.irq.is_some(),
            Service::Softirq => self.deferred.is_some() || self.has_soft_timers,
            Service::Worker => self.worker.is_some() && self.gives(Service::Softirq),
            _ => true,
        }
    }

    /// Returns why `service` cannot be measured.
    pub(crate) fn reason_against(&self, service: Service) -> String {
        let name = match service {
            Service::Irq => objects::IRQ.name,
            Service::Worker if self.worker.is_none() => objects::WORKER.name,
            _ => objects::DEFERRED.name,
        };
        let reason = self
            .refusal_of(name)
            .map_or("not tried", |refused| &refused.reason);
        match (service, self.refusal_of(SOFT_TIMERS)) {
            (Service::Softirq, Some(other)) => format!("{reason}; {}", other.reason),
            _ => reason.into(),
        }
    }

    /// Returns why an object was refused, if it was.
    pub(crate) fn refusal_of(&self, name: &str) -> Option<&ObjectRefused> {
        self.refused
            .iter()
            .find(|(refused, _)| *refused == name)
            .map(|(_, refused)| refused)
    }

    /// Adds the programs that stamp the handler of a device's interrupt `irq` and the threads that
    /// may run it, for a thread that waits on `cpu`. They replace the programs that stamp the
    /// timer.
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

    /// Makes the programs that stamp the stages of threads also record the activity of `cpus`:
    /// one program per tracepoint costs less than two. `None` if the kernel refuses this, or if
    /// some of these stages are not stamped.
    pub(crate) fn join_flight(&mut self, cpus: &CpuList) -> Option<FlightRings> {
        let stages = [Stage::Waking, Stage::Running];
        let are_all = stages.iter().all(|&stage| self.stamps.has(stage))
            && self.stamps.need_expire()
            && self.has_irq();
        if !are_all || HAVE_NUMBERS || self.external.is_some() || self.joined.is_some() {
            return None;
        }
        let (joined, rings) = self.load_joined(cpus).ok()?;
        self.joined = Some(joined);
        self.chain.detach();
        if let Some(irq) = &mut self.irq {
            irq.detach();
        }
        Some(rings)
    }

    fn load_joined(&self, cpus: &CpuList) -> Result<(LoadedObject, FlightRings), ObjectRefused> {
        let maps = [
            ("cpus", self.chain.map("cpus")?),
            ("slots", self.chain.map("slots")?),
            ("owners", self.chain.map("owners")?),
        ];
        let shared = maps.each_ref().map(|(name, map)| (*name, map.as_fd()));
        let mut absent = Vec::new();
        let object = objects::FLIGHT_STAGES;
        let mut joined = object.load(&shared, &FlightRings::sizes(cpus), |open| {
            absent = objects::leave_out_absent(open)?;
            FlightRings::set_size(object, open, cpus)
        })?;
        let rings = FlightRings::open(&joined, cpus, &absent)?;
        joined.attach()?;
        Ok((joined, rings))
    }

    /// Returns whether stage `irq` is stamped.
    pub(crate) fn has_irq(&self) -> bool {
        self.stamps.has(Stage::Irq) && (self.irq.is_some() || self.external.is_some())
    }

    /// If the softirq timer is refused, tries on `cpu` whether timer descriptors can replace it.
    /// The programs must be attached, and `board`, which is theirs, must not be in use.
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

    /// Attaches the program that learns timer descriptors, if they are used, while the result
    /// lives.
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

    /// Returns the mechanism of the deferred route on this machine.
    pub(crate) fn deferral(&self) -> DeferredBy {
        if self.has_soft_timers {
            DeferredBy::Descriptor
        } else {
            DeferredBy::Callback
        }
    }

    /// Attaches the programs to their tracepoints.
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
        // No other program sees the softirq of a timer descriptor.
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
