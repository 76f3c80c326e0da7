//! Figures of a study.

use std::path::PathBuf;

use laggard_answer::qos::{Application, CurvePoint, QOS_SCHEMA, QosReport, assess};
use laggard_answer::study::plan::{HIGH, MEDIUM};
use laggard_answer::study::{StudyDir, StudyName, results};
use laggard_answer::{Load, loads_for_demand};
use laggard_model::{Contexts, Nanos, Route, Service};
use laggard_view::picture::{Picture, Shape, Style, svg};

use crate::ask;

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

#[derive(Debug, Default)]
pub(super) struct Drawings {
    /// Name and SVG of each.
    pub(super) figures: Vec<(String, String)>,
    /// Reasons for parts that are not drawn.
    pub(super) notes: Vec<String>,
}

/// Draws the figures of the study from the recordings that there are.
pub(super) fn figures(study: StudyName, dir: &StudyDir) -> anyhow::Result<Drawings> {
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
