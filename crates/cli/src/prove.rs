//! `laggard doctor --prove`: whether one of doctor's own remedies helps here.

use std::ffi::OsString;

use anyhow::Context as _;
use clap::Parser as _;
use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind};
use laggard_view::text;

use crate::args::{Args, Command};
use crate::exit::Exit;
use crate::{compare, pipe, terminal};

/// A remedy that is a setting, which can be changed and put back.
struct SettingRemedy {
    name: &'static str,
    /// What it is against.
    kind: CaveatKind,
    /// The setting, as sysctl(8) has it, and what the remedy makes of it.
    setting: &'static str,
    value: &'static str,
}

const REMEDIES: [SettingRemedy; 5] = [
    SettingRemedy {
        name: "timer_migration",
        kind: CaveatKind::TimerMigration,
        setting: "kernel.timer_migration",
        value: "0",
    },
    SettingRemedy {
        name: "autogroup",
        kind: CaveatKind::Autogroup,
        setting: "kernel.sched_autogroup_enabled",
        value: "0",
    },
    SettingRemedy {
        name: "numa_balancing",
        kind: CaveatKind::NumaBalancing,
        setting: "kernel.numa_balancing",
        value: "0",
    },
    SettingRemedy {
        name: "watchdog",
        kind: CaveatKind::Watchdog,
        setting: "kernel.watchdog",
        value: "0",
    },
    SettingRemedy {
        name: "rt_throttling",
        kind: CaveatKind::RtThrottling,
        setting: "kernel.sched_rt_runtime_us",
        value: "-1",
    },
];

/// Compares this machine as it is with the remedy of this name, as `compare
/// --factor` does with these options, and puts all back.
pub(crate) fn prove(name: &str, found: &[Caveat], options: &[OsString]) -> anyhow::Result<Exit> {
    let names = || REMEDIES.map(|one| one.name).join(", ");
    let Some(remedy) = REMEDIES.iter().find(|one| one.name == name) else {
        anyhow::bail!(
            "`{name}` is no remedy that can be tried and undone; use one of {}",
            names()
        );
    };
    let Some(caveat) = found.iter().find(|one| one.kind == remedy.kind) else {
        anyhow::bail!("`{name}`: nothing of it spoils latency here, so there is nothing to prove");
    };
    let file = format!("/proc/sys/{}", remedy.setting.replace('.', "/"));
    let now = std::fs::read_to_string(&file);
    let now = now.with_context(|| format!("read the setting `{}`", remedy.setting))?;
    let factor = format!(
        "--factor=sysctl:{}={},{}",
        remedy.setting,
        now.trim(),
        remedy.value
    );
    let words = ["laggard", "compare", &factor].map(OsString::from);
    let asked = Args::try_parse_from(words.into_iter().chain(options.iter().cloned()));
    let Some(Command::Compare(args)) = asked.context("read what follows `--`")?.command else {
        unreachable!("the words begin with the command");
    };
    let advice = text::remedy(caveat, terminal::look(Unit::Auto));
    pipe::print(&format!(
        "{advice}Its effect here, B with it against A as it is:\n\n"
    ))?;
    compare::compare(&args)
}
