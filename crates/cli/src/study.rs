//! `laggard study`: repeats the experiments of a paper.
//!
//! Each recording is made by a process of this program, as a user would make it, so that an
//! interrupted study has whole recordings.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use laggard_answer::qos::{Application, CurvePoint, QOS_SCHEMA, QosReport, assess};
use laggard_answer::study::plan::{HANDLERS, HIGH, MEDIUM, Step};
use laggard_answer::study::{
    Against, StudyDir, StudyMissing, StudyName, TOLERANCE, results, study as evaluate,
};
use laggard_answer::{Load, loads_for_demand};
use laggard_console::system::end_at_signals;
use laggard_files::{AtSignal, OutputFile, sudo_caller};
use laggard_model::text::{Unit, span};
use laggard_model::{Absence, Contexts, Lacks, Nanos, Route, Service};
use laggard_record::{Access, Folder};
use laggard_view::doc::{self, Figure};
use laggard_view::picture::{Picture, Shape, Style, svg};
use laggard_view::study::{add_page, document, gap as gap_words};
use laggard_workload::load::Guard;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde::{Deserialize, Serialize};

use crate::args::{AgainstArg, StudyArgs};
use crate::exit::Exit;
use crate::{ask, measuring, pipe, terminal};

/// File that names the study of a directory.
const PLAN: &str = "study.json";
/// Page with the tables and figures.
const PAGE: &str = "study.html";
/// Lengths of a buffer in Figures 6 and 7, ms.
const BUFFERS_MS: [u64; 5] = [4, 6, 8, 12, 16];
/// Longest total buffering in these figures.
const MAX_BUFFERING: Nanos = Nanos::from_ms(64);
/// Size of a figure on the page, pixels.
const STYLE: Style = Style {
    width: 720,
    height: 480,
    dark: false,
};
/// Room that a further recording needs at least, bytes.
const MIN_ROOM: usize = 1 << 20;
/// Maximum size of a result, bytes.
const MAX_RESULT: u64 = 64 << 20;
/// Exit codes of a recording that is complete, of one without a service or load, and of one
/// that is not trustworthy.
const ENDINGS: [i32; 3] = [0, 1, 3];
/// Interval at which a running recording is checked.
const POLL: Duration = Duration::from_millis(50);

/// Content of [`PLAN`].
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Kind {
    study: StudyName,
    is_quick: bool,
}

pub(crate) fn study(args: &StudyArgs) -> anyhow::Result<Exit> {
    // Checked first, because recording takes long.
    pipe::stdout()?;
    let path = args.output.clone();
    let path = path.unwrap_or_else(|| format!("study-{}", args.study).into());
    let against = against(args)?;
    let is_quick = settle(args, &path)?;
    let dir = StudyDir::open(&path, args.study, is_quick)?;
    let mut missing = missing(&dir, args)?;
    if !args.show {
        let _lock = lock(&path)?;
        let stop = measuring::interruption()?;
        announce(args, &dir, &missing);
        record(args, &dir, &path, &mut missing, &stop)?;
        // To evaluate recordings can be repeated.
        end_at_signals();
    }
    let dir = StudyDir::open(&path, args.study, is_quick)?.without(missing);
    print(args, &dir, &path, against.as_ref())
}

/// Returns whether the study in the directory is a quick one. Creates the directory of a new
/// study.
fn settle(args: &StudyArgs, path: &Path) -> anyhow::Result<bool> {
    let shown = path.display();
    if path.to_str().is_none() {
        bail!("the name `{shown}` is not UTF-8; give another one with --output");
    }
    let kind = Kind {
        study: args.study,
        is_quick: args.quick,
    };
    if path.is_dir() {
        check_owner(path)?;
    }
    if let Some(existing) = kind_of(path)? {
        if existing.study != kind.study {
            bail!(
                "`{shown}` is the directory of the study {}; give another one with --output",
                existing.study
            );
        }
        if kind.is_quick && !existing.is_quick {
            bail!("`{shown}` is not a --quick study; leave out --quick, or give another --output");
        }
        if !kind.is_quick && existing.is_quick && !args.show {
            bail!("`{shown}` is a --quick study; add --quick, or give another --output");
        }
        return Ok(existing.is_quick);
    }
    match path.read_dir() {
        Ok(mut entries) => {
            if entries.next().is_some() && !has_recording(path, kind.study) {
                bail!(
                    "`{shown}` is not the directory of a study (it has no `{PLAN}`); give another one with --output"
                );
            }
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound && args.show => {
            bail!("`{shown}` does not exist; record first, without --show")
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            let folder = Folder::make(path, Access::Private)
                .with_context(|| format!("cannot create the directory `{shown}`"))?;
            measuring::hand_over(Some(&folder))?;
        }
        Err(err) => return Err(err).with_context(|| format!("cannot read `{shown}`")),
    }
    if !args.show {
        keep(&path.join(PLAN), pipe::json(&kind)?.as_bytes())?;
    }
    Ok(args.quick)
}

/// Refuses, as root, the directory of a user who did not start the program: that user could
/// replace its files by links.
fn check_owner(path: &Path) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = path
        .metadata()
        .with_context(|| format!("cannot read `{}`", path.display()))?
        .uid();
    let is_expected = owner == 0 || sudo_caller().is_some_and(|(user, _)| user == owner);
    if !is_expected {
        bail!(
            "`{}` belongs to user {owner}, who could redirect the files that root writes; give another directory with --output, or run as that user",
            path.display()
        );
    }
    Ok(())
}

/// Locks the directory, because two studies that record at the same time disturb each other.
fn lock(path: &Path) -> anyhow::Result<Flock<File>> {
    let file = path.join(PLAN);
    let opened = File::open(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, err)| {
        let shown = path.display();
        if err == Errno::EWOULDBLOCK {
            anyhow::anyhow!(
                "another study records in `{shown}`; wait for its end, or give another --output"
            )
        } else {
            anyhow::anyhow!("cannot lock `{shown}`: {}", err.desc())
        }
    })
}

/// Writes a file of the study. A signal then still ends the study in order.
fn keep(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    OutputFile::begin(file, AtSignal::Finishes)
        .and_then(|mut output| {
            output.write_all(content)?;
            output.keep()
        })
        .with_context(|| format!("cannot write `{}`", file.display()))
}

/// Refuses a directory without room for another recording.
fn check_room(path: &Path) -> anyhow::Result<()> {
    let file = path.join(PAGE);
    OutputFile::begin(&file, AtSignal::Finishes)
        .and_then(|mut output| Ok(output.write_all(&vec![0; MIN_ROOM])?))
        .with_context(|| format!("cannot write to `{}`", path.display()))
}

fn has_recording(path: &Path, study: StudyName) -> bool {
    let mut steps = study.steps().iter();
    steps.any(|step| match step.bench {
        Some(_) => path.join(step.name).with_extension("json").is_file(),
        None => path.join(format!("{}-1.laggard", step.name)).is_dir(),
    })
}

/// Reads which study a directory has; `None` if it has none yet.
fn kind_of(path: &Path) -> anyhow::Result<Option<Kind>> {
    let file = path.join(PLAN);
    let text = match laggard_files::read_regular(&file) {
        Ok(text) => text,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => {
            bail!("`{}` is not a directory; give another one", path.display())
        }
        Err(err) => return Err(err).with_context(|| format!("cannot read `{}`", file.display())),
    };
    let kind = serde_json::from_slice(&text).with_context(|| {
        format!(
            "`{}` does not name a study; remove it to start a new one",
            file.display()
        )
    })?;
    Ok(Some(kind))
}

fn against(args: &StudyArgs) -> anyhow::Result<Option<Against>> {
    Ok(match &args.against {
        None => None,
        Some(AgainstArg::Paper) => Some(Against::Paper),
        Some(AgainstArg::Directory(path)) => {
            let shown = path.display();
            let is_quick = match kind_of(path)? {
                Some(kind) if kind.study == args.study => kind.is_quick,
                Some(kind) => bail!(
                    "--against `{shown}` has recordings of the study {}, not {}",
                    kind.study,
                    args.study
                ),
                None => bail!(
                    "--against `{shown}` is not the directory of a study; give one that `laggard study` made, or `paper`"
                ),
            };
            Some(Against::Directory(StudyDir::open(
                path, args.study, is_quick,
            )?))
        }
    })
}

/// Returns the steps that are not complete and whose load cannot run here.
fn missing(dir: &StudyDir, args: &StudyArgs) -> anyhow::Result<Vec<StudyMissing>> {
    let mut missing = Vec::new();
    for (step, _) in dir.steps() {
        let is_open = dir.recorded(step) + TOLERANCE < step.length(dir.is_quick());
        let needs_root = !step.fault.is_empty() && args.backend.is_none();
        if is_open && needs_root && !geteuid().is_root() {
            missing.push(StudyMissing {
                step: step.name.into(),
                is_failed: false,
                absence: Absence {
                    reason: "a fault in the kernel needs root".into(),
                    remedy: "record as root (sudo)".into(),
                    lacks: Lacks::Rights,
                },
            });
        }
        if let (Some(load), true, None) = (step.load, is_open, &args.backend)
            && let Some(absence) = measuring::find_load(load)?.absence
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

/// Prints the duration, and everything that is missing on this machine.
fn announce(args: &StudyArgs, dir: &StudyDir, missing: &[StudyMissing]) {
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
    for gap in args.study.gaps() {
        pipe::say(&format!("not repeated: {}", gap_words(*gap)));
    }
}

/// Makes the missing recordings, the shorter spans of all steps first. A step whose recording fails
/// is added to `missing`.
fn record(
    args: &StudyArgs,
    dir: &StudyDir,
    path: &Path,
    missing: &mut Vec<StudyMissing>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let is_quick = dir.is_quick();
    let steps = args.study.steps();
    let rounds = steps.iter().map(|step| step.goals(is_quick).len()).max();
    for round in 0..rounds.unwrap_or_default() {
        for step in steps {
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
            let dir = StudyDir::open(path, args.study, is_quick)?;
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
            let has_more =
                StudyDir::open(path, args.study, is_quick)?.recorded(step) > dir.recorded(step);
            // The exit code of a recording with a fault is the one of the fault.
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
                    absence: Absence {
                        reason: format!("recording failed with exit code {code}"),
                        remedy: format!("see the output of `laggard {}`", options.join(" ")),
                        lacks: Lacks::Machine,
                    },
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
/// the end that the user asks for.
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

fn print(
    args: &StudyArgs,
    dir: &StudyDir,
    path: &Path,
    against: Option<&Against>,
) -> anyhow::Result<Exit> {
    let report = evaluate(args.study, dir, against, ask::threads())?;
    let drawings = figures(args.study, dir)?;
    let names: Vec<String> = drawings
        .figures
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    let mut document = document(&report, &names);
    document.notes("Not drawn", drawings.notes);
    let draw = |figure: &Figure| {
        let drawing = drawings.figures.iter().find(|(name, _)| *name == figure.id);
        drawing.map(|(_, svg)| svg.clone())
    };
    let page = path.join(PAGE);
    let title = format!("laggard study {}", args.study);
    let html = doc::html(&document, &title, &draw);
    let written = laggard_files::check_regular(&page, "page")
        .and_then(|()| laggard_files::write(&page, "page", html.as_bytes()));
    if let Err(err) = &written {
        pipe::say(&format!("the page is missing: {err:#}"));
    }
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
    } else {
        if written.is_ok() {
            add_page(&mut document, &page.display().to_string());
        }
        pipe::print_screen(&doc::terminal(&document, terminal::look(Unit::Auto)))?;
    }
    let own = &report.systems[0];
    let is_complete = own
        .steps
        .iter()
        .all(|step| step.recorded_ns + TOLERANCE >= step.planned_ns);
    Ok(if !is_complete {
        Exit::Unmet
    } else if own.steps.iter().any(|step| step.is_trusted == Some(false)) {
        Exit::Untrustworthy
    } else {
        Exit::Ok
    })
}

/// Figures of a study.
#[derive(Debug, Default)]
struct Drawings {
    /// Name and SVG of each.
    figures: Vec<(String, String)>,
    /// Reasons for parts that are not drawn.
    notes: Vec<String>,
}

/// Draws the figures of the study from the recordings that there are.
fn figures(study: StudyName, dir: &StudyDir) -> anyhow::Result<Drawings> {
    let mut drawings = Drawings::default();
    match study {
        StudyName::Osdi99 => {
            let services = [
                Service::Irq,
                Service::Softirq,
                HIGH,
                MEDIUM,
                Service::Worker,
            ];
            distributions(
                dir,
                &services.map(|service| ("figure4", service)),
                Shape::Later,
                &mut drawings,
            )?;
            for (name, service) in [("figure6", Service::Softirq), ("figure7", HIGH)] {
                mean_times(dir, name, service, &mut drawings)?;
            }
        }
        StudyName::Hotos99 => {
            let services = [HIGH, Service::Softirq].map(|service| ("figure", service));
            distributions(dir, &services, Shape::Later, &mut drawings)?;
        }
        StudyName::Timmerman => switches_and_interrupts(dir, &mut drawings)?,
        StudyName::Heubaum => {
            let services = [
                ("figure2", Service::Irq),
                ("figure3", Service::Softirq),
                ("figure4", Service::Other),
                ("figure5", Contexts::BOOSTED),
            ];
            distributions(dir, &services, Shape::LinearCounts, &mut drawings)?;
        }
    }
    Ok(drawings)
}

/// Draws the distribution of each service, with a curve per load.
fn distributions(
    dir: &StudyDir,
    services: &[(&str, Service)],
    shape: Shape,
    to: &mut Drawings,
) -> anyhow::Result<()> {
    let reports = dir.distributions(ask::threads())?;
    for &(name, service) in services {
        let mut of_service: Vec<_> = reports.iter().map(|(_, report)| report.clone()).collect();
        for report in &mut of_service {
            report.histograms.retain(|view| view.service == service);
            // The tables have one route per service.
            let has_deferred = report
                .histograms
                .iter()
                .any(|view| view.route == Route::Deferred);
            // Heubaum's threads are requested directly.
            let route = if has_deferred && shape == Shape::Later {
                Route::Deferred
            } else {
                Route::Direct
            };
            report.histograms.retain(|view| view.route == route);
        }
        of_service.retain(|report| !report.histograms.is_empty());
        if !of_service.is_empty() {
            let picture = Picture::Distribution {
                reports: &of_service,
                shape,
            };
            to.figures
                .push((format!("{name}.{service}"), svg(picture, STYLE)?));
        }
    }
    Ok(())
}

/// Draws Timmerman's figures from the results.
fn switches_and_interrupts(dir: &StudyDir, to: &mut Drawings) -> anyhow::Result<()> {
    let results = results(dir)?;
    let mut draw = |name: &str, picture| match svg(picture, STYLE) {
        Ok(svg) => to.figures.push((name.into(), svg)),
        Err(err) => to.notes.push(format!("{name}: {err}")),
    };
    if let Some(report) = &results.switch {
        draw("figure2", Picture::Series { report });
        draw("figure4", Picture::Growth { report });
    }
    if let Some(interrupts) = &results.interrupts {
        for (name, part, times) in [
            ("figure5", "ISR latency", &interrupts.latency),
            ("figure7", "ISR dispatch latency", &interrupts.dispatch),
        ] {
            draw(name, Picture::Interrupts { part, times });
        }
    }
    Ok(())
}

/// Draws the mean time between xruns as `service`, with a curve per length of a buffer and
/// load. Notes what cannot be replayed.
fn mean_times(
    dir: &StudyDir,
    name: &str,
    service: Service,
    to: &mut Drawings,
) -> anyhow::Result<()> {
    let steps = dir.steps();
    let paths: Vec<PathBuf> = steps.flat_map(|(step, _)| dir.recordings(step)).collect();
    if paths.is_empty() {
        return Ok(());
    }
    let mut loads: Vec<Load> = loads_for_demand(&ask::of(&paths))?;
    loads.retain(|load| {
        load.lines()
            .iter()
            .any(|(recorded, _)| *recorded == service)
    });
    let mut reports = Vec::new();
    for ms in BUFFERS_MS {
        let buffer = Nanos::from_ms(ms);
        let compute = Nanos::from_ns(buffer.ns() / 4);
        let application = Application::new(
            &format!("a data pump in {service}"),
            2,
            buffer,
            compute,
            "OSDI'99, 5.1",
        )?;
        let mut outlooks = Vec::new();
        for load in &loads {
            match assess(load, &application, Some(service)) {
                Ok(mut outlook) => {
                    for service in &mut outlook.services {
                        let is_shown = |point: &CurvePoint| point.buffering_ns <= MAX_BUFFERING;
                        service.curve.retain(is_shown);
                    }
                    outlooks.push(outlook);
                }
                Err(err) => to.notes.push(format!("{name}, {}: {err}", load.label)),
            }
        }
        reports.push(QosReport {
            schema: QOS_SCHEMA,
            application,
            loads: outlooks,
        });
    }
    if reports.iter().all(|report| report.loads.is_empty()) {
        return Ok(());
    }
    match svg(Picture::Mttf { reports: &reports }, STYLE) {
        Ok(svg) => to.figures.push((format!("{name}.{service}"), svg)),
        Err(err) => to.notes.push(format!("{name}: {err}")),
    }
    Ok(())
}
