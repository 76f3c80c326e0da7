//! The kernel's events that tell of latency, as Windows 7 and later write them
//! (classes `PerfInfo`, `Thread_V2`, `Image`, `Process`, `PageFault` and `StackWalk`
//! of the kernel's MOF).

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
/// `KTHREAD_STATE`, of a thread that could run: ready, standby, deferred ready.
const READY: [u8; 3] = [1, 3, 7];

/// Which handler ran.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum RoutineSort {
    /// An interrupt service routine.
    Isr,
    /// A deferred procedure call.
    Dpc,
    /// One that a timer queued.
    TimerDpc,
    /// One that a thread of real-time priority may run.
    ThreadedDpc,
}

/// What is said of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessNote {
    /// Its number.
    pub id: u32,
    /// The name of its image, as `svchost.exe`.
    pub name: String,
}

/// What is said of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadNote {
    /// Its number.
    pub id: u32,
    /// The number of its process.
    pub process: u32,
}

/// What an event says of an image.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImageChange {
    /// It was put into memory just then.
    Loaded,
    /// It was taken out of memory just then.
    Unloaded,
    /// It is there.
    Present,
}

/// What an event of the kernel says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KernelEvent {
    /// A handler ended; the event's time is its end.
    Handler {
        /// Which sort.
        sort: RoutineSort,
        /// When it began, in the trace's clock.
        begun: u64,
        /// Its address.
        routine: u64,
        /// The interrupt's vector, of an ISR.
        vector: Option<u16>,
    },
    /// A CPU went from one thread to another.
    Switch {
        /// Who runs now.
        to: u32,
        /// Who ran.
        from: u32,
        /// The priority of the one that runs now, 0 to 31.
        priority: u8,
        /// That of the one that ran, where it is told.
        left: Option<u8>,
        /// Whether the one that ran could have gone on.
        preempts: bool,
    },
    /// A thread became ready to run.
    Ready {
        /// Which.
        thread: u32,
    },
    /// A page was read from a disk; the event's time is its end.
    HardFault {
        /// When it began, in the trace's clock.
        begun: u64,
        /// The thread that waited.
        thread: u32,
    },
    /// An image is, or was, in memory there.
    Image {
        /// What the event says of it.
        change: ImageChange,
        /// Its first address.
        base: u64,
        /// How long it is, bytes.
        size: u64,
        /// The path of its file.
        path: String,
    },
    /// A process began, or is there.
    Process {
        /// Which.
        process: ProcessNote,
        /// Whether it began just then.
        is_new: bool,
    },
    /// A thread began, or is there.
    Thread {
        /// Which.
        thread: ThreadNote,
        /// Whether it began just then.
        is_new: bool,
    },
    /// A thread ended.
    ThreadEnd(ThreadNote),
    /// What a CPU was at when it was looked at.
    Sample {
        /// The address of what it ran.
        address: u64,
        /// Which thread.
        thread: u32,
        /// Whether the thread was held up by a DPC then.
        in_dpc: bool,
        /// Whether it was held up by an ISR.
        in_isr: bool,
    },
    /// What called what, for an event before.
    Stack {
        /// When that event was written, in the trace's clock.
        of: u64,
        /// The thread that wrote it.
        thread: u32,
        /// Addresses, the innermost first.
        frames: Vec<u64>,
    },
    /// Switches that are told in a form of their own, which is not read here.
    SwitchBatch,
}

/// What became of an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decoded {
    /// It was read.
    Known(KernelEvent),
    /// It should be one of these and is too short for it, or of a version
    /// before Windows 7.
    Unreadable,
    /// It tells of something else.
    Other,
}

impl Decoded {
    /// What was read; what could not be is counted.
    pub(crate) fn known(self, unreadable: &mut u64) -> Option<KernelEvent> {
        *unreadable += u64::from(self == Self::Unreadable);
        match self {
            Self::Known(told) => Some(told),
            Self::Unreadable | Self::Other => None,
        }
    }
}

/// What `event` says, if it is one of those.
pub fn decode(event: &TraceEvent<'_>) -> Decoded {
    let EventName::Kernel { group, opcode } = event.name else {
        return Decoded::Other;
    };
    let told = match (group, opcode) {
        (PERF_INFO, 50 | 67) => handler(event, RoutineSort::Isr),
        (PERF_INFO, 66) => handler(event, RoutineSort::ThreadedDpc),
        (PERF_INFO, 68) => handler(event, RoutineSort::Dpc),
        (PERF_INFO, 69) => handler(event, RoutineSort::TimerDpc),
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
    told.map_or(Decoded::Unreadable, Decoded::Known)
}

fn handler(event: &TraceEvent<'_>, sort: RoutineSort) -> Option<KernelEvent> {
    let (bytes, pointer) = (event.payload, event.pointers.bytes());
    if event.version < 2 {
        return None;
    }
    Some(KernelEvent::Handler {
        sort,
        begun: u64_at(bytes, 0)?,
        routine: pointer_at(bytes, 8, event.pointers)?,
        vector: match sort {
            RoutineSort::Isr => Some(u16_at(bytes, 8 + pointer + 1)?),
            RoutineSort::Dpc | RoutineSort::TimerDpc | RoutineSort::ThreadedDpc => None,
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
            .map_while(|at| pointer_at(event.payload, at, width))
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

/// Where the path of an image is: before it are two pointers (where, how long),
/// four numbers, a third pointer and four numbers more.
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

/// How long the user's name (a `TOKEN_USER` and a SID) is: 4 bytes where there
/// is none.
fn user_size(bytes: &[u8], at: usize, pointer: usize) -> Option<usize> {
    if u32_at(bytes, at)? == 0 {
        return Some(4);
    }
    let authorities = u8_at(bytes, at + 2 * pointer + 1)?;
    Some(2 * pointer + 8 + 4 * usize::from(authorities))
}
