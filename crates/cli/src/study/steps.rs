//! Recordings of a study.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use laggard_answer::study::plan::{Gap, HANDLERS, RECEIVE, Role, Step};
use laggard_answer::study::{StudyDir, StudyKind, StudyMissing, TOLERANCE};
use laggard_measure::linux;
use laggard_model::text::span;
use laggard_model::{Absence, Lacks, Nanos};
use laggard_view::study::gap as gap_words;
use laggard_workload::load::Guard;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::directory::{check_room, keep};
use crate::args::StudyArgs;
use crate::{measuring, pipe};

/// Maximum size of a result, bytes.
const MAX_RESULT: u64 = 64 << 20;
/// Exit codes of a recording that is complete, of one without a service or load, and of one
/// that is not trustworthy.
const ENDINGS: [i32; 3] = [0, 1, 3];
/// Interval between checks of a running recording.
const POLL: Duration = Duration::from_millis(50);

/// Returns the steps that are not complete and whose load cannot run here.
pub(super) fn missing(dir: &StudyDir, args: &StudyArgs) -> anyhow::Result<Vec<StudyMissing>> {
    let mut missing = Vec::new();
    for (step, _) in dir.steps() {
        let is_open = dir.recorded(step) + TOLERANCE < step.length(dir.is_quick());
        let needs_root = !step.fault.is_empty() && args.backend.is_none();
        if is_open && needs_root && !geteuid().is_root() {
            missing.push(StudyMissing {
                step: step.name.into(),
                is_failed: false,
                absence: Absence::new(
                    "a fault in the kernel needs root",
                    "record as root (sudo)",
                    Lacks::Rights,
                ),
            });
        }
        let is_kernel_thread = step.role == Role::KernelThread;
        if is_open
            && is_kernel_thread
            && args.backend.is_none()
            && let Some(absence) = linux::timerlat_ability().absence
        {
            missing.push(StudyMissing {
                step: step.name.into(),
                is_failed: false,
                absence,
            });
            continue;
        }
        if let (Some(load), true, None) = (load_of(step, args), is_open, &args.backend)
            && let Some(absence) = measuring::find_load(&load)?.absence
        {
            missing.push(StudyMissing {
                step: step.name.into(),
                is_failed: false,
                absence,
            });
        }
    }
    Ok(missing)
}

/// Returns the load of a step, which may receive from another machine.
fn load_of(step: &Step, args: &StudyArgs) -> Option<String> {
    let load = step.load?;
    Some(match &args.receive_from {
        Some(host) if step.name == RECEIVE => [load, host].join(":"),
        _ => load.into(),
    })
}

/// Prints the duration, and everything that is missing on this machine.
pub(super) fn announce(args: &StudyArgs, dir: &StudyDir, missing: &[StudyMissing]) {
    let is_missing = |step: &Step| missing.iter().any(|missing| missing.step == step.name);
    let (mut planned, mut left) = (Nanos::ZERO, Nanos::ZERO);
    for (step, _) in dir.steps().filter(|(step, _)| !is_missing(step)) {
        let length = step.length(dir.is_quick());
        planned += length;
        left += length.saturating_sub(dir.recorded(step) + TOLERANCE);
    }
    let what = match (planned.ns(), left.ns()) {
        (0, _) => "no load can run here; nothing to record".to_owned(),
        (_, 0) => "all recordings are complete".to_owned(),
        _ if left + TOLERANCE * 10 >= planned => {
            format!(
                "recording takes {}; Ctrl-C keeps the finished part",
                span(planned)
            )
        }
        _ => format!(
            "recording continues: {} of {} left; Ctrl-C keeps the finished part",
            span(left),
            span(planned)
        ),
    };
    pipe::say(&format!("study {}: {what}", args.study));
    for StudyMissing { step, absence, .. } in missing {
        pipe::say(&format!(
            "missing: {step}: {}; {}",
            absence.reason, absence.remedy
        ));
    }
    if !geteuid().is_root() {
        pipe::say("missing: timer IRQ, softirq and kworker, which need root (sudo)");
    }
    let is_repeated = |gap: &Gap| match gap {
        Gap::NetworkCards => args.receive_from.is_some(),
        Gap::ExternalClock => Path::new("/dev/hpet").exists(),
        Gap::KernelThreads => dir
            .steps()
            .any(|(step, _)| step.role == Role::KernelThread && !is_missing(step)),
        Gap::Loads | Gap::BusStalls => false,
    };
    if !args.loads.is_empty() {
        pipe::say(&format!("not repeated: {}", gap_words(Gap::Loads)));
    }
    for gap in args.study.gaps().iter().filter(|gap| !is_repeated(gap)) {
        pipe::say(&format!("not repeated: {}", gap_words(*gap)));
    }
}

/// Makes the missing recordings, the shorter spans of all steps first. A step whose recording fails
/// is added to `missing`.
pub(super) fn record(
    args: &StudyArgs,
    kind: &StudyKind,
    path: &Path,
    missing: &mut Vec<StudyMissing>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let is_quick = kind.is_quick;
    let steps = args.study.steps_with(&kind.loads);
    let rounds = steps.iter().map(|step| step.goals(is_quick).len()).max();
    for round in 0..rounds.unwrap_or_default() {
        for step in &steps {
            let goals = step.goals(is_quick);
            let Some(&goal) = goals.get(round).or(goals.last()) else {
                continue;
            };
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if missing.iter().any(|missing| missing.step == step.name) {
                continue;
            }
            let dir = StudyDir::open(path, kind)?;
            let left = goal.saturating_sub(dir.recorded(step));
            if left <= TOLERANCE {
                continue;
            }
            let place = dir
                .next(step)
                .with_context(|| format!("too many recordings of `{}`", step.name))?;
            pipe::say(&format!("recording {}: {}", step.name, span(left)));
            let options = match &step.bench {
                Some(bench) => step.bench_options(bench, is_quick),
                None => record_options(args, step, is_quick, left, &place)?,
            };
            let (code, output) = run(&options, step.bench.is_some(), stop)?;
            let is_stopped = stop.load(Ordering::Relaxed);
            // An interrupted test has figures of another duration.
            if step.bench.is_some() && !is_stopped && !output.is_empty() {
                keep(&dir.result_file(step), &output)?;
            }
            let has_more = StudyDir::open(path, kind)?.recorded(step) > dir.recorded(step);
            // The exit code of a recording with a fault is the fault's exit code.
            let is_error = step.fault.is_empty() && !ENDINGS.contains(&code);
            if is_error && !is_stopped {
                let command = options.join(" ");
                let stops = format!(
                    "`laggard {command}` ended with exit code {code}, and the study stops; the finished recordings are kept: repeat the command to continue, or add --show for their tables"
                );
                if has_more {
                    bail!(stops);
                }
                // Something that this step needs may be missing. The others need room.
                check_room(path).context(stops)?;
            }
            let is_failed = !has_more || !step.fault.is_empty() && !matches!(code, 0 | 3);
            if is_failed && !is_stopped {
                missing.push(StudyMissing {
                    step: step.name.into(),
                    is_failed: true,
                    absence: Absence::new(
                        format!("recording failed with exit code {code}"),
                        format!("see the output of `laggard {}`", options.join(" ")),
                        Lacks::Machine,
                    ),
                });
            }
        }
    }
    Ok(())
}

fn record_options(
    args: &StudyArgs,
    step: &Step,
    is_quick: bool,
    length: Nanos,
    place: &Path,
) -> anyhow::Result<Vec<String>> {
    let mut options: Vec<String> = ["record", "--quiet", "--duration"].map(Into::into).into();
    // Whole milliseconds, rounded up.
    options.push(format!("{}ms", length.ns().div_ceil(1_000_000)));
    match &args.backend {
        // A script replaces the load and the services.
        Some(backend) => options.push(format!("--backend={backend}")),
        None => {
            let wanted = step.record_options(is_quick).into_iter();
            // Counting handlers needs eBPF.
            let wanted = wanted.filter(|option| *option != HANDLERS || geteuid().is_root());
            options.extend(wanted.map(Into::into));
            if let Some(load) = load_of(step, args) {
                options.extend(["--load".into(), load]);
            }
        }
    }
    options.push(format!("--output={}", place.display()));
    if !step.fault.is_empty() && args.backend.is_none() {
        options.extend(["--".into(), program()?.display().to_string()]);
        options.extend(step.fault.iter().map(|&word| word.into()));
        // The end of the recording ends the fault.
        options.extend(["--duration".into(), (length * 2).to_string()]);
    }
    Ok(options)
}

fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program")
}

/// Runs this program, and returns its exit code and, if `has_result`, its output. Passes on
/// the user's request to end.
fn run(options: &[String], has_result: bool, stop: &AtomicBool) -> anyhow::Result<(i32, Vec<u8>)> {
    let program = program()?;
    // Ends the recording if this process is killed. Ctrl-C reaches the recording once, from
    // here, because it is in another process group.
    let mut guard = Guard::new(None).context("cannot start a recording")?;
    let child = Command::new(program)
        .args(options)
        .stdin(Stdio::null())
        .stdout(if has_result {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .process_group(guard.group())
        .spawn();
    let ended = child
        .context("cannot start a recording")
        .and_then(|child| wait(child, stop));
    guard.end().context("cannot end a recording")?;
    ended
}

/// Waits for the end of a recording, and interrupts it once if `stop` is set.
fn wait(mut child: Child, stop: &AtomicBool) -> anyhow::Result<(i32, Vec<u8>)> {
    // Read at the same time, because a full pipe would block the test.
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut output = output.map(|output| output.take(MAX_RESULT));
        let read = output.as_mut().map(|output| output.read_to_end(&mut bytes));
        read.transpose().map(|_| bytes)
    });
    let mut is_interrupted = false;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the recording")? {
            let read = reader.join();
            let output = read.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let output = output.context("cannot read the result of a test")?;
            return Ok((status.code().unwrap_or(-1), output));
        }
        if stop.load(Ordering::Relaxed) && !is_interrupted {
            is_interrupted = true;
            interrupt(&child)?;
        }
        std::thread::sleep(POLL);
    }
}

fn interrupt(child: &Child) -> anyhow::Result<()> {
    let id = i32::try_from(child.id()).context("process ID out of range")?;
    kill(Pid::from_raw(id), Signal::SIGINT).context("cannot end the recording")
}
