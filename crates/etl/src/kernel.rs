//! Kernel events that are relevant for latency, as Windows 7 and later write them
//! (classes `PerfInfo`, `Thread_V2`, `Image`, `Process`, `PageFault` and `StackWalk` of
//! the kernel's MOF).

use schemars::JsonSchema;
use serde::Serialize;

use crate::bytes::{
    PointerWidth, narrow_text_at, pointer_at, u8_at, u16_at, u32_at, u64_at, wide_text_at,
};
use crate::event::{EventName, TraceEvent};

const MEMORY: u8 = 2;
const PROCESS: u8 = 3;
const THREAD: u8 = 5;
const PERF_INFO: u8 = 15;
const IMAGE: u8 = 20;
const STACK_WALK: u8 = 24;
/// `KTHREAD_STATE` of a runnable thread: ready, standby, deferred ready.
const READY: [u8; 3] = [1, 3, 7];

/// Kind of a handler.
#[derive(Clone, Copy, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerKind {
    /// Interrupt service routine.
    Isr,
    /// Deferred procedure call. In rows per driver: all three kinds of DPC.
    Dpc,
    /// DPC that a timer queued.
    TimerDpc,
    /// DPC that a real-time thread may run.
    ThreadedDpc,
}

/// Process of an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessNote {
    pub id: u32,
    /// Name of its image, such as `svchost.exe`.
    pub name: String,
}

/// Thread of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadNote {
    pub id: u32,
    pub process: u32,
}

/// State of an image in an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImageChange {
    /// Loaded at this time.
    Loaded,
    /// Unloaded at this time.
    Unloaded,
    Present,
}

/// Decoded kernel event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KernelEvent {
    /// A handler ended at the time of the event.
    Handler {
        sort: HandlerKind,
        /// Start, in the trace's clock.
        begun: u64,
        /// Address of the routine.
        routine: u64,
        /// Vector of the interrupt, for an ISR.
        vector: Option<u16>,
    },
    /// A context switch.
    Switch {
        /// Thread that runs now.
        to: u32,
        /// Thread that ran.
        from: u32,
        /// Priority of `to`, 0 to 31.
        priority: u8,
        /// Priority of `from`, if present.
        left: Option<u8>,
        /// Whether `from` could have continued.
        preempts: bool,
    },
    /// A thread became ready to run.
    Ready {
        thread: u32,
    },
    /// A page was read from disk; the event's time is the end.
    HardFault {
        /// Start, in the trace's clock.
        begun: u64,
        /// Thread that waited.
        thread: u32,
    },
    /// An image is, or was, in memory.
    Image {
        change: ImageChange,
        /// Start address.
        base: u64,
        /// Length, bytes.
        size: u64,
        path: String,
    },
    /// A process started or exists.
    Process {
        process: ProcessNote,
        /// Whether it started at this time.
        is_new: bool,
    },
    /// A thread started or exists.
    Thread {
        thread: ThreadNote,
        /// Whether it started at this time.
        is_new: bool,
    },
    ThreadEnd(ThreadNote),
    /// Sample of a CPU.
    Sample {
        /// Address of the running code.
        address: u64,
        thread: u32,
        /// Whether a DPC had interrupted the thread.
        in_dpc: bool,
        /// Whether an ISR had interrupted the thread.
        in_isr: bool,
    },
    /// Call chain of an earlier event.
    Stack {
        /// Time of that event, in the trace's clock.
        of: u64,
        /// Thread that wrote it.
        thread: u32,
        /// Addresses, innermost first.
        frames: Vec<u64>,
    },
    /// Switches in a compact form, which is not decoded.
    SwitchBatch,
}

/// Result of decoding an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decoded {
    Known(KernelEvent),
    /// A known event that is too short, or of a version before Windows 7.
    Unreadable,
    /// Another event.
    Other,
}

impl Decoded {
    /// Returns the decoded event, and counts an unreadable one.
    pub(crate) fn known(self, unreadable: &mut u64) -> Option<KernelEvent> {
        *unreadable += u64::from(self == Self::Unreadable);
        match self {
            Self::Known(event) => Some(event),
            Self::Unreadable | Self::Other => None,
        }
    }
}

/// Decodes `event` if it is one of the known ones.
pub fn decode(event: &TraceEvent<'_>) -> Decoded {
    let EventName::Kernel { group, opcode } = event.name else {
        return Decoded::Other;
    };
    let decoded = match (group, opcode) {
        (PERF_INFO, 50 | 67) => handler(event, HandlerKind::Isr),
        (PERF_INFO, 66) => handler(event, HandlerKind::ThreadedDpc),
        (PERF_INFO, 68) => handler(event, HandlerKind::Dpc),
        (PERF_INFO, 69) => handler(event, HandlerKind::TimerDpc),
        (PERF_INFO, 46) => sample(event),
        (THREAD, 36) => switch(event),
        (THREAD, 37) => Some(KernelEvent::SwitchBatch),
        (THREAD, 50) => u32_at(event.payload, 0).map(|thread| KernelEvent::Ready { thread }),
        (THREAD, 1 | 3 | 4) => thread(event).map(|thread| KernelEvent::Thread {
            thread,
            is_new: opcode == 1,
        }),
        (THREAD, 2) => thread(event).map(KernelEvent::ThreadEnd),
        (PROCESS, 1 | 3 | 4) => process(event).map(|process| KernelEvent::Process {
            process,
            is_new: opcode == 1,
        }),
        (PROCESS | IMAGE, 10) => image(event, ImageChange::Loaded),
        (IMAGE, 2) => image(event, ImageChange::Unloaded),
        (IMAGE, 3 | 4) => image(event, ImageChange::Present),
        (MEMORY, 32) => hard_fault(event),
        (STACK_WALK, 32) => stack(event),
        _ => return Decoded::Other,
    };
    decoded.map_or(Decoded::Unreadable, Decoded::Known)
}

fn handler(event: &TraceEvent<'_>, sort: HandlerKind) -> Option<KernelEvent> {
    let (bytes, pointer) = (event.payload, event.pointers.bytes());
    if event.version < 2 {
        return None;
    }
    Some(KernelEvent::Handler {
        sort,
        begun: u64_at(bytes, 0)?,
        routine: pointer_at(bytes, 8, event.pointers)?,
        vector: match sort {
            HandlerKind::Isr => Some(u16_at(bytes, 8 + pointer + 1)?),
            HandlerKind::Dpc | HandlerKind::TimerDpc | HandlerKind::ThreadedDpc => None,
        },
    })
}

fn switch(event: &TraceEvent<'_>) -> Option<KernelEvent> {
    if event.version < 2 {
        return None;
    }
    Some(KernelEvent::Switch {
        to: u32_at(event.payload, 0)?,
        from: u32_at(event.payload, 4)?,
        priority: u8_at(event.payload, 8)?,
        left: u8_at(event.payload, 9),
        preempts: u8_at(event.payload, 14).is_some_and(|state| READY.contains(&state)),
    })
}

fn stack(event: &TraceEvent<'_>) -> Option<KernelEvent> {
    let width = event.pointers;
    let frames = (16..event.payload.len()).step_by(width.bytes());
    Some(KernelEvent::Stack {
        of: u64_at(event.payload, 0)?,
        thread: u32_at(event.payload, 12)?,
        frames: frames
            .map_while(|offset| pointer_at(event.payload, offset, width))
            .collect(),
    })
}

fn sample(event: &TraceEvent<'_>) -> Option<KernelEvent> {
    let pointer = event.pointers.bytes();
    let during = u16_at(event.payload, pointer + 6)?;
    Some(KernelEvent::Sample {
        address: pointer_at(event.payload, 0, event.pointers)?,
        thread: u32_at(event.payload, pointer)?,
        in_dpc: during & 1 != 0,
        in_isr: during & 2 != 0,
    })
}

fn hard_fault(event: &TraceEvent<'_>) -> Option<KernelEvent> {
    Some(KernelEvent::HardFault {
        begun: u64_at(event.payload, 0)?,
        thread: u32_at(event.payload, 16 + 2 * event.pointers.bytes())?,
    })
}

fn thread(event: &TraceEvent<'_>) -> Option<ThreadNote> {
    Some(ThreadNote {
        process: u32_at(event.payload, 0)?,
        id: u32_at(event.payload, 4)?,
    })
}

/// Returns the position of an image's path: after two pointers (address, size), four
/// numbers, a third pointer and four numbers.
const fn path_at(pointers: PointerWidth) -> usize {
    3 * pointers.bytes() + 32
}

fn image(event: &TraceEvent<'_>, change: ImageChange) -> Option<KernelEvent> {
    let (bytes, pointers) = (event.payload, event.pointers);
    if event.version < 2 {
        return None;
    }
    Some(KernelEvent::Image {
        change,
        base: pointer_at(bytes, 0, pointers)?,
        size: pointer_at(bytes, pointers.bytes(), pointers)?,
        path: wide_text_at(bytes, path_at(pointers))?,
    })
}

fn process(event: &TraceEvent<'_>) -> Option<ProcessNote> {
    let (bytes, pointer) = (event.payload, event.pointers.bytes());
    if event.version < 2 {
        return None;
    }
    let mut user_at = pointer + 16;
    if event.version >= 3 {
        user_at += pointer;
    }
    if event.version >= 4 {
        user_at += 4;
    }
    Some(ProcessNote {
        id: u32_at(bytes, pointer)?,
        name: narrow_text_at(bytes, user_at + user_size(bytes, user_at, pointer)?)?,
    })
}

/// Returns the length of the user's identity (a `TOKEN_USER` and a SID): 4 bytes
/// without a user.
fn user_size(bytes: &[u8], offset: usize, pointer: usize) -> Option<usize> {
    if u32_at(bytes, offset)? == 0 {
        return Some(4);
    }
    let authorities = u8_at(bytes, offset + 2 * pointer + 1)?;
    Some(2 * pointer + 8 + 4 * usize::from(authorities))
}
