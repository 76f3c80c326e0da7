//! The BPF objects of one run, loaded over one board.

use std::os::fd::{AsFd, OwnedFd};

use laggard_model::{Cpu, LossReason, Losses, Nanos, ProgramCost, Service};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};

use super::board::{Board, LINES_PER_CPU};
use super::doorbell::RING_BYTES;
use super::external::External;
use super::lines::{CpuLines, Deferral as DeferredBy};
use super::objects::{self, Loaded, Refused};
use super::soft;
use crate::timeline::Timeline;

/// No such line: `BOARD_NONE`.
const NO_LINE: u32 = 255;
/// Most followers of one softirq timer: `FOLLOWERS`.
pub(crate) const MAX_FOLLOWERS: usize = 8;

/// In [`Programs::refused`], that timer descriptors give no softirq.
const SOFT_TIMERS: &str = "soft timers";

/// `struct deferral` of `deferred.bpf.c`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Deferral {
    timer: [u64; 2],
    timeline: Timeline,
    armed_ns: u64,
    rounds: [u64; MAX_FOLLOWERS],
    foreign: u64,
    unsignalled: u64,
    runs: u64,
    run_ns: u64,
    cpu: u32,
    line: u32,
    turn: u32,
    nr_followers: u32,
    followers: [u32; MAX_FOLLOWERS],
    worker: u32,
    skipping: u32,
    stop: u32,
    padding: u32,
}

/// `SOURCE_THREADS` of `external.bpf.c`.
const SOURCE_THREADS: usize = 4;

/// `struct work` of `worker.bpf.c`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Work {
    wq: [u64; 2],
    runs: u64,
    run_ns: u64,
    cpu: u32,
    line: u32,
    is_carried: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Deferral>() == 232, "matches deferred.bpf.c");
const _: () = assert!(size_of::<Work>() == 48, "matches worker.bpf.c");

/// The objects that this kernel takes. Each that it does not take has left a
/// reason in [`Programs::refused`].
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) chain: Loaded,
    pub(crate) irq: Option<Loaded>,
    pub(crate) raise: Option<Loaded>,
    pub(crate) deferred: Option<Loaded>,
    /// Beside `deferred`, where the softirq timer is armed for a delay.
    arming: Option<Loaded>,
    /// Whether timer descriptors were seen to expire in softirq context.
    pub(crate) has_soft_timers: bool,
    pub(crate) worker: Option<Loaded>,
    external: Option<Loaded>,
    pub(crate) refused: Vec<(&'static str, Refused)>,
    statistics: Statistics,
}

/// Timing of programs by the kernel.
///
/// It costs each run as much as a short program does, and turning it on and
/// off rewrites kernel code, which took up to 1.2 ms where a ms has 125,000
/// instructions. So it is over before anything is recorded.
#[derive(Debug, Default)]
struct Statistics {
    on: Option<(OwnedFd, Nanos)>,
    timed: Nanos,
}

/// From what was seen while `timed` to all of `wall`.
pub(super) fn scale(cost: &mut ProgramCost, wall: Nanos, timed: Nanos) {
    let scaled = |value: u64| {
        let all = u128::from(value) * u128::from(wall.ns()) / u128::from(timed.ns().max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    cost.runs = scaled(cost.runs);
    cost.run_ns = Nanos::from_ns(scaled(cost.run_ns.ns()));
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
    pub(crate) fn load(extent: Extent, services: &[Service]) -> Result<Self, Refused> {
        let sizes = [("cpus", extent.nr_cpus), ("slots", extent.nr_slots)];
        let chain = objects::CHAIN.load(&[], &sizes, |_| Ok(()))?;
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
        };
        all.irq = all.load_optional(objects::IRQ, extent);
        let wants_worker = services.contains(&Service::Worker);
        if wants_worker || services.contains(&Service::Softirq) {
            all.raise = all.load_optional(objects::RAISE, extent);
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

    fn load_optional(&mut self, source: objects::Source, extent: Extent) -> Option<Loaded> {
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
        source: objects::Source,
        extent: Extent,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
    ) -> Result<Loaded, Refused> {
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
    fn load_worker(&self, extent: Extent) -> Result<Loaded, Refused> {
        let load = |source: objects::Source| {
            let loaded = self.load_shared(source, extent, |_| Ok(()))?;
            prepare_work(&loaded, 0, NO_LINE as usize, false).map(|()| loaded)
        };
        load(objects::WORKER)
            .or_else(|refused| load(objects::WORKER_IMPLICIT).map_err(|_: Refused| refused))
    }

    /// The softirq timer, absolute and pinned where the kernel can, tried
    /// once without effect.
    fn load_deferred(&self, extent: Extent) -> Result<(Loaded, Option<Loaded>), Refused> {
        let load = |plain: bool| {
            let loaded = self.load_shared(objects::DEFERRED, extent, |open| {
                for mut map in open.maps_mut() {
                    if plain && map.name().to_string_lossy().ends_with(".rodata") {
                        map.set_initial_value(&0_u32.to_ne_bytes())?;
                    }
                }
                Ok(())
            })?;
            let trial = Deferral {
                stop: 1,
                ..Deferral::new(0, Timeline::default(), None)
            };
            set_deferral(&loaded, &trial)?;
            loaded.call("start_deferral", &mut 0_u32.to_ne_bytes())?;
            Ok(loaded)
        };
        load(false)
            .map(|loaded| (loaded, None))
            .or_else(|_: Refused| {
                let arming = self.load_shared(objects::ARMING, extent, |_| Ok(()))?;
                Ok((load(true)?, Some(arming)))
            })
    }

    /// Whether `service` can be measured with what was loaded.
    pub(crate) fn gives(&self, service: Service) -> bool {
        match service {
            Service::Irq => self.irq.is_some(),
            Service::Softirq => self.deferred.is_some() || self.has_soft_timers,
            Service::Worker => {
                self.worker.is_some() && (self.deferred.is_some() || self.has_soft_timers)
            }
            Service::Fifo(_) | Service::Other | Service::Kthread => true,
        }
    }

    /// Why `service` cannot be measured.
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

    /// Why an object was refused, if it was.
    pub(crate) fn refusal_of(&self, name: &str) -> Option<&Refused> {
        self.refused
            .iter()
            .find(|(refused, _)| *refused == name)
            .map(|(_, refused)| refused)
    }

    /// Adds what stamps the handler of the device's interrupt and its threads,
    /// for a thread that waits on `cpu`; instead of what stamps the timer's.
    pub(crate) fn load_external(&mut self, extent: Extent, external: &External, cpu: Cpu) {
        self.irq = None;
        let tids = external.handler_tids();
        let tids = tids.iter().map(|tid| tid.0).chain(std::iter::repeat(0));
        let source: Vec<u8> = [external.irq(), cpu.0]
            .into_iter()
            .chain(tids.take(SOURCE_THREADS))
            .flat_map(u32::to_ne_bytes)
            .collect();
        let loaded = self.load_shared(objects::EXTERNAL, extent, |open| {
            for mut map in open.maps_mut() {
                if map.name().to_string_lossy().ends_with(".rodata") {
                    map.set_initial_value(&source)?;
                }
            }
            Ok(())
        });
        match loaded {
            Ok(loaded) => self.external = Some(loaded),
            Err(refused) => self.refused.push((objects::EXTERNAL.name, refused)),
        }
    }

    /// Whether stage `irq` is stamped.
    pub(crate) fn has_irq(&self) -> bool {
        self.irq.is_some() || self.external.is_some()
    }

    /// Where the softirq timer is refused, tries on `cpu` whether timer
    /// descriptors serve instead. The programs must be attached and `board`,
    /// which is theirs, not in use.
    pub(crate) fn try_soft_timers(&mut self, cpu: Cpu, board: &Board) {
        if self.refusal_of(objects::DEFERRED.name).is_none() || self.raise.is_none() {
            return;
        }
        match soft::try_on(cpu, board) {
            Ok(()) => self.has_soft_timers = true,
            Err(err) => {
                let reason = err.to_string();
                self.refused.push((SOFT_TIMERS, Refused { reason }));
            }
        }
    }

    /// What serves the deferred route here.
    pub(crate) fn deferral(&self) -> DeferredBy {
        if self.has_soft_timers {
            DeferredBy::Descriptor
        } else {
            DeferredBy::Callback
        }
    }

    /// A ring buffer for the deferred thread at `place` of `cpu`.
    pub(crate) fn doorbell(&self, cpu: u32, place: usize) -> Result<OwnedFd, Refused> {
        let deferred = self.deferred.as_ref().ok_or_else(|| Refused {
            reason: "there is no softirq timer to ring".into(),
        })?;
        let refuse = |err: libbpf_rs::Error| Refused {
            reason: err.to_string(),
        };
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let ring = MapHandle::create(
            MapType::RingBuf,
            Some("doorbell"),
            0,
            0,
            RING_BYTES,
            &options,
        )
        .map_err(refuse)?;
        let key = u32::try_from(cpu as usize * LINES_PER_CPU + place).unwrap_or(u32::MAX);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&ring.as_fd());
        deferred
            .map("rings")?
            .update(&key.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(refuse)?;
        ring.as_fd().try_clone_to_owned().map_err(|err| Refused {
            reason: err.to_string(),
        })
    }

    /// Lets the kernel time the programs until [`Programs::end_timing`].
    pub(crate) fn begin_timing(&mut self, now: Nanos) {
        self.statistics.on = objects::keep_statistics().map(|fd| (fd, now));
    }

    /// Ends the timing of the programs, and returns when that is done.
    pub(crate) fn end_timing(&mut self, now: Nanos) {
        if let Some((fd, since)) = self.statistics.on.take() {
            drop(fd);
            self.statistics.timed += now.saturating_sub(since);
        }
    }

    /// Hooks the programs to their tracepoints.
    pub(crate) fn attach(&mut self) -> Result<(), Refused> {
        self.chain.attach()?;
        let optional = [
            &mut self.irq,
            &mut self.raise,
            &mut self.arming,
            &mut self.worker,
            &mut self.external,
        ];
        for object in optional.into_iter().flatten() {
            object.attach()?;
        }
        Ok(())
    }

    /// Starts the softirq timer of `lines`' CPU; to be called on that CPU.
    pub(crate) fn start_deferral(
        &self,
        lines: &CpuLines,
        timeline: Timeline,
    ) -> Result<(), Refused> {
        let Some(deferred) = &self.deferred else {
            return Ok(());
        };
        if let (Some(worker), Some(place)) = (&self.worker, lines.place_of(Service::Worker)) {
            prepare_work(worker, lines.cpu, place, false)?;
        }
        set_deferral(deferred, &Deferral::new(lines.cpu, timeline, Some(lines)))?;
        deferred.call("start_deferral", &mut lines.cpu.to_ne_bytes())
    }

    /// Readies the work item of `lines`' CPU where a timer descriptor leads to
    /// it.
    pub(crate) fn prepare_carried(&self, lines: &CpuLines) -> Result<(), Refused> {
        match (&self.worker, lines.carried()) {
            (Some(worker), Some(place)) => prepare_work(worker, lines.cpu, place, true),
            _ => Ok(()),
        }
    }

    /// Stops the softirq timer of `cpu`.
    pub(crate) fn stop_deferral(&self, cpu: u32) -> Result<(), Refused> {
        match &self.deferred {
            Some(deferred) => deferred.call("stop_deferral", &mut cpu.to_ne_bytes()),
            None => Ok(()),
        }
    }

    /// What each program and callback cost in `wall`, the time recorded: the
    /// programs by what they cost while the kernel timed them just before,
    /// the callbacks by what they cost in `ran`, the time since they began.
    pub(crate) fn cost(&self, cpus: &[u32], wall: Nanos, ran: Nanos) -> Vec<ProgramCost> {
        let objects = [
            Some(&self.chain),
            self.irq.as_ref(),
            self.raise.as_ref(),
            self.arming.as_ref(),
            self.worker.as_ref(),
            self.external.as_ref(),
        ];
        let mut cost: Vec<ProgramCost> = objects
            .into_iter()
            .flatten()
            .flat_map(Loaded::cost)
            .collect();
        let timed = self.statistics.timed;
        cost.iter_mut().for_each(|one| scale(one, wall, timed));
        let mut callback = |name: &str, values: Vec<(u64, u64)>| {
            let runs = values.iter().map(|(runs, _)| runs).sum();
            if runs > 0 {
                let run_ns = Nanos::from_ns(values.iter().map(|(_, ns)| ns).sum());
                let mut one = ProgramCost {
                    name: name.into(),
                    runs,
                    run_ns,
                };
                scale(&mut one, wall, ran);
                cost.push(one);
            }
        };
        if let Some(deferred) = &self.deferred {
            let each = cpus.iter().filter_map(|&cpu| deferral(deferred, cpu));
            callback(
                "on_deferred",
                each.map(|one| (one.runs, one.run_ns)).collect(),
            );
        }
        if let Some(worker) = &self.worker {
            let each = cpus.iter().filter_map(|&cpu| work(worker, cpu));
            callback("on_work", each.map(|one| (one.runs, one.run_ns)).collect());
        }
        cost
    }

    /// What the softirq's callbacks counted as lost.
    pub(crate) fn count_losses(&self, cpus: &[u32], losses: &mut Losses) {
        let Some(deferred) = &self.deferred else {
            return;
        };
        for one in cpus.iter().filter_map(|&cpu| deferral(deferred, cpu)) {
            losses.add(LossReason::Foreign, one.foreign);
            losses.add(LossReason::SignalFailed, one.unsignalled);
        }
    }
}

impl Deferral {
    fn new(cpu: u32, timeline: Timeline, lines: Option<&CpuLines>) -> Self {
        let place = |place: usize| u32::try_from(place).unwrap_or(NO_LINE);
        let of = |service| {
            lines
                .and_then(|lines| lines.place_of(service))
                .map_or(NO_LINE, place)
        };
        let mut followers = [NO_LINE; MAX_FOLLOWERS];
        let listed = lines.map_or(&[][..], |lines| &lines.followers);
        for (slot, &follower) in followers.iter_mut().zip(listed) {
            *slot = place(follower);
        }
        let worker = of(Service::Worker);
        Self {
            timer: [0; 2],
            timeline,
            armed_ns: 0,
            rounds: [0; MAX_FOLLOWERS],
            foreign: 0,
            unsignalled: 0,
            runs: 0,
            run_ns: 0,
            cpu,
            line: of(Service::Softirq),
            turn: 0,
            nr_followers: place(listed.len()),
            followers,
            worker: followers
                .iter()
                .position(|&one| one == worker && one != NO_LINE)
                .map_or(NO_LINE, place),
            skipping: 1,
            stop: 0,
            padding: 0,
        }
    }
}

fn set_deferral(deferred: &Loaded, value: &Deferral) -> Result<(), Refused> {
    // SAFETY: a plain structure without implicit padding (size checked above).
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<Deferral>())
    };
    deferred
        .map("deferrals")?
        .update(&value.cpu.to_ne_bytes(), bytes, MapFlags::ANY)
        .map_err(|err| Refused {
            reason: err.to_string(),
        })
}

fn prepare_work(worker: &Loaded, cpu: u32, place: usize, is_carried: bool) -> Result<(), Refused> {
    let line = u32::try_from(place).unwrap_or(NO_LINE);
    let args = [cpu, line, u32::from(is_carried)];
    let mut args: Vec<u8> = args.into_iter().flat_map(u32::to_ne_bytes).collect();
    worker.call("prepare_work", &mut args)
}

fn deferral(deferred: &Loaded, cpu: u32) -> Option<Deferral> {
    value_of(deferred, "deferrals", cpu)
}

fn work(worker: &Loaded, cpu: u32) -> Option<Work> {
    value_of(worker, "works", cpu)
}

/// An entry of an array whose values are `T`.
fn value_of<T: Copy + Plain>(object: &Loaded, map: &str, key: u32) -> Option<T> {
    let bytes = object
        .map(map)
        .ok()?
        .lookup(&key.to_ne_bytes(), MapFlags::ANY)
        .ok()??;
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough (checked), and `T` is plain integers. Unaligned,
    //         because a vector of bytes promises no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Structures of integers, for which every bit pattern is valid.
trait Plain {}
impl Plain for Deferral {}
impl Plain for Work {}
