//! Callbacks of the softirq timer and the work item, which run without a thread, with their
//! parameters and counts.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_model::{Nanos, Service};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use super::super::lines::CpuLines;
use super::Programs;
use super::values::{self, Deferral, PrepareArgs, StartArgs, Work};
use crate::board::{LINES_PER_CPU, NO_LINE, Timeline};

/// Returns the size in bytes of a doorbell's ring, whose data are ignored, and of each of its two
/// position pages: one page, which has 4 to 64 KiB on arm64.
pub(crate) fn doorbell_bytes() -> u32 {
    u32::try_from(laggard_files::page_bytes()).unwrap_or(4096)
}

/// Maximum number of followers of one softirq timer.
pub(crate) const MAX_FOLLOWERS: usize = Deferral::FOLLOWERS_LEN;

impl Programs {
    /// Returns a ring buffer for the deferred thread at `place` of `cpu`.
    pub(crate) fn doorbell(&self, cpu: u32, place: usize) -> Result<OwnedFd, ObjectRefused> {
        let deferred = self
            .deferred
            .as_ref()
            .ok_or_else(|| ObjectRefused::because("there is no softirq timer to start"))?;
        let refuse = |err: libbpf_rs::Error| ObjectRefused::because(err.to_string());
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let ring = MapHandle::create(
            MapType::RingBuf,
            Some("doorbell"),
            0,
            0,
            doorbell_bytes(),
            &options,
        )
        .map_err(refuse)?;
        let key = u32::try_from(cpu as usize * LINES_PER_CPU + place)
            .expect("a board has fewer places than a u32 can number");
        let fd = ring.as_fd().as_raw_fd();
        deferred
            .map("rings")?
            .update(&key.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(refuse)?;
        ring.as_fd()
            .try_clone_to_owned()
            .map_err(|err| ObjectRefused::because(err.to_string()))
    }

    /// Starts the softirq timer of `lines`' CPU; call it on that CPU.
    pub(crate) fn start_deferral(
        &self,
        lines: &CpuLines,
        timeline: Timeline,
    ) -> Result<(), ObjectRefused> {
        let Some(deferred) = &self.deferred else {
            return Ok(());
        };
        if let (Some(worker), Some(place)) = (&self.worker, lines.place_of(Service::Worker)) {
            prepare_work(worker, lines.cpu, place, false)?;
        }
        set_deferral(deferred, &Deferral::new(lines.cpu, timeline, Some(lines)))?;
        let args = StartArgs { index: lines.cpu };
        deferred.call_with("start_deferral", &args).map(|_| ())
    }

    /// Prepares the work item of `lines`' CPU if a timer descriptor starts it.
    pub(crate) fn prepare_carried(&self, lines: &CpuLines) -> Result<(), ObjectRefused> {
        match (&self.worker, lines.carried()) {
            (Some(worker), Some(place)) => prepare_work(worker, lines.cpu, place, true),
            _ => Ok(()),
        }
    }

    /// Stops the softirq timer of `cpu`.
    pub(crate) fn stop_deferral(&self, cpu: u32) -> Result<(), ObjectRefused> {
        match &self.deferred {
            Some(deferred) => deferred
                .call_with("stop_deferral", &StartArgs { index: cpu })
                .map(|_| ()),
            None => Ok(()),
        }
    }

    /// Returns the number of callbacks of `cpu`'s softirq timer that ran on another CPU.
    pub(crate) fn foreign(&self, cpu: u32) -> u64 {
        let deferred = self.deferred.as_ref();
        let deferral = deferred.and_then(|deferred| deferral(deferred, cpu));
        deferral.map_or(0, |deferral| deferral.foreign)
    }

    /// Returns the next expiry of the softirq timer of `cpu`: the first that is not served yet.
    /// `None` if this timer does not exist.
    pub(crate) fn armed_for(&self, cpu: u32) -> Option<Nanos> {
        let deferral = deferral(self.deferred.as_ref()?, cpu)?;
        Some(Nanos::from_ns(deferral.armed_ns))
    }
}

impl Deferral {
    /// Returns an idle deferral, to try the callback.
    pub(super) fn stopped() -> Self {
        Self {
            stop: 1,
            ..Self::new(0, Timeline::default(), None)
        }
    }

    fn new(cpu: u32, timeline: Timeline, lines: Option<&CpuLines>) -> Self {
        let place = |place: usize| u32::try_from(place).expect("a CPU has 16 places");
        let place_of = |service| {
            lines
                .and_then(|lines| lines.place_of(service))
                .map_or(NO_LINE, place)
        };
        let mut followers = [NO_LINE; MAX_FOLLOWERS];
        let listed = lines.map_or(&[][..], |lines| &lines.followers);
        for (slot, &follower) in followers.iter_mut().zip(listed) {
            *slot = place(follower);
        }
        let worker = place_of(Service::Worker);
        let turn = lines
            .and_then(|lines| Some(lines.turn_of(lines.place_of(Service::Softirq)?)))
            .unwrap_or_default();
        let rounds = |count: u64| u32::try_from(count).expect("a turn is one in a u32 of them");
        Self {
            timeline: timeline.into(),
            cpu,
            line: place_of(Service::Softirq),
            nr_followers: place(listed.len()),
            followers,
            stride: rounds(turn.stride),
            others: rounds(turn.first),
            worker: followers
                .iter()
                .position(|&one| one == worker && one != NO_LINE)
                .map_or(NO_LINE, place),
            skipping: 1,
            ..Self::default()
        }
    }
}

impl From<Timeline> for values::Timeline {
    fn from(timeline: Timeline) -> Self {
        let Timeline {
            seed,
            seq,
            base_ns,
            expiry_ns,
            period_us,
            dither,
            place,
            places,
        } = timeline;
        Self {
            seed,
            seq,
            base_ns,
            expiry_ns,
            period_us,
            dither,
            place,
            places,
        }
    }
}

pub(super) fn set_deferral(deferred: &LoadedObject, value: &Deferral) -> Result<(), ObjectRefused> {
    deferred.set_value("deferrals", value.cpu, value)
}

pub(super) fn prepare_work(
    worker: &LoadedObject,
    cpu: u32,
    place: usize,
    is_carried: bool,
) -> Result<(), ObjectRefused> {
    let args = PrepareArgs {
        cpu,
        line: u32::try_from(place).expect("a CPU has 16 places"),
        is_carried: is_carried.into(),
    };
    worker.call_with("prepare_work", &args).map(|_| ())
}

pub(super) fn deferral(deferred: &LoadedObject, cpu: u32) -> Option<Deferral> {
    deferred.value("deferrals", cpu).ok()
}

pub(super) fn work(worker: &LoadedObject, cpu: u32) -> Option<Work> {
    worker.value("works", cpu).ok()
}
