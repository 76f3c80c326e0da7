//! `laggard doctor`: what can be measured here, and what spoils latency.

use laggard_answer::doctor::{self, Examined};
use laggard_measure::host::{self, Files};
use laggard_measure::linux;
use laggard_model::Service;
use laggard_model::text::Unit;
use laggard_record::Recording;
use laggard_view::text;

use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::{pipe, prove, proven, terminal};

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let recording = args.recording.as_ref().map(Recording::open).transpose()?;
    let cpus = args.cpus.clone().unwrap_or_else(linux::allowed_cpus);
    let tracers = linux::other_tracers();
    let abilities = linux::abilities(&Service::DEFAULTS);
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
    let found = Examined {
        host,
        cpus,
        abilities,
        caveats,
        audio,
        proven,
    };
    let report = doctor::doctor(found, recording.as_ref())?;
    pipe::print(&match args.json {
        true => pipe::json(&report)?,
        false => text::doctor(&report, terminal::look(Unit::Auto)),
    })?;
    Ok(match report.missing {
        0 => Exit::Ok,
        _ => Exit::Unmet,
    })
}
