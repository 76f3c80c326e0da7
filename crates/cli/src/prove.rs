//! `laggard doctor --prove`: test of one of doctor's remedies on this machine.

use std::ffi::OsString;

use anyhow::Context as _;
use clap::Parser as _;
use jiff::Zoned;
use laggard_answer::compare::CompareReport;
use laggard_answer::proven::ProvenEffect;
use laggard_answer::{Doubt, Note};
use laggard_measure::linux::{self, StarvationTrial};
use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind, Host};
use laggard_view::doc;
use laggard_view::doctor::remedy as remedy_of;

use crate::args::{Args, Command};
use crate::compare::Setting;
use crate::exit::Exit;
use crate::{compare, pipe, proven, terminal};

/// Remedy that changes a setting, and can be undone.
struct SettingRemedy {
    name: &'static str,
    /// Warning that the remedy concerns.
    kind: CaveatKind,
    /// Setting in the notation of sysctl(8), and its value with the remedy.
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

/// Compares this machine with and without the remedy of this name, like `compare --factor` with
/// these options, and restores the setting. The result is kept for `laggard doctor`.
pub(crate) fn prove(
    name: &str,
    found: &[Caveat],
    host: &Host,
    options: &[OsString],
) -> anyhow::Result<Exit> {
    let names = || REMEDIES.map(|remedy| remedy.name).join(", ");
    let Some(remedy) = REMEDIES.iter().find(|candidate| candidate.name == name) else {
        anyhow::bail!(
            "`{name}` is not a setting that laggard can test and restore; use one of {}",
            names()
        );
    };
    let Some(caveat) = found.iter().find(|candidate| candidate.kind == remedy.kind) else {
        anyhow::bail!(
            "`{name}` does not increase latency on this machine, so a test is not needed"
        );
    };
    if remedy.kind == CaveatKind::RtThrottling
        && let Some(exit) = prove_throttling(caveat, remedy)?
    {
        return Ok(exit);
    }
    let now = setting_now(remedy.setting);
    let now = now.with_context(|| format!("cannot read the setting `{}`", remedy.setting))?;
    let factor = format!("--factor=sysctl:{}={now},{}", remedy.setting, remedy.value);
    let words = ["laggard", "compare", &factor].map(OsString::from);
    let parsed = Args::try_parse_from(words.into_iter().chain(options.iter().cloned()));
    let Some(Command::Compare(args)) = parsed
        .context("cannot parse the options after `--`")?
        .command
    else {
        unreachable!("the words begin with the command");
    };
    anyhow::ensure!(
        args.before.is_empty(),
        "--before would change more than the remedy; leave it out, or use `laggard compare --factor`"
    );
    let advice = doc::terminal(&remedy_of(caveat), terminal::look(Unit::Auto)).plain();
    pipe::print(&format!(
        "{advice}Effect on this machine (A: unchanged, B: with the remedy):\n\n"
    ))?;
    compare::compare_and(&args, |report| keep(report, remedy.kind, host))
}

/// Determines in trials of 2.5 s which mechanism stops a real-time thread that never sleeps, and if
/// the remedy changes that. Returns `None` if it does, so that its effect on latency can be
/// measured.
fn prove_throttling(caveat: &Caveat, remedy: &SettingRemedy) -> anyhow::Result<Option<Exit>> {
    let cpus = linux::allowed_cpus();
    let cpu = *cpus.as_slice().last().context("no CPU may be used")?;
    let trial = |state: &str| -> anyhow::Result<StarvationTrial> {
        let trial = linux::try_starvation(cpu)
            .with_context(|| format!("cannot loop at SCHED_FIFO on CPU {cpu} (needs root)"))?;
        pipe::print(&format!("{state}: {}\n", stops(&trial)))?;
        Ok(trial)
    };
    pipe::print(&doc::terminal(&remedy_of(caveat), terminal::look(Unit::Auto)).plain())?;
    if trial("Unchanged")?.stops.is_empty() {
        pipe::print(
            "Real-time threads are not throttled on this machine, so a test is not needed.\n",
        )?;
        return Ok(Some(Exit::Ok));
    }
    let setting = Setting::hold(remedy.setting)?;
    setting.set(remedy.value)?;
    let assigned = format!("{}={}", remedy.setting, remedy.value);
    let with = trial(&format!("With {assigned}"));
    pipe::say(&setting.restore());
    if with?.stops.is_empty() {
        pipe::print(&format!(
            "Real-time throttling caused the stops; {assigned} removes them.\n\n"
        ))?;
        return Ok(None);
    }
    pipe::print(&format!(
        "The kernel's fair server causes the stops; {assigned} does not remove them. They end when every real-time \
         thread sleeps, or with 0 in /sys/kernel/debug/sched/fair_server/cpu*/runtime.\n"
    ))?;
    Ok(Some(Exit::Ok))
}

/// Describes the stops in a trial.
fn stops(trial: &StarvationTrial) -> String {
    let length = Unit::Auto.write_nanos(trial.length);
    match (trial.stops.len(), trial.longest()) {
        (count, Some(longest)) => format!(
            "a SCHED_FIFO thread that never sleeps was stopped {count} times in {length} on CPU {} for a normal \
             thread, up to {}",
            trial.cpu,
            Unit::Auto.write_nanos(longest)
        ),
        (_, None) => format!(
            "a SCHED_FIFO thread that never sleeps was not stopped in {length} on CPU {}",
            trial.cpu
        ),
    }
}

/// Returns the value of a setting, if it is readable.
pub(crate) fn setting_now(name: &str) -> Option<String> {
    let file = format!("/proc/sys/{}", name.replace('.', "/"));
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Keeps the effect of a remedy, and prints its path or the reason of a failure.
fn keep(report: &CompareReport, kind: CaveatKind, host: &Host) {
    let is_script = |note: &Note| note.doubt == Doubt::Scripted;
    if report.notes.iter().any(is_script) {
        return pipe::say(
            "the effect is not stored for `laggard doctor`, because it is from a script",
        );
    }
    if !report.is_enough {
        return pipe::say(
            "the effect is not stored for `laggard doctor`, because a verdict needs 4 rounds or more",
        );
    }
    let today = Zoned::now().date().to_string();
    let Some(effect) = ProvenEffect::from_report(report, kind, host, today) else {
        return;
    };
    pipe::say(&match proven::keep(&proven::folder(), effect) {
        Ok(file) => format!(
            "stored the effect in `{}`; `laggard doctor` shows it until the kernel or the setting changes; delete the file to remove it",
            file.display()
        ),
        Err(err) => format!("the effect is not stored for `laggard doctor`: {err:#}"),
    });
}
