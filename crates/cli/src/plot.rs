//! `laggard plot`: one figure as a file.

use std::path::Path;

use anyhow::Context as _;
use laggard_answer::course::CourseView;
use laggard_answer::qos::{QOS_SCHEMA, QosReport, assess, by_name};
use laggard_answer::show::{RecordingReport, foremost, leading};
use laggard_answer::{Trust, loads, open};
use laggard_model::name::line_name;
use laggard_model::{Service, printable};
use laggard_view::page::Charts;
use laggard_view::picture::{Picture, Style, png, svg};

use crate::args::{FigureArg, PlotArgs};
use crate::drawn::drawn;
use crate::exit::Exit;
use crate::{ask, file, pipe};

pub(crate) fn plot(args: &PlotArgs) -> anyhow::Result<Exit> {
    let format = Format::of(&args.output)?;
    let style = Style {
        width: args.size.width,
        height: args.size.height,
        dark: args.dark,
    };
    if args.figure == FigureArg::Mttf {
        return mttf(args, format, style);
    }
    let drawn: Vec<(RecordingReport, Charts)> = open(&args.recordings)?
        .iter()
        .map(|recording| drawn(recording, None).map(|drawn| (drawn.report, drawn.charts)))
        .collect::<anyhow::Result<_>>()?;
    let is_good = drawn.iter().all(|(one, _)| one.trust == Trust::Good);
    match (args.figure, drawn.as_slice()) {
        (FigureArg::Distribution, all) => {
            let reports: Vec<RecordingReport> = all
                .iter()
                .map(|(one, _)| only(one, args, all.len() > 1))
                .collect();
            let picture = Picture::Distribution {
                reports: &reports,
                exceedance: !args.counts,
            };
            write(picture, style, format, &args.output)?;
        }
        (figure, [(report, charts)]) => {
            let course = course(charts, report, args.service)?;
            let picture = match figure {
                FigureArg::Stages => Picture::Stages { report, course },
                FigureArg::Time => Picture::Time { report, course },
                // The other two are drawn elsewhere.
                FigureArg::Cpus | FigureArg::Distribution | FigureArg::Mttf => Picture::Cpus {
                    report,
                    services: &charts.by_cpu,
                    histograms: &charts.by_cpu_histograms,
                    name: &course.name,
                    exceedance: !args.counts,
                },
            };
            write(picture, style, format, &args.output)?;
        }
        _ => anyhow::bail!(
            "stages, time and cpus are drawn of one recording; {} were given",
            args.recordings.len()
        ),
    }
    Ok(if is_good {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    })
}

/// The report with the distributions that are asked for alone; unless asked,
/// those that the page shows at first: a few services of one recording, one of
/// each of `several`.
fn only(report: &RecordingReport, args: &PlotArgs, several: bool) -> RecordingReport {
    let first = match several {
        true => foremost(report).into_iter().collect(),
        false => leading(report),
    };
    let mut report = report.clone();
    report.histograms.retain(|view| match args.service {
        Some(wanted) => wanted == view.service,
        None => args.all || first.contains(&(view.service, view.route)),
    });
    report
}

/// The service to draw: the one asked for, else the most urgent thread, else
/// the first. Of two ways to it the direct one.
fn course<'a>(
    charts: &'a Charts,
    report: &RecordingReport,
    service: Option<Service>,
) -> anyhow::Result<&'a CourseView> {
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
    charts
        .courses
        .iter()
        .find(|course| Some(&course.name) == name.as_ref())
        .with_context(|| format!("`{}` holds no activation; record again", report.path))
}

fn mttf(args: &PlotArgs, format: Format, style: Style) -> anyhow::Result<Exit> {
    let application = by_name(&args.app)?;
    let seen = loads(&ask::of(&args.recordings))?;
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
    let picture = Picture::Mttf { report: &report };
    write(picture, style, format, &args.output)?;
    Ok(Exit::of(&seen))
}

/// How a picture is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(file: &Path) -> anyhow::Result<Self> {
        let extension = file
            .extension()
            .map(|one| one.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => anyhow::bail!(
                "`{}` ends neither in .svg nor in .png, which says how to draw",
                file.display()
            ),
        }
    }
}

/// Writes a picture and says where.
fn write(picture: Picture<'_>, style: Style, format: Format, to: &Path) -> anyhow::Result<()> {
    let bytes = match format {
        Format::Svg => svg(picture, style)?.into_bytes(),
        Format::Png => png(picture, style)?,
    };
    file::write(to, "picture", &bytes)?;
    pipe::print(&format!("Wrote {}\n", printable(&to.display().to_string())))
}
