//! System-dependent parts of a session, under the same names on every system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    Awake, CLOCK, FlightRefused, LateBoost, SymbolBook, SymbolSource, can_explain, explains,
    flight, hold_awake, identity, note_competitors, now, open, use_little, usual_cpus,
};
#[cfg(windows)]
pub(crate) use windows::{
    Awake, CLOCK, FlightRefused, LateBoost, SymbolBook, SymbolSource, can_explain, explains,
    flight, hold_awake, identity, note_competitors, now, open, use_little, usual_cpus,
};
