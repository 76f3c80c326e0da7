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

/// Refuses rows that have no way to a service: nothing is known of them but when they
/// were and how long they took.
fn have_stages(args: &PlotArgs) -> anyhow::Result<()> {
    for recording in open(&args.recordings)? {
        let plan = &recording.manifest().plan;
        let has_way = plan.rows == RowsOf::Activations;
        if let Some(of) = plan.rows.words(plan.period_ns).filter(|_| !has_way) {
            anyhow::bail!(
                "`{}` is of {of}, which have no stages on the way; plot their distribution, or time",
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
            "stages, time and cpus are drawn of one recording; {} were given",
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
    /// The same, CPU by CPU.
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

    /// The service to draw: the one asked for, else the most urgent thread, else
    /// the first. Of two ways to it the direct one.
    fn course(&self, service: Option<Service>) -> anyhow::Result<&CourseView> {
        let report = &self.report;
        let wanted = report.services.iter().find(|row| match service {
            Some(wanted) => row.service == wanted,
            None => row.service.is_thread(),
        });
        let row = match (wanted, service) {
            (None, Some(wanted)) => anyhow::bail!(
                "`{}` has no service `{wanted}`; `laggard show --services` lists those it has",
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
    if reports.into_iter().all(|one| one.trust == Trust::Good) {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    }
}

/// The report with the distributions that are asked for alone; unless asked,
/// those that the page shows at first: a few services of one recording, one of
/// each of `several`.
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
    let seen = loads_for_demand(&ask::of(&args.recordings))?;
    let loads = seen
        .iter()
        .map(|one| {
            let lines = one.lines();
            let thread = lines.iter().find(|(service, _)| service.is_thread());
            let first = thread.or(lines.first()).filter(|_| !args.all);
            let wanted = args.service.or(first.map(|(service, _)| *service));
            let mut outlook = assess(one, &application, wanted)?;
            if let (None, Some(first)) = (args.service, first) {
                outlook
                    .services
                    .retain(|of| (of.service, of.route) == *first);
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
    Ok(Exit::of(&seen))
}
