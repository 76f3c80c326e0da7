//! `laggard doctor` on Windows, which changes nothing there and tries no remedy.

use anyhow::bail;
use laggard_answer::doctor::DoctorFindings;
use laggard_measure_windows as windows;
use laggard_record::Recording;

use super::tell;
use crate::args::DoctorArgs;
use crate::exit::Exit;

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Exit> {
    if args.prove.is_some() {
        bail!("--prove tries settings of Linux; leave it out");
    }
    let recording = args.recording.as_ref().map(Recording::open).transpose()?;
    let examined = DoctorFindings {
        host: windows::identify(),
        cpus: args.cpus.clone().unwrap_or_else(windows::allowed_cpus),
        method: None,
        abilities: windows::abilities(),
        caveats: windows::setup_caveats(),
        audio: Vec::new(),
        proven: Vec::new(),
    };
    tell(args, examined, recording.as_ref())
}
