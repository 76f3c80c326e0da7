//! `laggard doctor`: what laggard can measure here, and which settings hurt latency.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use laggard_answer::doctor::{self, Examined};
use laggard_model::text::Unit;
use laggard_record::Recording;
use laggard_view::doc::{self, Detail};
use laggard_view::doctor::document;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::doctor;
#[cfg(windows)]
pub(crate) use self::windows::doctor;
use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::{pipe, terminal};

/// Prints the findings and their effects in the recording.
fn tell(
    args: &DoctorArgs,
    examined: Examined,
    recording: Option<&Recording>,
) -> anyhow::Result<Exit> {
    let report = doctor::doctor(examined, recording)?;
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
    } else {
        let detail = if args.all {
            Detail::Full
        } else {
            Detail::Short
        };
        let look = terminal::look(Unit::Auto);
        pipe::print_screen(&doc::terminal(&document(&report, detail), look))?;
    }
    Ok(match report.missing {
        0 => Exit::Ok,
        _ => Exit::Unmet,
    })
}
