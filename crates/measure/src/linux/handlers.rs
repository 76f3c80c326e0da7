//! Counts of kernel activity outside threads; see `bpf/handlers.bpf.c`.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_bpf::value::Value as _;
use laggard_model::{
    Activity, Address, Cpu, CpuList, HandlerCount, HandlerCounts, HandlerTimes, MissingRuns, Nanos,
    ProgramCost, Vector,
};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::{MapCore as _, MapFlags};

use super::flight::OutsideCounters;
use super::flight::record::activity;
use super::interrupts::HAVE_NUMBERS;
use super::objects::leave_out_absent;
use super::statistics::{cost_of, scaled};
use super::{clock, objects, possible_cpus};
use shared::{
    HANDLER_BUCKETS, HANDLER_FIRST, HANDLER_FUNCTION, HANDLER_POLL, HANDLER_QUARTERS, HandlerCpu,
    HandlerKey,
};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; only the programs use some fields"
)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/handlers.rs"));
}

/// Reason why handlers cannot be counted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HandlersRefused(String);

impl HandlersRefused {
    fn because(reason: &str) -> Self {
        Self(format!(
            "cannot count handlers: {reason}; omit `--handlers`, or run as root on a kernel with BTF"
        ))
    }
}

impl From<ObjectRefused> for HandlersRefused {
    fn from(refused: ObjectRefused) -> Self {
        Self::because(&refused.reason)
    }
}

/// Maximum number of functions that are timed: each has two programs.
const MAX_FUNCTIONS: usize = 16;

/// Counts every interrupt handler, softirq, timer function and work item on some CPUs while it
/// lives.
#[derive(Debug)]
pub struct HandlerCounter {
    loaded: LoadedObject,
    /// Programs of each function that is timed.
    functions: Vec<LoadedObject>,
    cpus: CpuList,
    from: Nanos,
    /// Whether the kernel keeps a reading of the hypervisor's clock.
    has_steal_clock: bool,
    /// Whether that clock has ever advanced.
    has_stolen: bool,
    /// Tracepoints that this kernel lacks.
    absent: Vec<String>,
}

impl HandlerCounter {
    /// Loads the programs without starting to count. The kernel functions named `functions` are
    /// timed inside handlers.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the programs or lacks one of the functions.
    pub fn new(cpus: &CpuList, functions: &[String]) -> Result<Self, HandlersRefused> {
        if functions.len() > MAX_FUNCTIONS {
            return Err(HandlersRefused(format!(
                "at most {MAX_FUNCTIONS} functions can be timed, not {}",
                functions.len()
            )));
        }
        let mut absent = Vec::new();
        let loaded = objects::HANDLERS.load(&[], &[("cpus", possible_cpus())], |open| {
            absent = leave_out_absent(open)?;
            Ok(())
        })?;
        let functions = functions.iter().map(|name| timing(&loaded, name));
        let functions = functions.collect::<Result<_, _>>()?;
        let outside = OutsideCounters::new(cpus);
        Ok(Self {
            functions,
            has_steal_clock: !absent.iter().any(|name| name == "pelt_irq_tp") && has_steal_clock(),
            has_stolen: cpus.as_slice().iter().any(|cpu| outside.has_stolen(*cpu)),
            loaded,
            cpus: cpus.clone(),
            from: Nanos::ZERO,
            absent,
        })
    }

    /// Starts to count.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to attach the programs.
    pub fn start(&mut self) -> Result<(), HandlersRefused> {
        self.loaded.attach()?;
        for function in &mut self.functions {
            function.attach()?;
        }
        self.from = clock::now();
        // Only after all programs are attached, so that every start that is seen has a visible
        // end.
        let map = self.loaded.map("cpus")?;
        for cpu in self.cpus.as_slice() {
            let counted = HandlerCpu {
                recorded: 1,
                from_ns: self.from.ns(),
                ..HandlerCpu::default()
            };
            map.update(&cpu.0.to_ne_bytes(), &counted.to_bytes(), MapFlags::ANY)
                .map_err(|err| HandlersRefused::because(&format!("cannot select CPUs: {err}")))?;
        }
        Ok(())
    }

    /// Returns the tracepoints that this kernel lacks.
    #[must_use]
    pub fn absent(&self) -> &[String] {
        &self.absent
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not return them.
    pub fn read(&self) -> Result<HandlerCounts, HandlersRefused> {
        let refused = |err: libbpf_rs::Error| {
            HandlersRefused::because(&format!("cannot read the counts: {err}"))
        };
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
            let values = values.filter_map(|handler| shared::HandlerCount::from_bytes(handler));
            let values: Vec<_> = values.collect();
            handlers.extend(summed(&key, &values, &states));
        }
        handlers.sort_by_key(|handler| handler.activity);
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

    /// Returns whether the hypervisor reports steal time. Some guest kernels have the clock, but
    /// the hypervisor never advances it.
    fn is_told(&self, states: &[HandlerCpu]) -> bool {
        self.has_stolen || states.iter().any(|state| state.stolen_ns > 0)
    }

    fn states(&self) -> Result<Vec<HandlerCpu>, HandlersRefused> {
        let map = self.loaded.map("cpus")?;
        let mut states = Vec::new();
        for cpu in self.cpus.as_slice() {
            let read = map.lookup(&cpu.0.to_ne_bytes(), MapFlags::ANY);
            let state = read
                .map_err(|err| HandlersRefused::because(&format!("cannot read the CPUs: {err}")))?;
            states.extend(state.and_then(|bytes| HandlerCpu::from_bytes(&bytes)));
        }
        Ok(states)
    }

    /// Estimates the cost of each program from the number of its runs in `counts` and the cost of
    /// a run while the kernel timed programs.
    #[must_use]
    pub fn cost(&self, counts: &HandlerCounts) -> Vec<ProgramCost> {
        let objects = std::iter::once(&self.loaded).chain(&self.functions);
        let timed = objects.flat_map(cost_of);
        timed
            .map(|cost| match runs_of(&cost.name, counts) {
                Some(runs) => scaled(&cost, runs.max(cost.runs), cost.runs),
                None => cost,
            })
            .collect()
    }
}

/// Loads the programs that time the kernel function `name`, with the maps of `handlers`.
fn timing(handlers: &LoadedObject, name: &str) -> Result<LoadedObject, HandlersRefused> {
    let (counts, cpus) = (handlers.map("counts")?, handlers.map("cpus")?);
    let shared = [("counts", counts.as_fd()), ("cpus", cpus.as_fd())];
    let is_known = Cell::new(true);
    let loaded = objects::HANDLERS.load(&shared, &[], |open| {
        for mut program in open.progs_mut() {
            let is_timing = program.name().to_string_lossy().starts_with("on_function_");
            program.set_autoload(is_timing);
            if is_timing {
                let target = program.set_attach_target(0, Some(name.into()));
                is_known.set(target.is_ok());
                target?;
            }
        }
        Ok(())
    });
    loaded.map_err(|refused| {
        if !is_known.get() {
            return HandlersRefused(format!(
                "this kernel has no function `{name}`, or its BTF does not describe it; --functions takes names from /sys/kernel/tracing/available_filter_functions"
            ));
        }
        HandlersRefused(format!(
            "the kernel function `{name}` cannot be timed: {}; --functions needs a kernel that permits fentry programs",
            refused.reason
        ))
    })
}

/// Returns the number of runs of the program with this name, or `None` if its events are not
/// counted.
fn runs_of(program: &str, counts: &HandlerCounts) -> Option<u64> {
    let begins = |with: &str| program.starts_with(with);
    let watches = |activity: Activity| match activity {
        Activity::Irq(_) => begins("on_irq_handler"),
        Activity::Softirq(_) => begins("on_softirq"),
        Activity::Hrtimer(_) => begins("on_hrtimer"),
        Activity::Timer(_) => begins("on_timer"),
        Activity::Work(_) => begins("on_workqueue"),
        Activity::Poll(_) => begins("on_napi_poll"),
        Activity::Vector(_) if HAVE_NUMBERS => begins("on_irq_handler"),
        Activity::Vector(vector) => match vector {
            Vector::LocalTimer => begins("on_local_timer"),
            Vector::Reschedule => begins("on_reschedule"),
            Vector::CallFunctionSingle => begins("on_call_function_single"),
            Vector::CallFunction => begins("on_call_function_e"),
            Vector::IrqWork => begins("on_irq_work"),
            Vector::Thermal => begins("on_thermal"),
        },
        // If there are several functions, the kernel has counted the runs of each.
        Activity::Function(_)
        | Activity::Isr(_)
        | Activity::Dpc(_)
        | Activity::Idle(_)
        | Activity::PageFault => false,
    };
    let watched = counts
        .handlers
        .iter()
        .filter(|count| watches(count.activity));
    let runs: u64 = watched.map(|count| count.count).sum();
    (runs > 0).then_some(runs)
}

/// Returns the runs that are not counted on these CPUs. Their states were read before and after
/// the counts, the second time at `to`.
fn missing(first: &[HandlerCpu], last: &[HandlerCpu], to: Nanos) -> MissingRuns {
    let running: Vec<u64> = first
        .iter()
        .zip(last)
        .flat_map(|(first, last)| running(first, last))
        .map(|since_ns| to.ns().saturating_sub(since_ns))
        .collect();
    let unknown = last.iter().map(|state| state.missing_unknown).sum::<u64>();
    let bounded = last.iter().map(|state| state.missing).sum::<u64>() + running.len() as u64;
    let most = last.iter().map(|state| state.missing_most_ns);
    let most = most.chain(running).max().unwrap_or(0);
    MissingRuns {
        runs: unknown + bounded,
        none_longer_ns: (unknown == 0).then(|| Nanos::from_ns(most)),
    }
}

/// Returns the start times in ns of handlers that ran at both readings of a CPU. Handlers that
/// started or ended in between were short, and their frames may be inconsistent.
fn running(first: &HandlerCpu, last: &HandlerCpu) -> Vec<u64> {
    let depth = (first.depth.min(last.depth) as usize).min(first.frames.len());
    let both = first.frames.iter().zip(&last.frames).take(depth);
    both.filter(|(first, last)| first.since_ns == last.since_ns)
        .map(|(first, _)| first.since_ns)
        .collect()
}

/// Returns whether run queues have a reading of the hypervisor's clock: see steal.bpf.c.
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

/// Sums up `key` over all CPUs. Returns `None` if no run has ended.
fn summed(
    key: &HandlerKey,
    values: &[shared::HandlerCount],
    states: &[HandlerCpu],
) -> Option<HandlerCount> {
    let function = Address(key.function);
    let activity = match key.kind {
        HANDLER_POLL => Activity::Poll(function),
        HANDLER_FUNCTION => Activity::Function(function),
        kind => activity(kind, key.id, function)?,
    };
    let (place, longest) = values
        .iter()
        .enumerate()
        .max_by_key(|(_, count)| count.longest_ns)?;
    let count: u64 = values.iter().map(|count| count.count).sum();
    let times = (0..HANDLER_BUCKETS).filter_map(|bucket| {
        let count_in = |count: &shared::HandlerCount| bucket_of(count, bucket);
        let count = values.iter().map(count_in).sum();
        (count > 0).then(|| HandlerTimes {
            below_ns: end_of(bucket),
            count,
        })
    });
    let settled = values.iter().map(|count| count.longest_own_ns);
    let own = settled.chain(states.iter().flat_map(|state| doubted(state, key)));
    Some(HandlerCount {
        activity,
        count,
        total_ns: Nanos::from_ns(values.iter().map(|count| count.total_ns).sum()),
        longest_ns: Nanos::from_ns(longest.longest_ns),
        longest_at_ns: Nanos::from_ns(longest.longest_at_ns),
        longest_cpu: Cpu(u32::try_from(place).unwrap_or(u32::MAX)),
        // Steal time cannot be distinguished in work items, because they also wait.
        longest_own_ns: Nanos::from_ns(if matches!(activity, Activity::Work(_)) {
            longest.longest_ns
        } else {
            own.max().unwrap_or(0)
        }),
        times: times.collect(),
    })
    .filter(|count| count.count > 0)
}

/// Returns the minimum duration in ns of each unsettled longest run of `key`.
fn doubted(state: &HandlerCpu, key: &HandlerKey) -> impl Iterator<Item = u64> {
    let doubts = state.doubts.iter().filter(move |doubt| {
        let is_it =
            (doubt.key.function, doubt.key.kind, doubt.key.id) == (key.function, key.kind, key.id);
        is_it && doubt.until_ns > 0
    });
    doubts.map(|doubt| {
        let stolen = state.stolen_ns.saturating_sub(doubt.stolen_ns);
        doubt.time_ns.saturating_sub(stolen)
    })
}

fn bucket_of(count: &shared::HandlerCount, bucket: u32) -> u64 {
    let octave = count.octaves.get((bucket / HANDLER_QUARTERS) as usize);
    let quarter_count =
        octave.and_then(|octave| octave.quarters.get((bucket % HANDLER_QUARTERS) as usize));
    quarter_count.map_or(0, |&count| u64::from(count))
}

/// Returns the upper end of a bucket. The last bucket is open.
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

    /// Returns the state of a CPU with handlers that started at these times.
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

    /// The end of a softirq that runs during the last second of a recording may be outside it.
    #[test]
    fn handler_that_runs_at_the_end_is_missing_with_a_bounded_duration() {
        let to = Nanos::from_us(9);
        let long = at_work(&[2_000, 7_000]);
        let other = at_work(&[2_000, 8_000]);

        let missing_runs = missing(&[long, at_work(&[])], &[other, at_work(&[8_500])], to);
        let none = missing(&[at_work(&[5_000])], &[at_work(&[])], to);

        assert_eq!(
            (missing_runs.runs, missing_runs.none_longer_ns),
            (1, Some(Nanos::from_us(7)))
        );
        assert_eq!((none.runs, none.none_longer_ns), (0, Some(Nanos::ZERO)));
    }
}
