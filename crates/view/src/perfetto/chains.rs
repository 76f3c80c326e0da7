//! Call chains. Each distinct string, frame and chain is written once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use laggard_model::{Address, Cpu, Nanos, Sampler, StackSample, Symbol, Symbols, printable};

use super::tracks::{Annotation, packet};
use super::wire::{
    Callstack, EventName, Frame, INCREMENTAL_STATE_CLEARED, InternedData, InternedString,
    MONOTONIC, Mapping, PerfSample, PerfSampleDefaults, SW_CPU_CLOCK, ThreadDescriptor, Timebase,
    TracePacket, TracePacketDefaults, TrackDescriptor,
};

/// First number of the tracks of threads, apart from other tracks.
const THREADS: u64 = 1 << 40;

/// Chain of one sample in words, innermost first.
#[derive(Debug)]
pub(super) struct Chain(Vec<String>);

impl Chain {
    /// Returns the function that ran.
    pub(super) fn innermost(&self) -> &str {
        self.0.first().map_or("no call chain", String::as_str)
    }

    /// Returns the whole chain as an annotation.
    pub(super) fn note(&self) -> Annotation {
        Annotation::text("stack", self.0.join("\n"))
    }
}

/// Chains of a trace, and their samples.
#[derive(Debug, Default)]
pub(super) struct Chains {
    interned: InternedData,
    names: HashMap<String, u64>,
    modules: HashMap<String, u64>,
    frames: HashMap<(u64, u64, u64), u64>,
    stacks: HashMap<Vec<u64>, u64>,
    /// Processes and threads.
    threads: BTreeSet<(u32, u32)>,
    samples: Vec<TracePacket>,
}

impl Chains {
    /// Adds a sample. Returns its chain in words.
    pub(super) fn add(&mut self, cpu: Cpu, sample: &StackSample, symbols: &Symbols) -> Chain {
        let user = symbols.user.get(&sample.process);
        let kernel = sample.kernel.iter().map(|&at| {
            let symbol = symbols.kernel.get(&at);
            (
                at,
                symbol,
                printable(&symbols.kernel_name(at)).to_string(),
                "kernel",
            )
        });
        let user = sample.user.iter().map(|&at| {
            let symbol = user.and_then(|symbols_of_process| symbols_of_process.get(&at));
            let name = printable(&symbols.user_name(sample.process, at)).to_string();
            (at, symbol, name, "not known")
        });
        let mut ids = Vec::new();
        let mut words = Vec::new();
        for (at, symbol, name, module) in kernel.chain(user) {
            ids.push(self.frame(at, symbol, module));
            words.push(name);
        }
        // Perfetto expects the outermost frame first.
        ids.reverse();
        let callstack_iid = (!ids.is_empty()).then(|| self.stack(ids));
        // The idle threads of all CPUs have the number 0.
        if sample.tid.0 != 0 {
            self.threads.insert((sample.process, sample.tid.0));
        }
        self.samples.push(TracePacket {
            perf_sample: Some(PerfSample {
                cpu: Some(cpu.0),
                pid: Some(sample.process),
                tid: Some(sample.tid.0),
                callstack_iid,
            }),
            ..packet(sample.at_ns)
        });
        Chain(words)
    }

    fn stack(&mut self, frame_ids: Vec<u64>) -> u64 {
        let next = self.stacks.len() as u64 + 1;
        let iid = *self.stacks.entry(frame_ids.clone()).or_insert(next);
        if iid == next {
            self.interned.callstacks.push(Callstack {
                iid: Some(iid),
                frame_ids,
            });
        }
        iid
    }

    fn frame(&mut self, address: Address, symbol: Option<&Symbol>, module: &str) -> u64 {
        let name = symbol.and_then(|symbol| symbol.name.clone());
        let name = name.unwrap_or_else(|| address.to_string());
        let name = self.name(&name);
        let module = symbol
            .and_then(|symbol| symbol.module.as_deref())
            .unwrap_or(module);
        let mapping = self.mapping(module);
        let next = self.frames.len() as u64 + 1;
        let iid = *self
            .frames
            .entry((address.0, name, mapping))
            .or_insert(next);
        if iid == next {
            self.interned.frames.push(Frame {
                iid: Some(iid),
                function_name_id: Some(name),
                mapping_id: Some(mapping),
                rel_pc: Some(address.0),
            });
        }
        iid
    }

    fn name(&mut self, name: &str) -> u64 {
        let next = self.names.len() as u64 + 1;
        let iid = *self.names.entry(name.into()).or_insert(next);
        if iid == next {
            self.interned.function_names.push(interned(iid, name));
        }
        iid
    }

    /// Adds a module. Perfetto represents modules as mapped files.
    fn mapping(&mut self, path: &str) -> u64 {
        let next = self.modules.len() as u64 + 1;
        let iid = *self.modules.entry(path.into()).or_insert(next);
        if iid == next {
            self.interned.mapping_paths.push(interned(iid, path));
            self.interned.build_ids.push(interned(iid, ""));
            self.interned.mappings.push(Mapping {
                iid: Some(iid),
                build_id: Some(iid),
                path_string_ids: vec![iid],
            });
        }
        iid
    }

    /// Returns the first packet of the sequence, with everything that later ones refer to.
    pub(super) fn packet(
        &self,
        rate: Option<(Sampler, Nanos)>,
        event_names: Vec<EventName>,
    ) -> TracePacket {
        let timebase = rate
            .map(super::frequency)
            .map(|(frequency, name)| Timebase {
                frequency: Some(frequency),
                counter: Some(SW_CPU_CLOCK),
                name: Some(name.into()),
            });
        TracePacket {
            interned_data: Some(InternedData {
                event_names,
                ..self.interned.clone()
            }),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(MONOTONIC),
                perf_sample_defaults: Some(PerfSampleDefaults { timebase }),
            }),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            timestamp: None,
            ..packet(Nanos::ZERO)
        }
    }

    /// Returns the threads, with their `names`, and then the samples.
    pub(super) fn samples(
        self,
        names: &BTreeMap<u32, String>,
    ) -> impl Iterator<Item = TracePacket> {
        let described = |track_descriptor| TracePacket {
            track_descriptor: Some(track_descriptor),
            timestamp: None,
            ..packet(Nanos::ZERO)
        };
        let threads = self.threads.into_iter().map(move |(process, tid)| {
            described(TrackDescriptor {
                uuid: Some(THREADS + u64::from(tid)),
                thread: Some(ThreadDescriptor {
                    pid: i32::try_from(process).ok(),
                    tid: Some(i64::from(tid)),
                    thread_name: names.get(&tid).cloned(),
                }),
                ..TrackDescriptor::default()
            })
        });
        threads.chain(self.samples)
    }
}

fn interned(iid: u64, text: &str) -> InternedString {
    InternedString {
        iid: Some(iid),
        str: Some(printable(text).to_string().into()),
    }
}
