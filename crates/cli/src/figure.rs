//! `laggard report --figure`: one figure of the report as a file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_answer::course::{CourseView, courses};
use laggard_answer::qos::{Application, QOS_SCHEMA, QosReport, USUAL, assess, by_name};
use laggard_answer::show::{By, RecordingReport, foremost, leading, measured, recording};
use laggard_answer::why::Blamed;
use laggard_answer::{loads_for_demand, open};
use laggard_model::name::series_words;
use laggard_model::{RowsOf, Service};
use laggard_record::Recording;
use laggard_view::picture::{FigureKind, Picture, Shape, Style};

use crate::args::FigureArgs;
use crate::ask;
use crate::drawing::Target;
use crate::exit::Exit;

/// Draws `kind` of `recordings` into `file`. `application` is used for `mttf`.
pub(crate) fn figure(
    kind: FigureKind,
    args: &FigureArgs,
    recordings: &[PathBuf],
    application: Option<Application>,
    file: &Path,
) -> anyhow::Result<Exit> {
    let style = Style {
        width: args.size.width,
        height: args.size.height,
        dark: args.dark,
    };
    let to = Target::from_path(file, style)?;
    let opened = open(recordings)?;
    match kind {
        FigureKind::Distribution => distribution(args, &opened, &to),
        FigureKind::Stages => {
            have_stages(&opened)?;
            of_one(args, &opened, &to, |report, _, course| Picture::Stages {
                report,
                course,
            })
        }
        FigureKind::Time => of_one(args, &opened, &to, |report, _, course| Picture::Time {
            report,
            course,
        }),
        FigureKind::Cpus => of_one(args, &opened, &to, |report, by_cpu, course| Picture::Cpus {
            report,
            services: &by_cpu.services,
            histograms: &by_cpu.histograms,
            name: &course.name,
            shape: shape(args),
        }),
        FigureKind::Mttf => mttf(args, recordings, application, &to),
    }
}

/// Refuses recordings whose rows have only a time and a duration, no stages.
fn have_stages(opened: &[Recording]) -> anyhow::Result<()> {
    for recording in opened {
        let plan = &recording.manifest().plan;
        let has_stages = plan.rows == RowsOf::Activations;
        if let Some(rows) = plan.rows.words(plan.period_ns).filter(|_| !has_stages) {
            anyhow::bail!(
                "`{}` contains {rows}, without stages; draw `distribution` or `time`",
                recording.dir().display()
            );
        }
    }
    Ok(())
}

const fn shape(args: &FigureArgs) -> Shape {
    match (args.linear, args.counts) {
        (true, _) => Shape::LinearCounts,
        (false, true) => Shape::Counts,
        (false, false) => Shape::Later,
    }
}

fn distribution(args: &FigureArgs, opened: &[Recording], to: &Target<'_>) -> anyhow::Result<Exit> {
    let reports = opened
        .iter()
        .map(|from| {
            let counted = measured(from, By::Service, ask::threads())?;
            Ok(only(recording(counted, false), args, opened.len() > 1))
        })
        .collect::<anyhow::Result<Vec<RecordingReport>>>()?;
    to.write_and_say(Picture::Distribution {
        reports: &reports,
        shape: shape(args),
    })?;
    Ok(exit(reports.iter()))
}

/// Draws one service of one recording.
fn of_one(
    args: &FigureArgs,
    opened: &[Recording],
    to: &Target<'_>,
    picture: impl for<'a> Fn(&'a RecordingReport, &'a RecordingReport, &'a CourseView) -> Picture<'a>,
) -> anyhow::Result<Exit> {
    let [from] = opened else {
        anyhow::bail!(
            "stages, time and cpus take one recording, not {}",
            opened.len()
        );
    };
    let input = FigureInput::read(from)?;
    let course = input.course(args.service)?;
    to.write_and_say(picture(&input.report, &input.by_cpu, course))?;
    Ok(exit([&input.report]))
}

/// Data of a recording that figures show. No figure shows causes, so no episode is read.
struct FigureInput {
    report: RecordingReport,
    /// The same, per CPU.
    by_cpu: RecordingReport,
    courses: Vec<CourseView>,
}

impl FigureInput {
    fn read(from: &Recording) -> anyhow::Result<Self> {
        let counted = measured(from, By::Service, ask::threads())?;
        let (courses, _) = courses(from, &counted, &Blamed::default(), ask::threads())?;
        Ok(Self {
            courses,
            by_cpu: recording(counted.clone(), true),
            report: recording(counted, false),
        })
    }

    /// Returns the service to draw: the requested one, otherwise the most urgent thread,
    /// otherwise the first. The direct route comes before softirq.
    fn course(&self, service: Option<Service>) -> anyhow::Result<&CourseView> {
        let report = &self.report;
        let wanted = report.services.iter().find(|row| match service {
            Some(wanted) => row.service == wanted,
            None => row.service.is_thread(),
        });
        let row = match (wanted, service) {
            (None, Some(wanted)) => anyhow::bail!(
                "`{}` has no service `{wanted}`; `laggard show --services` lists its services",
                report.path
            ),
            (row, _) => row.or(report.services.first()),
        };
        let name = row.map(|row| series_words(row.service, row.route));
        self.courses
            .iter()
            .find(|course| Some(&course.name) == name.as_ref())
            .with_context(|| format!("`{}` contains no wakeup; record again", report.path))
    }
}

fn exit<'a>(reports: impl IntoIterator<Item = &'a RecordingReport>) -> Exit {
    if reports.into_iter().all(RecordingReport::is_reliable) {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    }
}

/// Keeps the requested distributions. The default is the report's: a few services of one
/// recording, or one service of each of `several`.
fn only(mut report: RecordingReport, args: &FigureArgs, several: bool) -> RecordingReport {
    let first = if several {
        foremost(&report).into_iter().collect()
    } else {
        leading(&report)
    };
    report.histograms.retain(|view| match args.service {
        Some(wanted) => wanted == view.service,
        None => args.all || first.contains(&(view.service, view.route)),
    });
    report
}

fn mttf(
    args: &FigureArgs,
    recordings: &[PathBuf],
    application: Option<Application>,
    to: &Target<'_>,
) -> anyhow::Result<Exit> {
    let application = match application {
        Some(application) => application,
        None => by_name(USUAL)?,
    };
    let loads_read = loads_for_demand(&ask::of(recordings))?;
    let loads = loads_read
        .iter()
        .map(|load| {
            let lines = load.lines();
            let thread = lines.iter().find(|(service, _)| service.is_thread());
            let first = thread.or(lines.first()).filter(|_| !args.all);
            let wanted = args.service.or(first.map(|(service, _)| *service));
            let mut outlook = assess(load, &application, wanted)?;
            if let (None, Some(first)) = (args.service, first) {
                outlook
                    .services
                    .retain(|service| (service.service, service.route) == *first);
            }
            Ok(outlook)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let report = QosReport {
        schema: QOS_SCHEMA,
        application,
        loads,
    };
    to.write_and_say(Picture::Mttf {
        reports: std::slice::from_ref(&report),
    })?;
    Ok(Exit::from_loads(&loads_read))
}
