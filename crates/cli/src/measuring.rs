//! Code that the measuring commands share.

use std::io::{BufRead as _, Read as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use laggard_answer::qos::{Application, by_name};
pub(crate) use laggard_console::system::interruption;
use laggard_measure::host::{self, Files};
use laggard_measure::linux;
use laggard_model::{
    Absence, BusyTurns, Caveat, Competitors, Contexts, Cpu, CpuList, Host, Lacks, Service,
    SwitchPolicy,
};
use laggard_record::Folder;
use laggard_session::{Failure, LoadChoice, Plan};
use laggard_workload::load::{LoadUser, NamedLoad, READY, RecipeError};

use crate::args::RecordArgs;
use crate::exit::Exit;
use crate::pipe;

/// Length of the line that starts a held load, bytes.
const MAX_WORD_BYTES: u64 = 4096;

/// The plan that the command line gives, as this program carries it out.
pub(crate) fn plan(args: &RecordArgs) -> anyhow::Result<Plan> {
    let plan = match args.contexts {
        Some(busy) => long_enough(Plan::from(args).beside(contexts(busy, args)?))?,
        None => Plan::from(args),
    };
    let plan = by_this_program(plan);
    Ok(match &args.application {
        Some(name) => made_for(&by_name(name)?, args, plan),
        None => plan,
    })
}

/// Returns the contexts with this number of busy processes on the selected CPU.
fn contexts(busy: Competitors, args: &RecordArgs) -> anyhow::Result<Contexts> {
    if busy == Competitors::NONE && args.load.is_none() {
        bail!("`0` busy processes cannot compete; use a number from 1 to 64, or add --load");
    }
    let cpu = match args.cpus.as_ref().map(CpuList::as_slice) {
        None => None,
        Some([cpu]) => Some(cpu.0),
        Some(_) => {
            bail!("--contexts takes one CPU (all its processes compete for it); set it with --cpus")
        }
    };
    let cpu = one_cpu(cpu)?;
    if args.turns.is_some() && linux::online_cpus().as_slice().len() == 1 {
        let rest = BusyTurns::REST;
        crate::pipe::say(&format!(
            "this machine has one CPU: during the measurement, other programs get {rest} of each second"
        ));
    }
    Ok(Contexts {
        cpu,
        busy,
        turn_ns: args.turns,
    })
}

/// Checks that the duration is longer than the period of the wakeups next to busy processes.
fn long_enough(plan: Plan) -> anyhow::Result<Plan> {
    let period = plan.period;
    match plan.duration {
        Some(duration) if duration < period => bail!(
            "with this number of busy processes and these turns, each wakeup comes once in {period}; --duration must be longer than {duration}"
        ),
        _ => Ok(plan),
    }
}

/// Adds the needs of `application` to the plan, unless options set them: the service that runs it,
/// a period that its slack allows, and the IRQ service.
fn made_for(application: &Application, args: &RecordArgs, plan: Plan) -> Plan {
    let runs = application.service.unwrap_or(Service::Fifo(90));
    let (services, optional) = match plan.services {
        Some(services) => (services, plan.optional),
        // The application does not need the IRQ service. It is measured because it helps to explain
        // the others.
        None => (vec![Service::Irq, runs], vec![Service::Irq]),
    };
    Plan {
        services: Some(services),
        optional,
        period: args.period.unwrap_or(application.probe_period()),
        application: Some(application.into()),
        ..plan
    }
}

/// Sets the parts of the plan that this program implements: it runs the loads, and its command line
/// is in the recording.
pub(crate) fn by_this_program(plan: Plan) -> Plan {
    Plan {
        load_user: plan.load_user.or_else(|| match &plan.load {
            LoadChoice::Named(name) => load_user(name),
            LoadChoice::None | LoadChoice::Command(_) => None,
        }),
        helper: std::env::current_exe().unwrap_or_else(|_| plan.helper.clone()),
        command: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        ..plan
    }
}

/// Passes on that the user's command failed, as `time` and `perf stat` do.
pub(crate) fn failed(failure: Option<Failure>) -> Option<Exit> {
    failure.map(|failure| {
        crate::pipe::say(&format!("{}; this is its exit code", failure.what));
        Exit::Command(failure.code)
    })
}

/// Gives a recording to the user who ran `sudo`, so that this user can read it. Does nothing if no
/// recording was started.
pub(crate) fn hand_over(recording: Option<&Folder>) -> anyhow::Result<()> {
    let Some((folder, LoadUser { user, group })) = recording.zip(caller()) else {
        return Ok(());
    };
    folder
        .hand_over(user, group)
        .with_context(|| format!("cannot give `{}` to user {user}", folder.path().display()))
}

/// For whom `sudo` runs this program as root.
pub(crate) fn caller() -> Option<LoadUser> {
    LoadUser::of_sudo()
}

/// Returns the user that a load of laggard runs as; `None` for the user of this process.
pub(crate) fn load_user(name: &str) -> Option<LoadUser> {
    let needs_root = NamedLoad::named(name).is_ok_and(|load| load.needs_root());
    caller().filter(|_| !needs_root)
}

/// Returns warnings about limits of this process, for measurements without a recording.
pub(crate) fn caveats() -> Vec<Caveat> {
    host::quota(&linux::own_rights()).into_iter().collect()
}

/// Identifies this machine.
pub(crate) fn host() -> Host {
    host::identify(&Files::default())
}

/// Returns the CPUs that this process may use.
pub(crate) fn allowed_cpus() -> CpuList {
    linux::allowed_cpus()
}

/// Returns the policy of switching threads by default: the priority of the paper, above usual
/// threads and below the watchdogs of the kernel, if this user may use it.
pub(crate) fn switch_policy() -> SwitchPolicy {
    const PRIORITY: u8 = 80;
    if linux::may_run_as(Service::Fifo(PRIORITY)) {
        SwitchPolicy::Fifo(PRIORITY)
    } else {
        SwitchPolicy::Other
    }
}

pub(crate) fn free_memory() -> Option<u64> {
    host::free_memory(&Files::default())
}

/// Returns the selected CPU, or the last CPU of this process's initial affinity.
///
/// # Errors
/// If the CPU does not exist or this process may not use it.
pub(crate) fn one_cpu(number: Option<u32>) -> anyhow::Result<Cpu> {
    let allowed = linux::allowed_cpus();
    match number.map(Cpu) {
        Some(cpu) if allowed.contains(cpu) => Ok(cpu),
        Some(cpu) if linux::online_cpus().contains(cpu) => {
            bail!("this process may not use CPU {cpu}; choose from {allowed}")
        }
        Some(cpu) => bail!("CPU {cpu} is not online; choose from {allowed}"),
        None => linux::usual_cpus()
            .as_slice()
            .last()
            .copied()
            .context("cannot find a CPU"),
    }
}

/// Says that not all CPUs are measured because this process was started on some alone.
pub(crate) fn say_where() {
    let (usual, allowed) = (linux::usual_cpus(), linux::allowed_cpus());
    if usual != allowed {
        crate::pipe::say(&format!(
            "measuring only CPU {usual} of {allowed}, because of the CPU affinity at start (taskset); select others with --cpus"
        ));
    }
}

/// Says where the recordings of rows are.
pub(crate) fn say_rows(folder: Option<&std::path::Path>, count: usize) {
    let shown = folder.map(|folder| folder.display().to_string());
    let shown = shown.unwrap_or_default();
    let folder = laggard_model::printable(&shown);
    crate::pipe::say(&match count {
        0 => format!("no samples, so no recording in {folder}"),
        1 => format!("Kept a recording in {folder}; next: laggard show {folder}/*"),
        _ => format!("Kept {count} recordings in {folder}; next: laggard show {folder}/*"),
    });
}

/// A load, or the reason why it cannot run here.
pub(crate) struct FoundLoad {
    /// Name or path of a TOML file, as typed.
    pub(crate) argument: String,
    pub(crate) name: String,
    pub(crate) absence: Option<Absence>,
}

/// Finds a load that can run here.
///
/// # Errors
/// If the load is unknown.
pub(crate) fn find_load(argument: &str) -> anyhow::Result<FoundLoad> {
    let absent = |name: String, reason: String, packages: &str| FoundLoad {
        argument: argument.to_owned(),
        name,
        absence: Some(Absence::new(
            reason,
            format!("apt-get install {packages}"),
            Lacks::Machine,
        )),
    };
    match NamedLoad::find(argument) {
        Ok(load) => Ok(FoundLoad {
            argument: argument.to_owned(),
            name: load.name().into(),
            absence: None,
        }),
        Err(RecipeError::Missing {
            load,
            programs,
            packages,
        }) => {
            let reason = format!("{} not installed", programs.join(", "));
            Ok(absent(load, reason, &packages.join(" ")))
        }
        Err(RecipeError::Unusable { load, program }) => {
            let reason = format!("cannot use {}: {}", program.program, program.why);
            Ok(absent(load, reason, &program.package))
        }
        Err(err @ RecipeError::Builtin(_)) => Ok(FoundLoad {
            argument: argument.to_owned(),
            name: argument.to_owned(),
            absence: Some(Absence::new(
                err.to_string(),
                "run as root (sudo)",
                Lacks::Rights,
            )),
        }),
        Err(err) => Err(err.into()),
    }
}

/// A name that no other run has: the local time, and `what` it is.
pub(crate) fn default_name(what: &str) -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
    match what {
        "" => format!("{now}.laggard").into(),
        what => format!("{now}-{what}.laggard").into(),
    }
}

/// Reports that the setup is done, and waits for a line of input or its end.
pub(crate) fn wait_for_word() {
    // If the other side is gone, it does not write a word either.
    let _ = pipe::print(&format!("{READY}\n"));
    // The content of the line is ignored, and so are errors.
    let mut word = std::io::stdin().lock().take(MAX_WORD_BYTES);
    let _ = word.read_line(&mut String::new());
}
