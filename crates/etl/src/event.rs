//! Header of an event, in all forms that a buffer can contain, and iteration over the
//! events of a buffer.

use crate::bytes::{PointerWidth, i64_at, u8_at, u16_at, u32_at};

/// Events start at multiples of this, bytes.
const ALIGNMENT: usize = 8;
/// Upper byte of the marker of an event without padding.
const IS_EVENT: u8 = 0x80;
/// Upper byte of the marker of a message of the software tracing preprocessor (WPP).
const IS_MESSAGE: u8 = 0x10;

/// Provider of an event, as bytes of a GUID in the file's order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProviderId(pub [u8; 16]);

/// GUIDs of the kernel's classes, and their groups in a file, such as `PerfInfoGuid`
/// and `EVENT_TRACE_GROUP_PERFINFO` of the Windows SDK.
const CLASSES: [(ProviderId, u8); 6] = [
    // Page faults, processes, threads, CPU samples, images, call chains.
    (
        ProviderId::of_guid(0x3d6fa8d3_fe05_11d0_9dda_00c04fd7ba7c),
        2,
    ),
    (
        ProviderId::of_guid(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c),
        3,
    ),
    (
        ProviderId::of_guid(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c),
        5,
    ),
    (
        ProviderId::of_guid(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc),
        15,
    ),
    (
        ProviderId::of_guid(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518),
        20,
    ),
    (
        ProviderId::of_guid(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3),
        24,
    ),
];

impl ProviderId {
    /// Creates an ID from a GUID in its written form.
    pub const fn of_guid(guid: u128) -> Self {
        let mut bytes = guid.to_be_bytes();
        // The first three numbers are little-endian.
        let order = [3, 2, 1, 0, 5, 4, 7, 6];
        let mut index = 0;
        while index < order.len() {
            bytes[index] = guid.to_be_bytes()[order[index]];
            index += 1;
        }
        Self(bytes)
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EventName {
    Kernel {
        /// Group, for example 15 for `PerfInfo`.
        group: u8,
        /// Type within the group, for example 68 for a DPC.
        opcode: u8,
    },
    /// Event described by a manifest.
    Manifest { provider: ProviderId, id: u16 },
    /// Event of the older form.
    Classic { provider: ProviderId, opcode: u8 },
    /// Message of the software tracing preprocessor.
    Message,
    /// Unknown form, by its number.
    Unknown(u8),
}

impl EventName {
    /// Creates the kind of an event of a live session, which has the class where a file
    /// has the group.
    pub fn of_class(provider: ProviderId, opcode: u8) -> Self {
        let class = CLASSES.iter().find(|(class, _)| *class == provider);
        class.map_or(Self::Classic { provider, opcode }, |&(_, group)| {
            Self::Kernel { group, opcode }
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TraceEvent<'a> {
    pub name: EventName,
    /// Version of the payload.
    pub version: u8,
    pub cpu: u16,
    /// Timestamp in the trace's clock; see [`crate::TraceHeader`].
    pub ticks: i64,
    /// Thread that wrote the event, if present.
    pub thread: Option<u32>,
    /// Width of the pointers in the payload.
    pub pointers: PointerWidth,
    pub payload: &'a [u8],
}

/// Item at a position of a buffer.
#[derive(Debug)]
pub(crate) enum BufferItem<'a> {
    /// Event, and the distance to the next one, bytes.
    Event(TraceEvent<'a>, usize),
    End,
    /// Invalid item; the items after it cannot be found.
    Damage,
}

/// Returns the first item of `bytes`, the rest of a buffer of `cpu`.
pub(crate) fn first<'a>(bytes: &'a [u8], cpu: u16) -> BufferItem<'a> {
    // Less than a marker and a size is padding, like unwritten bytes.
    let (Some(form), Some(marker)) = (u8_at(bytes, 2), u8_at(bytes, 3)) else {
        return BufferItem::End;
    };
    if bytes.len() < ALIGNMENT || (form == 0xff && marker == 0xff) {
        return BufferItem::End;
    }
    if marker & IS_EVENT == 0 {
        let is_blank = bytes.iter().all(|byte| *byte == 0);
        return if is_blank {
            BufferItem::End
        } else {
            BufferItem::Damage
        };
    }
    let form = if marker & 0x40 == 0 && marker & IS_MESSAGE != 0 {
        EventForm::Message
    } else {
        EventForm::of(form)
    };
    read(bytes, cpu, form).map_or(BufferItem::Damage, |(event, size)| {
        BufferItem::Event(event, size.next_multiple_of(ALIGNMENT))
    })
}

fn read<'a>(bytes: &'a [u8], cpu: u16, form: EventForm) -> Option<(TraceEvent<'a>, usize)> {
    let offset = if form.is_of_kernel() { 4 } else { 0 };
    let size = usize::from(u16_at(bytes, offset)?);
    let header = form.header();
    if size < header.max(ALIGNMENT) {
        return None;
    }
    let event = bytes.get(..size)?;
    let provider = || event.get(24..40)?.try_into().ok().map(ProviderId);
    let kernel = || {
        Some(EventName::Kernel {
            group: u8_at(event, 7)?,
            opcode: u8_at(event, 6)?,
        })
    };
    let (name, version, ticks, has_thread) = match form {
        EventForm::System | EventForm::Compact => {
            (kernel()?, u8_at(event, 0)?, i64_at(event, 16)?, 8)
        }
        EventForm::PerfInfo => (kernel()?, u8_at(event, 0)?, i64_at(event, 8)?, 0),
        EventForm::Manifest => {
            let (provider, id) = (provider()?, u16_at(event, 40)?);
            let name = EventName::Manifest { provider, id };
            (name, u8_at(event, 42)?, i64_at(event, 16)?, 8)
        }
        EventForm::Full | EventForm::Instance => {
            let (provider, opcode) = (provider()?, u8_at(event, 4)?);
            let name = EventName::Classic { provider, opcode };
            (name, u8_at(event, 6)?, i64_at(event, 16)?, 8)
        }
        EventForm::Message => (EventName::Message, 0, 0, 0),
        EventForm::Unknown(form) => (EventName::Unknown(form), 0, 0, 0),
    };
    let event = TraceEvent {
        name,
        version,
        cpu,
        ticks,
        thread: match has_thread {
            0 => None,
            offset => u32_at(event, offset).filter(|thread| *thread != u32::MAX),
        },
        pointers: u8_at(event, 2).map_or(PointerWidth::Eight, pointers),
        payload: event.get(header..)?,
    };
    Some((event, size))
}

/// `TRACE_HEADER_TYPE`, without the width of pointers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EventForm {
    System,
    Compact,
    PerfInfo,
    Full,
    Instance,
    Manifest,
    Message,
    Unknown(u8),
}

impl EventForm {
    const fn of(number: u8) -> Self {
        match number {
            1 | 2 => Self::System,
            3 | 4 => Self::Compact,
            10 | 20 => Self::Full,
            11 | 21 => Self::Instance,
            16 | 17 => Self::PerfInfo,
            18 | 19 => Self::Manifest,
            other => Self::Unknown(other),
        }
    }

    /// Returns the length of the header, bytes.
    const fn header(self) -> usize {
        match self {
            Self::System => 32,
            Self::Compact => 24,
            Self::PerfInfo => 16,
            Self::Full => 48,
            Self::Instance => 72,
            Self::Manifest => 80,
            Self::Message | Self::Unknown(_) => 8,
        }
    }

    /// Returns whether the event has the kernel's form. It has a version in the place of other
    /// forms' size.
    const fn is_of_kernel(self) -> bool {
        matches!(self, Self::System | Self::Compact | Self::PerfInfo)
    }
}

const fn pointers(form: u8) -> PointerWidth {
    match form {
        1 | 3 | 10 | 11 | 16 | 18 => PointerWidth::Four,
        _ => PointerWidth::Eight,
    }
}
