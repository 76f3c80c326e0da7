//! `laggard plot`: one figure as a file.

use anyhow::Context as _;
use laggard_answer::course::{CourseView, courses};
use laggard_answer::qos::{QOS_SCHEMA, QosReport, assess, by_name};
use laggard_answer::show::{By, RecordingReport, foremost, leading, measured, recording};
use laggard_answer::why::Blamed;
use laggard_answer::{Trust, loads_for_demand, open};
use laggard_model::name::line_name;
use laggard_model::{RowsOf, Service};
use laggard_record::Recording;
use laggard_view::picture::{FigureKind, Picture, Style};

use crate::args::PlotArgs;
use crate::ask;
use crate::drawing::Target;
use crate::exit::Exit;

pub(crate) fn plot(args: &PlotArgs) -> anyhow::Result<Exit> {
    let style = Style {
        width: args.size.width,
        height: args.size.height,
        dark: args.dark,
    };
    let to = Target::of(&args.output, style)?;
    match args.figure {
        FigureKind::Distribution => distribution(args, &to),
        FigureKind::Stages => {
            have_stages(args)?;
            of_one(args, &to, |report, _, course| Picture::Stages {
                report,
                course,
            })
        }
        FigureKind::Time => of_one(args, &to, |report, _, course| Picture::Time {
            report,
            course,
        }),
        FigureKind::Cpus => of_one(args, &to, |report, by_cpu, course| Picture::Cpus {
            report,
            services: &by_cpu.services,
            histograms: &by_cpu.histograms,
            name: &course.name,
            exceedance: !args.counts,
        }),
        FigureKind::Mttf => mttf(args, &to),
    }
}

/// Refuses recordings of rows, which have only times and durations, without stages.
fn have_stages(args: &PlotArgs) -> anyhow::Result<()> {
    for recording in open(&args.recordings)? {
        let plan = &recording.manifest().plan;
        let has_way = plan.rows == RowsOf::Activations;
        if let Some(rows) = plan.rows.words(plan.period_ns).filter(|_| !has_way) {
            anyhow::bail!(
                "`{}` contains {rows}, which have no stages on the way; plot their distribution, or time",
                recording.dir().display()
            );
        }
    }
    Ok(())
}

fn distribution(args: &PlotArgs, to: &Target<'_>) -> anyhow::Result<Exit> {
    let opened = open(&args.recordings)?;
    let reports = opened
        .iter()
        .map(|from| {
            let counted = measured(from, By::Service, ask::threads())?;
            Ok(only(recording(counted, false), args, opened.len() > 1))
        })
        .collect::<anyhow::Result<Vec<RecordingReport>>>()?;
    to.write_and_say(Picture::Distribution {
        reports: &reports,
        exceedance: !args.counts,
    })?;
    Ok(exit(reports.iter()))
}

/// Draws one service of one recording.
fn of_one(
    args: &PlotArgs,
    to: &Target<'_>,
    picture: impl for<'a> Fn(&'a RecordingReport, &'a RecordingReport, &'a CourseView) -> Picture<'a>,
) -> anyhow::Result<Exit> {
    let recordings = open(&args.recordings)?;
    let [from] = recordings.as_slice() else {
        anyhow::bail!(
            "stages, time and cpus take one recording, not {}",
            args.recordings.len()
        );
    };
    let input = FigureInput::read(from)?;
    let course = input.course(args.service)?;
    to.write_and_say(picture(&input.report, &input.by_cpu, course))?;
    Ok(exit([&input.report]))
}

/// The figures of a recording that pictures draw. No picture shows causes, so that no
/// episode is read.
struct FigureInput {
    report: RecordingReport,
    /// Report of the same recording per CPU.
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

    /// Returns the service to draw: the selected one, otherwise the most urgent thread, otherwise
    /// the first. Prefers the direct route.
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
        let name = row.map(|row| line_name(row.service, row.route));
        self.courses
            .iter()
            .find(|course| Some(&course.name) == name.as_ref())
            .with_context(|| format!("`{}` contains no wakeup; record again", report.path))
    }
}

fn exit<'a>(reports: impl IntoIterator<Item = &'a RecordingReport>) -> Exit {
    if reports
        .into_iter()
        .all(|report| report.trust == Trust::Good)
    {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    }
}

/// Keeps only the selected distributions. By default these are the ones that the HTML report shows
/// first: a few services of one recording, or one service of each of `several`.
fn only(mut report: RecordingReport, args: &PlotArgs, several: bool) -> RecordingReport {
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

fn mttf(args: &PlotArgs, to: &Target<'_>) -> anyhow::Result<Exit> {
    let application = by_name(&args.app)?;
    let loads_read = loads_for_demand(&ask::of(&args.recordings))?;
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
    Ok(Exit::of(&loads_read))
}
