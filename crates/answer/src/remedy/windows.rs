//! What to do about a cause of lateness on Windows.

use laggard_model::CauseClass;

use crate::why::CauseRow;

/// What helps; `None` where nothing does that a user could do.
pub(super) fn remedy(row: &CauseRow) -> Option<&'static str> {
    Some(match row.class {
        CauseClass::Dpc | CauseClass::Interrupt => {
            "Update the driver that is named, or switch off its device while it matters, which does without it then; where it \
             is one of Windows' own that runs others' work (ntoskrnl.exe, ndis.sys, storport.sys, Wdf01000.sys), find whose \
             in a trace of the system's own."
        }
        CauseClass::PreemptionOff | CauseClass::InterruptsOff => {
            "Keep this thread off the CPU (`start /affinity`), so that it runs on another: code at a raised level lets nobody \
             else run, whatever its priority."
        }
        CauseClass::HigherPriority => {
            "Keep the thread off the CPU (`start /affinity`), or run the application above its priority (MMCSS `Pro Audio`, or \
             the REALTIME class), if what it does may wait for the application."
        }
        CauseClass::Equal => {
            "Run the application at a priority above this thread's, for among equals it waits for its turn: the others wait \
             then, and starve if it never sleeps."
        }
        CauseClass::ReturnToUser => {
            "Lock the application's memory (`VirtualLock`) and touch all of it before it matters; what is locked is there for \
             nobody else."
        }
        CauseClass::IdleExit
        | CauseClass::Stolen
        | CauseClass::Stall
        | CauseClass::Softirq
        | CauseClass::GroupWeight
        | CauseClass::Throttled
        | CauseClass::RtThrottled
        | CauseClass::FairServer
        | CauseClass::DeadlineThrottled
        | CauseClass::Migration
        | CauseClass::ContextSwitch
        | CauseClass::OwnPath
        | CauseClass::OwnWork
        | CauseClass::Overrun
        | CauseClass::SystemCall
        | CauseClass::PageFault
        | CauseClass::Lock
        | CauseClass::KernelLock
        | CauseClass::Blocked
        | CauseClass::Wait
        | CauseClass::Frozen
        | CauseClass::Stopped
        | CauseClass::Unexplained => return None,
    })
}
