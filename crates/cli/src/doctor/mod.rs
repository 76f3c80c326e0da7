//! `laggard doctor`: what can be measured here, and what spoils latency.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use laggard_answer::doctor::{self, Examined};
use laggard_model::text::Unit;
use laggard_record::Recording;
use laggard_view::text;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::doctor;
#[cfg(windows)]
pub(crate) use self::windows::doctor;
use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::{pipe, terminal};

/// Says what was found, and what the recording that is asked saw of it.
fn tell(args: &DoctorArgs, found: Examined, recording: Option<&Recording>) -> anyhow::Result<Exit> {
    let report = doctor::doctor(found, recording)?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::doctor(&report, terminal::look(Unit::Auto))
    })?;
    Ok(match report.missing {
        0 => Exit::Ok,
        _ => Exit::Unmet,
    })
}
