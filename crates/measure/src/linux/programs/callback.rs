//! The callbacks that need no thread: the softirq timer's and the work
//! item's. What they are told, and what they say.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use laggard_bpf::object::{Loaded, Refused};
use laggard_model::{Nanos, Service};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use super::super::board::{LINES_PER_CPU, NO_LINE};
use super::super::doorbell::RING_BYTES;
use super::super::lines::CpuLines;
use super::Programs;
use crate::timeline::Timeline;

/// Most followers of one softirq timer: `FOLLOWERS`.
pub(crate) const MAX_FOLLOWERS: usize = 8;

/// `struct deferral` of `deferred.bpf.c`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Deferral {
    timer: [u64; 2],
    timeline: Timeline,
    armed_ns: u64,
    rounds: [u64; MAX_FOLLOWERS],
    foreign: u64,
    pub(super) runs: u64,
    pub(super) run_ns: u64,
    cpu: u32,
    line: u32,
    turn: u32,
    nr_followers: u32,
    followers: [u32; MAX_FOLLOWERS],
    worker: u32,
    skipping: u32,
    stop: u32,
    late: u32,
    padding: u32,
}

/// `struct work` of `worker.bpf.c`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Work {
    wq: [u64; 2],
    pub(super) runs: u64,
    pub(super) run_ns: u64,
    cpu: u32,
    line: u32,
    is_carried: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Deferral>() == 232, "matches deferred.bpf.c");
const _: () = assert!(size_of::<Work>() == 48, "matches worker.bpf.c");

impl Programs {
    /// A ring buffer for the deferred thread at `place` of `cpu`.
    pub(crate) fn doorbell(&self, cpu: u32, place: usize) -> Result<OwnedFd, Refused> {
        let deferred = self
            .deferred
            .as_ref()
            .ok_or_else(|| Refused::because("there is no softirq timer to ring"))?;
        let refuse = |err: libbpf_rs::Error| Refused::because(err.to_string());
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
        let fd = ring.as_fd().as_raw_fd();
        deferred
            .map("rings")?
            .update(&key.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(refuse)?;
        ring.as_fd()
            .try_clone_to_owned()
            .map_err(|err| Refused::because(err.to_string()))
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

    /// How often the softirq's callbacks of `cpu` ran on another one, since the
    /// start.
    pub(crate) fn foreign(&self, cpu: u32) -> u64 {
        let deferred = self.deferred.as_ref();
        let deferral = deferred.and_then(|deferred| deferral(deferred, cpu));
        deferral.map_or(0, |one| one.foreign)
    }

    /// What the softirq timer of `cpu` is armed for: that expiry, and none
    /// before, is still to be served. `None`: there is no such timer.
    pub(crate) fn armed_for(&self, cpu: u32) -> Option<Nanos> {
        let deferral = deferral(self.deferred.as_ref()?, cpu)?;
        Some(Nanos::from_ns(deferral.armed_ns))
    }
}

impl Deferral {
    /// One that does nothing, to try the callback with.
    pub(super) fn stopped() -> Self {
        Self {
            stop: 1,
            ..Self::new(0, Timeline::default(), None)
        }
    }

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
            late: 0,
            padding: 0,
        }
    }
}

pub(super) fn set_deferral(deferred: &Loaded, value: &Deferral) -> Result<(), Refused> {
    // SAFETY: a plain structure without implicit padding (size checked above).
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<Deferral>())
    };
    deferred
        .map("deferrals")?
        .update(&value.cpu.to_ne_bytes(), bytes, MapFlags::ANY)
        .map_err(|err| Refused::because(err.to_string()))
}

pub(super) fn prepare_work(
    worker: &Loaded,
    cpu: u32,
    place: usize,
    is_carried: bool,
) -> Result<(), Refused> {
    let line = u32::try_from(place).unwrap_or(NO_LINE);
    let args = [cpu, line, u32::from(is_carried)];
    let mut args: Vec<u8> = args.into_iter().flat_map(u32::to_ne_bytes).collect();
    worker.call("prepare_work", &mut args)
}

pub(super) fn deferral(deferred: &Loaded, cpu: u32) -> Option<Deferral> {
    value_of(deferred, "deferrals", cpu)
}

pub(super) fn work(worker: &Loaded, cpu: u32) -> Option<Work> {
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
