//! `laggard doctor` on Linux.

use laggard_answer::doctor::DoctorFindings;
use laggard_measure::host::{self, Files};
use laggard_measure::linux;
use laggard_model::Service;
use laggard_record::Recording;

use super::tell;
use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::{prove, proven};

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let recording = args.recording.as_ref().map(Recording::open).transpose()?;
    let cpus = args.cpus.clone().unwrap_or_else(linux::allowed_cpus);
    let online = linux::online_cpus();
    if let Some(cpu) = cpus.as_slice().iter().find(|&&cpu| !online.contains(cpu)) {
        anyhow::bail!("CPU {cpu} is not online; choose from {online}");
    }
    let tracers = linux::other_tracers();
    let mut abilities = linux::abilities(&Service::DEFAULTS);
    abilities.extend(laggard_trials::abilities());
    let files = Files::default();
    let host = host::identify(&files);
    let mut caveats = host::caveats(&host, &linux::own_rights(), &cpus, &Service::DEFAULTS);
    caveats.extend(linux::inherited());
    caveats.extend(tracers);
    if let Some(name) = &args.prove {
        return prove::prove(name, &caveats, &host, &args.options);
    }
    let audio = host::audio(&files, &host);
    let proven = proven::of(&proven::folder(), &host, prove::setting_now);
    let examined = DoctorFindings {
        host,
        cpus,
        method: Some(linux::method(&abilities)),
        abilities,
        caveats,
        audio,
        proven,
    };
    tell(args, examined, recording.as_ref())
}
