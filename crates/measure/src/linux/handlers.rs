//! Counting all that the kernel runs beside threads; `bpf/handlers.bpf.c`.

use std::ffi::OsStr;

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_bpf::value::Value as _;
use laggard_model::{
    Activity, Address, Cpu, CpuList, HandlerCount, HandlerCounts, HandlerTimes, MissingRuns, Nanos,
    ProgramCost, Vector,
};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::{MapCore as _, MapFlags};

use super::flight::Outside;
use super::flight::record::activity;
use super::objects::leave_out_absent;
use super::statistics::{cost_of, scaled};
use super::{clock, objects, possible_cpus};
use shared::{HANDLER_BUCKETS, HANDLER_FIRST, HANDLER_QUARTERS, HandlerCpu, HandlerKey};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; the programs use some fields alone"
)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/handlers.rs"));
}

/// Why handlers cannot be counted.
#[derive(Debug, thiserror::Error)]
#[error(
    "handlers cannot be counted: {0}; record without `--handlers`, or as root on a kernel with BTF"
)]
pub struct HandlersRefused(String);

impl From<ObjectRefused> for HandlersRefused {
    fn from(refused: ObjectRefused) -> Self {
        Self(refused.reason)
    }
}

/// Counts every interrupt handler, softirq, timer function and work item of some
/// CPUs, as long as it lives.
#[derive(Debug)]
pub struct HandlerCounter {
    loaded: LoadedObject,
    cpus: CpuList,
    from: Nanos,
    /// Whether the kernel keeps a reading of the hypervisor's clock,
    has_steal_clock: bool,
    /// and whether that has ever moved.
    has_stolen: bool,
    /// Tracepoints that this kernel does not have.
    absent: Vec<String>,
}

impl HandlerCounter {
    /// Loads the programs, which count nothing yet.
    ///
    /// # Errors
    /// When the kernel refuses them.
    pub fn new(cpus: &CpuList) -> Result<Self, HandlersRefused> {
        let mut absent = Vec::new();
        let loaded = objects::HANDLERS.load(&[], &[("cpus", possible_cpus())], |open| {
            absent = leave_out_absent(open)?;
            Ok(())
        })?;
        let outside = Outside::new(cpus);
        Ok(Self {
            has_steal_clock: !absent.iter().any(|one| one == "pelt_irq_tp") && has_steal_clock(),
            has_stolen: cpus.as_slice().iter().any(|cpu| outside.has_stolen(*cpu)),
            loaded,
            cpus: cpus.clone(),
            from: Nanos::ZERO,
            absent,
        })
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// When the kernel refuses to attach the programs.
    pub fn begin(&mut self) -> Result<(), HandlersRefused> {
        self.loaded.attach()?;
        self.from = clock::now();
        // Not before all programs are attached: what begins must be seen to end.
        let map = self.loaded.map("cpus")?;
        for cpu in self.cpus.as_slice() {
            let counted = HandlerCpu {
                recorded: 1,
                from_ns: self.from.ns(),
                ..HandlerCpu::default()
            };
            map.update(&cpu.0.to_ne_bytes(), &counted.to_bytes(), MapFlags::ANY)
                .map_err(|err| HandlersRefused(format!("CPUs cannot be chosen: {err}")))?;
        }
        Ok(())
    }

    /// The tracepoints that this kernel does not have.
    #[must_use]
    pub fn absent(&self) -> &[String] {
        &self.absent
    }

    /// What has been counted so far.
    ///
    /// # Errors
    /// When the kernel does not hand it out.
    pub fn read(&self) -> Result<HandlerCounts, HandlersRefused> {
        let refused =
            |err: libbpf_rs::Error| HandlersRefused(format!("the counts cannot be read: {err}"));
        let counts = self.loaded.map("counts")?;
        let states = self.states()?;
        let mut handlers = Vec::new();
        for bytes in counts.keys() {
            let values = counts.lookup_percpu(&bytes, MapFlags::ANY);
            let values = values.map_err(refused)?.unwrap_or_default();
            let Some(key) = HandlerKey::from_bytes(&bytes) else {
                continue;
            };
            let values = values.iter();
            let values = values.filter_map(|one| shared::HandlerCount::from_bytes(one));
            let values: Vec<_> = values.collect();
            handlers.extend(summed(&key, &values, &states));
        }
        handlers.sort_by_key(|one| one.activity);
        let to = clock::now();
        Ok(HandlerCounts {
            from_ns: self.from,
            to_ns: to,
            cpus: self.cpus.len() as u64,
            stolen_is_seen: self.has_steal_clock && self.is_told(&states),
            handlers,
            missing: missing(&states, &self.states()?, to),
        })
    }

    /// Whether the hypervisor tells what it takes: some kernels of guests have the
    /// clock, and nobody moves it.
    fn is_told(&self, states: &[HandlerCpu]) -> bool {
        self.has_stolen || states.iter().any(|one| one.stolen_ns > 0)
    }

    /// What each CPU is at.
    fn states(&self) -> Result<Vec<HandlerCpu>, HandlersRefused> {
        let map = self.loaded.map("cpus")?;
        let mut states = Vec::new();
        for cpu in self.cpus.as_slice() {
            let read = map.lookup(&cpu.0.to_ne_bytes(), MapFlags::ANY);
            let state =
                read.map_err(|err| HandlersRefused(format!("the CPUs cannot be read: {err}")))?;
            states.extend(state.and_then(|bytes| HandlerCpu::from_bytes(&bytes)));
        }
        Ok(states)
    }

    /// What each program has cost, `counts` being all that was counted: by what a
    /// run cost while the kernel timed programs.
    #[must_use]
    pub fn cost(&self, counts: &HandlerCounts) -> Vec<ProgramCost> {
        let timed = cost_of(&self.loaded).into_iter();
        timed
            .map(|one| match runs_of(&one.name, counts) {
                Some(runs) => scaled(&one, runs.max(one.runs), one.runs),
                None => one,
            })
            .collect()
    }
}

/// How often the program of this name has run; `None`: what it watches is not
/// counted.
fn runs_of(program: &str, counts: &HandlerCounts) -> Option<u64> {
    let begins = |with: &str| program.starts_with(with);
    let watches = |activity: Activity| match activity {
        Activity::Irq(_) => begins("on_irq_handler"),
        Activity::Softirq(_) => begins("on_softirq"),
        Activity::Hrtimer(_) => begins("on_hrtimer"),
        Activity::Timer(_) => begins("on_timer"),
        Activity::Work(_) => begins("on_workqueue"),
        Activity::Vector(vector) => match vector {
            Vector::LocalTimer => begins("on_local_timer"),
            Vector::Reschedule => begins("on_reschedule"),
            Vector::CallFunctionSingle => begins("on_call_function_single"),
            Vector::CallFunction => begins("on_call_function_e"),
            Vector::IrqWork => begins("on_irq_work"),
            Vector::Thermal => begins("on_thermal"),
        },
        Activity::Isr(_) | Activity::Dpc(_) | Activity::Idle(_) | Activity::PageFault => false,
    };
    let seen = counts.handlers.iter().filter(|one| watches(one.activity));
    let runs: u64 = seen.map(|one| one.count).sum();
    (runs > 0).then_some(runs)
}

/// What is not counted on these CPUs, whose states were read at the beginning and
/// at the end of reading all, at `to`.
fn missing(first: &[HandlerCpu], last: &[HandlerCpu], to: Nanos) -> MissingRuns {
    let running: Vec<u64> = first
        .iter()
        .zip(last)
        .flat_map(|(first, last)| running(first, last))
        .map(|since_ns| to.ns().saturating_sub(since_ns))
        .collect();
    let unknown = last.iter().map(|one| one.missing_unknown).sum::<u64>();
    let bounded = last.iter().map(|one| one.missing).sum::<u64>() + running.len() as u64;
    let most = last.iter().map(|one| one.missing_most_ns);
    let most = most.chain(running).max().unwrap_or(0);
    MissingRuns {
        runs: unknown + bounded,
        none_longer_ns: (unknown == 0).then(|| Nanos::from_ns(most)),
    }
}

/// Since when those run that ran at both readings of a CPU, ns. What began or ended
/// in between was short, and may be half written.
fn running(first: &HandlerCpu, last: &HandlerCpu) -> Vec<u64> {
    let depth = (first.depth.min(last.depth) as usize).min(first.frames.len());
    let both = first.frames.iter().zip(&last.frames).take(depth);
    both.filter(|(first, last)| first.since_ns == last.since_ns)
        .map(|(first, _)| first.since_ns)
        .collect()
}

/// Whether run queues have a reading of the hypervisor's clock: see steal.bpf.c.
fn has_steal_clock() -> bool {
    let Ok(kernel) = Btf::from_vmlinux() else {
        return false;
    };
    let Some(queue) = kernel.type_by_name::<Struct<'_>>("rq") else {
        return false;
    };
    queue
        .iter()
        .any(|member| member.name == Some(OsStr::new("prev_steal_time_rq")))
}

/// The sort of `key` over all CPUs; `None`: none of it has ended.
fn summed(
    key: &HandlerKey,
    values: &[shared::HandlerCount],
    states: &[HandlerCpu],
) -> Option<HandlerCount> {
    let activity = activity(key.kind, key.id, Address(key.function))?;
    let (place, longest) = values
        .iter()
        .enumerate()
        .max_by_key(|(_, one)| one.longest_ns)?;
    let count: u64 = values.iter().map(|one| one.count).sum();
    let times = (0..HANDLER_BUCKETS).filter_map(|bucket| {
        let of_bucket = |one: &shared::HandlerCount| bucket_of(one, bucket);
        let count = values.iter().map(of_bucket).sum();
        (count > 0).then(|| HandlerTimes {
            below_ns: end_of(bucket),
            count,
        })
    });
    let settled = values.iter().map(|one| one.longest_own_ns);
    let own = settled.chain(states.iter().flat_map(|state| doubted(state, key)));
    Some(HandlerCount {
        activity,
        count,
        total_ns: Nanos::from_ns(values.iter().map(|one| one.total_ns).sum()),
        longest_ns: Nanos::from_ns(longest.longest_ns),
        longest_at_ns: Nanos::from_ns(longest.longest_at_ns),
        longest_cpu: Cpu(u32::try_from(place).unwrap_or(u32::MAX)),
        // Work items are not told apart from what was stolen: they wait besides.
        longest_own_ns: Nanos::from_ns(if matches!(activity, Activity::Work(_)) {
            longest.longest_ns
        } else {
            own.max().unwrap_or(0)
        }),
        times: times.collect(),
    })
    .filter(|one| one.count > 0)
}

/// How long those of `key` took at least that are not settled yet, ns.
fn doubted(state: &HandlerCpu, key: &HandlerKey) -> impl Iterator<Item = u64> {
    let doubts = state.doubts.iter().filter(move |one| {
        let is_it =
            (one.key.function, one.key.kind, one.key.id) == (key.function, key.kind, key.id);
        is_it && one.until_ns > 0
    });
    doubts.map(|one| {
        let stolen = state.stolen_ns.saturating_sub(one.stolen_ns);
        one.time_ns.saturating_sub(stolen)
    })
}

fn bucket_of(count: &shared::HandlerCount, bucket: u32) -> u64 {
    let octave = count.octaves.get((bucket / HANDLER_QUARTERS) as usize);
    let found = octave.and_then(|one| one.quarters.get((bucket % HANDLER_QUARTERS) as usize));
    found.map_or(0, |&count| u64::from(count))
}

/// The end of a bucket; that of the last, which has all that is longer, is the
/// end of time.
fn end_of(bucket: u32) -> Nanos {
    if bucket + 1 >= HANDLER_BUCKETS {
        return Nanos::MAX;
    }
    let (octave, quarter) = (bucket / HANDLER_QUARTERS, bucket % HANDLER_QUARTERS);
    Nanos::from_ns(u64::from(HANDLER_QUARTERS + quarter) << (HANDLER_FIRST + octave) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that had begun, at `since` each.
    fn at_work(since: &[u64]) -> HandlerCpu {
        let mut cpu = HandlerCpu {
            depth: u32::try_from(since.len()).unwrap(),
            ..HandlerCpu::default()
        };
        for (frame, &since_ns) in cpu.frames.iter_mut().zip(since) {
            frame.since_ns = since_ns;
        }
        cpu
    }

    /// A softirq that runs for the last second of a recording has no end in it.
    #[test]
    fn what_still_runs_at_the_end_is_missing_and_no_longer_than_until_then() {
        let to = Nanos::from_us(9);
        let long = at_work(&[2_000, 7_000]);
        let other = at_work(&[2_000, 8_000]);

        let found = missing(&[long, at_work(&[])], &[other, at_work(&[8_500])], to);
        let none = missing(&[at_work(&[5_000])], &[at_work(&[])], to);

        assert_eq!(
            (found.runs, found.none_longer_ns),
            (1, Some(Nanos::from_us(7)))
        );
        assert_eq!((none.runs, none.none_longer_ns), (0, Some(Nanos::ZERO)));
    }
}
