//! `laggard doctor`: abilities of laggard on this machine, and settings that hurt latency.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use laggard_answer::doctor::{self, DoctorFindings};
use laggard_record::Recording;
use laggard_view::doc::Detail;
use laggard_view::doctor::document;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::doctor;
#[cfg(windows)]
pub(crate) use self::windows::doctor;
use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::pipe;
use crate::pipe::Format;

/// Prints the findings and their effects in the recording.
fn tell(
    args: &DoctorArgs,
    examined: DoctorFindings,
    recording: Option<&Recording>,
) -> anyhow::Result<Exit> {
    let report = doctor::doctor(examined, recording)?;
    let format = Format {
        json: args.json,
        markdown: false,
    };
    let detail = Detail::new(args.all);
    pipe::print_answer(format, &report, || document(&report, detail))?;
    Ok(match report.missing {
        0 => Exit::Ok,
        _ => Exit::Unmet,
    })
}
