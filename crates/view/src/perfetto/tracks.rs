//! Tracks of slices and instants.

use std::collections::HashMap;

use laggard_model::Nanos;

use super::wire::{
    DebugAnnotation, EXPLICIT, EventName, FtraceEventBundle, INSTANT, NEEDS_INCREMENTAL_STATE,
    SLICE_BEGIN, SLICE_END, TracePacket, TrackDescriptor, TrackEvent,
};

/// Sequence of the trace's only writer.
const SEQUENCE: u32 = 1;

/// Returns a packet at a time of laggard's clock, which is the default clock of the sequence.
pub(super) fn packet(at: Nanos) -> TracePacket {
    TracePacket {
        timestamp: Some(at.ns()),
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: Some(NEEDS_INCREMENTAL_STATE),
        ..TracePacket::default()
    }
}

/// Returns a packet with the events of a CPU's scheduler, which have their own timestamps.
pub(super) fn scheduled(bundle: FtraceEventBundle) -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        ftrace_events: Some(bundle),
        ..TracePacket::default()
    }
}

/// Detail that the viewer shows for a selected slice.
#[derive(Debug)]
pub(super) struct Annotation(DebugAnnotation);

impl Annotation {
    pub(super) fn number(name: &str, value: u64) -> Self {
        Self(DebugAnnotation {
            name: Some(name.into()),
            uint_value: Some(value),
            ..DebugAnnotation::default()
        })
    }

    pub(super) fn text(name: &str, value: String) -> Self {
        Self(DebugAnnotation {
            name: Some(name.into()),
            string_value: Some(value),
            ..DebugAnnotation::default()
        })
    }
}

/// Tracks in display order, and their events. The events of a track are added in time order.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    descriptors: Vec<TrackDescriptor>,
    /// Encoded, because there are as many as recorded events, and a packet takes ten times the
    /// memory of its bytes.
    events: Vec<u8>,
    names: HashMap<String, u64>,
}

impl Tracks {
    /// Adds a heading for tracks.
    pub(super) fn group(&mut self, name: &str) -> u64 {
        self.describe(None, name)
    }

    /// Adds a track under a heading.
    pub(super) fn track(&mut self, group: u64, name: &str) -> u64 {
        self.describe(Some(group), name)
    }

    fn describe(&mut self, parent_uuid: Option<u64>, name: &str) -> u64 {
        let rank = self.descriptors.len() + 1;
        self.descriptors.push(TrackDescriptor {
            uuid: Some(rank as u64),
            parent_uuid,
            name: Some(name.into()),
            child_ordering: Some(EXPLICIT),
            sibling_order_rank: i32::try_from(rank).ok(),
            ..TrackDescriptor::default()
        });
        rank as u64
    }

    /// Starts a slice, nested in the open slices of the track.
    pub(super) fn begin(&mut self, track: u64, time: Nanos, name: &str, notes: Vec<Annotation>) {
        self.add(SLICE_BEGIN, track, time, Some(name), notes);
    }

    /// Ends the innermost open slice of the track.
    pub(super) fn end(&mut self, track: u64, time: Nanos) {
        self.add(SLICE_END, track, time, None, Vec::new());
    }

    /// Adds an event without a length.
    pub(super) fn instant(&mut self, track: u64, time: Nanos, name: &str, notes: Vec<Annotation>) {
        self.add(INSTANT, track, time, Some(name), notes);
    }

    fn add(
        &mut self,
        kind: i32,
        track: u64,
        at: Nanos,
        named: Option<&str>,
        notes: Vec<Annotation>,
    ) {
        let event = TrackEvent {
            r#type: Some(kind),
            track_uuid: Some(track),
            name_iid: named.map(|name| self.name(name)),
            debug_annotations: notes.into_iter().map(|note| note.0).collect(),
        };
        let packet = TracePacket {
            track_event: Some(event),
            ..packet(at)
        };
        super::write(&mut self.events, packet);
    }

    /// Returns the number of a name. Most names are used repeatedly.
    fn name(&mut self, name: &str) -> u64 {
        if let Some(&iid) = self.names.get(name) {
            return iid;
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name.into(), iid);
        iid
    }

    pub(super) fn names(&self) -> Vec<EventName> {
        let mut names: Vec<EventName> = self
            .names
            .iter()
            .map(|(name, &iid)| EventName {
                iid: Some(iid),
                name: Some(name.clone()),
            })
            .collect();
        names.sort_by_key(|name| name.iid);
        names
    }

    /// Appends the descriptors, then the events.
    pub(super) fn write(self, bytes: &mut Vec<u8>) {
        for descriptor in self.descriptors {
            let packet = TracePacket {
                track_descriptor: Some(descriptor),
                trusted_packet_sequence_id: Some(SEQUENCE),
                ..TracePacket::default()
            };
            super::write(bytes, packet);
        }
        bytes.extend(self.events);
    }
}
