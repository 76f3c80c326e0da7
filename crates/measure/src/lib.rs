//! The probes: how late the operating system runs code, stage by stage.

pub mod host;
