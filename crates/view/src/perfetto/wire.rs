//! Messages of a Perfetto trace that laggard writes. Numbers and names follow
//! `protos/perfetto/trace/` of the Perfetto project.

/// `perfetto.protos.Trace`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

/// `TracePacket`: one of its last seven fields, or a descriptor.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "58")]
    pub(super) timestamp_clock_id: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub(super) trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "66")]
    pub(super) perf_sample: Option<PerfSample>,
    #[prost(message, optional, tag = "1")]
    pub(super) ftrace_events: Option<FtraceEventBundle>,
}

/// `FtraceEventBundle`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
}

/// `FtraceEvent`: one of its last two fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    pub(super) sched_switch: Option<SchedSwitch>,
    #[prost(message, optional, tag = "20")]
    pub(super) sched_waking: Option<SchedWaking>,
}

/// `SchedSwitchFtraceEvent`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    pub(super) prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) next_prio: Option<i32>,
}

/// `SchedWakingFtraceEvent`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedWaking {
    #[prost(string, optional, tag = "1")]
    pub(super) comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prio: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) target_cpu: Option<i32>,
}

/// `TracePacket.SequenceFlags`: earlier interned data is void.
pub(super) const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// `TracePacket.SequenceFlags`: the packet refers to interned data.
pub(super) const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// `TracePacketDefaults`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub(super) timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "12")]
    pub(super) perf_sample_defaults: Option<PerfSampleDefaults>,
}

/// `PerfSampleDefaults`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PerfSampleDefaults {
    #[prost(message, optional, tag = "1")]
    pub(super) timebase: Option<Timebase>,
}

/// `PerfEvents.Timebase`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Timebase {
    #[prost(uint64, optional, tag = "2")]
    pub(super) frequency: Option<u64>,
    #[prost(int32, optional, tag = "4")]
    pub(super) counter: Option<i32>,
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
}

/// `PerfEvents.Counter`.
pub(super) const SW_CPU_CLOCK: i32 = 1;

/// `ClockSnapshot`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) primary_trace_clock: Option<u32>,
}

/// `ClockSnapshot.Clock`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(super) clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

/// `BuiltinClock.BUILTIN_CLOCK_REALTIME`.
pub(super) const REALTIME: u32 = 1;
/// `BuiltinClock.BUILTIN_CLOCK_MONOTONIC`.
pub(super) const MONOTONIC: u32 = 3;
/// `BuiltinClock.BUILTIN_CLOCK_BOOTTIME`.
pub(super) const BOOTTIME: u32 = 6;

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(int32, optional, tag = "11")]
    pub(super) child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub(super) sibling_order_rank: Option<i32>,
}

/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`.
pub(super) const EXPLICIT: i32 = 3;

/// `ThreadDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) thread_name: Option<String>,
}

/// `TrackEvent`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub(super) r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
}

/// `TrackEvent.Type.TYPE_SLICE_BEGIN`.
pub(super) const SLICE_BEGIN: i32 = 1;
/// `TrackEvent.Type.TYPE_SLICE_END`.
pub(super) const SLICE_END: i32 = 2;
/// `TrackEvent.Type.TYPE_INSTANT`.
pub(super) const INSTANT: i32 = 3;

/// `DebugAnnotation`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DebugAnnotation {
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
}

/// `PerfSample`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PerfSample {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) tid: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) callstack_iid: Option<u64>,
}

/// `InternedData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<EventName>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "16")]
    pub(super) build_ids: Vec<InternedString>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
}

/// `EventName`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EventName {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}

/// `InternedString`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedString {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) str: Option<Vec<u8>>,
}

/// `Frame`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Frame {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) function_name_id: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) mapping_id: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) rel_pc: Option<u64>,
}

/// `Callstack`: frames from the outermost to the innermost.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Callstack {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}

/// `Mapping`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Mapping {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) build_id: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path_string_ids: Vec<u64>,
}
