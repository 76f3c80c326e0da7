//! The BPF objects of one run, loaded over one board.

use std::os::fd::{AsFd, OwnedFd};

use laggard_model::{LossReason, Losses, Nanos, ProgramCost, Service};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};

use super::board::LINES_PER_CPU;
use super::doorbell::RING_BYTES;
use super::lines::CpuLines;
use super::objects::{self, Loaded, Refused};
use crate::timeline::Timeline;

/// No such line: `BOARD_NONE`.
const NO_LINE: u32 = 255;
/// Most followers of one softirq timer: `FOLLOWERS`.
pub(crate) const MAX_FOLLOWERS: usize = 8;

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

/// `struct work` of `worker.bpf.c`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Work {
    wq: [u64; 2],
    runs: u64,
    run_ns: u64,
    cpu: u32,
    line: u32,
}

const _: () = assert!(size_of::<Deferral>() == 232, "matches deferred.bpf.c");
const _: () = assert!(size_of::<Work>() == 40, "matches worker.bpf.c");

/// The objects that this kernel takes. Each that it does not take has left a
/// reason in [`Programs::refused`].
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) chain: Loaded,
    pub(crate) irq: Option<Loaded>,
    pub(crate) raise: Option<Loaded>,
    pub(crate) deferred: Option<Loaded>,
    pub(crate) worker: Option<Loaded>,
    pub(crate) refused: Vec<(&'static str, Refused)>,
    statistics: Statistics,
}

/// Timing of programs by the kernel, which costs each run as much as a short
/// program does, so it is on for a part of the time only.
#[derive(Debug, Default)]
struct Statistics {
    on: Option<(OwnedFd, Nanos)>,
    timed: Nanos,
    began: Option<Nanos>,
}

/// The kernel times programs for so long ...
const TIMED: Nanos = Nanos::from_secs(2);
/// ... at the beginning of every so long.
const TIMED_EVERY: Nanos = Nanos::from_secs(60);

impl Statistics {
    fn turn(&mut self, now: Nanos) {
        let began = *self.began.get_or_insert(now);
        let wanted = now.saturating_sub(began).ns() % TIMED_EVERY.ns() < TIMED.ns();
        match (&self.on, wanted) {
            (None, true) => self.on = objects::keep_statistics().map(|fd| (fd, now)),
            (Some((_, since)), false) => {
                self.timed += now.saturating_sub(*since);
                self.on = None;
            }
            _ => {}
        }
    }

    /// How long programs have been timed until `now`.
    fn timed(&self, now: Nanos) -> Nanos {
        let open = self
            .on
            .as_ref()
            .map_or(Nanos::ZERO, |(_, since)| now.saturating_sub(*since));
        self.timed + open
    }
}

/// From what was seen while `timed` to all of `wall`.
fn scale(cost: &mut ProgramCost, wall: Nanos, timed: Nanos) {
    let scaled = |value: u64| {
        let all = u128::from(value) * u128::from(wall.ns()) / u128::from(timed.ns().max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    if timed < wall {
        cost.runs = scaled(cost.runs);
        cost.run_ns = Nanos::from_ns(scaled(cost.run_ns.ns()));
    }
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
            worker: None,
            refused: Vec::new(),
            statistics: Statistics::default(),
        };
        all.irq = all.load_optional(objects::IRQ, extent);
        let wants_worker = services.contains(&Service::Worker);
        if wants_worker || services.contains(&Service::Softirq) {
            all.raise = all.load_optional(objects::RAISE, extent);
            match all.load_deferred(extent) {
                Ok(deferred) => all.deferred = Some(deferred),
                Err(refused) => all.refused.push((objects::DEFERRED.name, refused)),
            }
        }
        if wants_worker && all.deferred.is_some() {
            all.worker = all.load_optional(objects::WORKER, extent);
            if let Some(Err(refused)) = all
                .worker
                .as_ref()
                .map(|worker| prepare_work(worker, 0, NO_LINE))
            {
                all.worker = None;
                all.refused.push((objects::WORKER.name, refused));
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

    /// The softirq timer, absolute and pinned where the kernel can, tried
    /// once without effect.
    fn load_deferred(&self, extent: Extent) -> Result<Loaded, Refused> {
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
        load(false).or_else(|_: Refused| load(true))
    }

    /// Whether `service` can be measured with what was loaded.
    pub(crate) fn gives(&self, service: Service) -> bool {
        match service {
            Service::Irq => self.irq.is_some(),
            Service::Softirq => self.deferred.is_some(),
            Service::Worker => self.worker.is_some(),
            Service::Fifo(_) | Service::Other => true,
        }
    }

    /// Why `service` cannot be measured.
    pub(crate) fn reason_against(&self, service: Service) -> String {
        let name = match service {
            Service::Irq => objects::IRQ.name,
            Service::Worker if self.deferred.is_some() => objects::WORKER.name,
            _ => objects::DEFERRED.name,
        };
        self.refused
            .iter()
            .find(|(refused, _)| *refused == name)
            .map_or_else(|| "not tried".into(), |(_, refused)| refused.reason.clone())
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

    /// Turns the timing of the programs on and off as its share of the time
    /// asks; to be called often.
    pub(crate) fn time_programs(&mut self, now: Nanos) {
        self.statistics.turn(now);
    }

    /// Hooks the programs to their tracepoints.
    pub(crate) fn attach(&mut self) -> Result<(), Refused> {
        self.chain.attach()?;
        for object in [&mut self.irq, &mut self.raise, &mut self.worker]
            .into_iter()
            .flatten()
        {
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
            prepare_work(worker, lines.cpu, u32::try_from(place).unwrap_or(NO_LINE))?;
        }
        set_deferral(deferred, &Deferral::new(lines.cpu, timeline, Some(lines)))?;
        deferred.call("start_deferral", &mut lines.cpu.to_ne_bytes())
    }

    /// Stops the softirq timer of `cpu`.
    pub(crate) fn stop_deferral(&self, cpu: u32) -> Result<(), Refused> {
        match &self.deferred {
            Some(deferred) => deferred.call("stop_deferral", &mut cpu.to_ne_bytes()),
            None => Ok(()),
        }
    }

    /// What each program and callback cost so far, of `wall` measured. The
    /// programs' share is taken from the parts of the time in which the
    /// kernel timed them.
    pub(crate) fn cost(&self, cpus: &[u32], wall: Nanos, now: Nanos) -> Vec<ProgramCost> {
        let objects = [
            Some(&self.chain),
            self.irq.as_ref(),
            self.raise.as_ref(),
            self.worker.as_ref(),
        ];
        let mut cost: Vec<ProgramCost> = objects
            .into_iter()
            .flatten()
            .flat_map(Loaded::cost)
            .collect();
        let timed = self.statistics.timed(now);
        cost.iter_mut().for_each(|one| scale(one, wall, timed));
        let mut callback = |name: &str, values: Vec<(u64, u64)>| {
            let runs = values.iter().map(|(runs, _)| runs).sum();
            if runs > 0 {
                let run_ns = Nanos::from_ns(values.iter().map(|(_, ns)| ns).sum());
                cost.push(ProgramCost {
                    name: name.into(),
                    runs,
                    run_ns,
                });
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

fn prepare_work(worker: &Loaded, cpu: u32, line: u32) -> Result<(), Refused> {
    let mut args = [0; 8];
    args[..4].copy_from_slice(&cpu.to_ne_bytes());
    args[4..].copy_from_slice(&line.to_ne_bytes());
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
