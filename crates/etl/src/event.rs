//! The header of an event, in all forms that a buffer can hold, and the events
//! of a buffer one by one.

use crate::bytes::{PointerWidth, i64_at, u8_at, u16_at, u32_at};

/// Events begin at multiples of this, bytes.
const ALIGNMENT: usize = 8;
/// In the upper byte of a marker: an event and no padding.
const IS_EVENT: u8 = 0x80;
/// The same of messages of the software tracing preprocessor (WPP).
const IS_MESSAGE: u8 = 0x10;

/// Who defined an event, as bytes of a GUID in the file's order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProviderId(pub [u8; 16]);

/// The kernel's classes by their GUIDs, and the groups that they are in a file: as
/// `PerfInfoGuid` and `EVENT_TRACE_GROUP_PERFINFO` of the Windows SDK.
const CLASSES: [(ProviderId, u8); 6] = [
    // Page faults, processes, threads, what a CPU was at, images, call chains.
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
    /// Of a GUID as it is written.
    pub const fn of_guid(guid: u128) -> Self {
        let mut bytes = guid.to_be_bytes();
        // The first three of its numbers are little-endian.
        let order = [3, 2, 1, 0, 5, 4, 7, 6];
        let mut at = 0;
        while at < order.len() {
            bytes[at] = guid.to_be_bytes()[order[at]];
            at += 1;
        }
        Self(bytes)
    }
}

/// What an event is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EventName {
    /// One of the kernel's.
    Kernel {
        /// The group, as 15 for `PerfInfo`.
        group: u8,
        /// The type within it, as 68 for a DPC.
        opcode: u8,
    },
    /// One that a manifest describes.
    Manifest {
        /// Who defined it.
        provider: ProviderId,
        /// Its number.
        id: u16,
    },
    /// One of the older form.
    Classic {
        /// Who defined it.
        provider: ProviderId,
        /// Its type.
        opcode: u8,
    },
    /// A message of the software tracing preprocessor.
    Message,
    /// A form that is not known, by its number.
    Unknown(u8),
}

impl EventName {
    /// Of an event as a session that is read while it runs hands it out: by its class, also
    /// where a file has its group.
    pub fn of_class(provider: ProviderId, opcode: u8) -> Self {
        let known = CLASSES.iter().find(|(class, _)| *class == provider);
        known.map_or(Self::Classic { provider, opcode }, |&(_, group)| {
            Self::Kernel { group, opcode }
        })
    }
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct TraceEvent<'a> {
    /// What it is.
    pub name: EventName,
    /// The version of what it holds.
    pub version: u8,
    /// Where it was written.
    pub cpu: u16,
    /// When, in the trace's clock; [`crate::TraceHeader`] says which.
    pub ticks: i64,
    /// The thread that wrote it, where it says so.
    pub thread: Option<u32>,
    /// How wide the pointers in it are.
    pub pointers: PointerWidth,
    /// What it holds.
    pub payload: &'a [u8],
}

/// What stands at a place of a buffer.
#[derive(Debug)]
pub(crate) enum BufferItem<'a> {
    /// An event, and how many bytes the next one begins after it.
    Event(TraceEvent<'a>, usize),
    /// Nothing more.
    End,
    /// Something that is no event, so that what follows cannot be found.
    Damage,
}

/// What `bytes`, the rest of a buffer of `cpu`, begins with.
pub(crate) fn first<'a>(bytes: &'a [u8], cpu: u16) -> BufferItem<'a> {
    // Less than a marker and a size is padding, as is what was never written.
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
    let at = if form.is_of_kernel() { 4 } else { 0 };
    let size = usize::from(u16_at(bytes, at)?);
    let header = form.header();
    if size < header.max(ALIGNMENT) {
        return None;
    }
    let all = bytes.get(..size)?;
    let provider = || all.get(24..40)?.try_into().ok().map(ProviderId);
    let kernel = || {
        Some(EventName::Kernel {
            group: u8_at(all, 7)?,
            opcode: u8_at(all, 6)?,
        })
    };
    let (name, version, ticks, has_thread) = match form {
        EventForm::System | EventForm::Compact => (kernel()?, u8_at(all, 0)?, i64_at(all, 16)?, 8),
        EventForm::PerfInfo => (kernel()?, u8_at(all, 0)?, i64_at(all, 8)?, 0),
        EventForm::Manifest => {
            let (provider, id) = (provider()?, u16_at(all, 40)?);
            let name = EventName::Manifest { provider, id };
            (name, u8_at(all, 42)?, i64_at(all, 16)?, 8)
        }
        EventForm::Full | EventForm::Instance => {
            let (provider, opcode) = (provider()?, u8_at(all, 4)?);
            let name = EventName::Classic { provider, opcode };
            (name, u8_at(all, 6)?, i64_at(all, 16)?, 8)
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
            at => u32_at(all, at).filter(|thread| *thread != u32::MAX),
        },
        pointers: u8_at(all, 2).map_or(PointerWidth::Eight, pointers),
        payload: all.get(header..)?,
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

    /// Its length in bytes.
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

    /// The kernel's have a version where others have their size.
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
