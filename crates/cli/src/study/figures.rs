//! Figures of a study.

use std::path::PathBuf;

use laggard_answer::qos::{Application, CurvePoint, QOS_SCHEMA, QosReport, ServiceOutlook, assess};
use laggard_answer::study::plan::{HIGH, MEDIUM, Role, Step};
use laggard_answer::study::{StudyDir, StudyName, StudyReport, results};
use laggard_answer::{Load, loads_for_demand};
use laggard_model::{Contexts, Nanos, Route, Service};
use laggard_view::picture::{Picture, Shape, Style, svg};
use laggard_view::study::bars;

use crate::ask;

/// Lengths of a buffer in Figures 6 and 7, ms.
const BUFFERS_MS: [u64; 5] = [4, 6, 8, 12, 16];
/// Longest total buffering in these figures.
const MAX_BUFFERING: Nanos = Nanos::from_ms(64);
/// Size of a figure on the page, pixels.
const STYLE: Style = Style {
    width: 560,
    height: 400,
    dark: false,
};

#[derive(Debug, Default)]
pub(super) struct Drawings {
    /// Name and SVG of each.
    pub(super) figures: Vec<(String, String)>,
    /// Reasons for parts that are not drawn.
    pub(super) notes: Vec<String>,
}

/// Curves of one service, on a panel per system.
struct Panel<'a> {
    name: &'static str,
    service: Service,
    /// Whether the recordings of the step with this name have a curve.
    has_step: &'a dyn Fn(&Step) -> bool,
}

impl<'a> Panel<'a> {
    const fn new(
        name: &'static str,
        service: Service,
        has_step: &'a dyn Fn(&Step) -> bool,
    ) -> Self {
        Self {
            name,
            service,
            has_step,
        }
    }
}

/// Draws the figures of the study from the recordings that there are. Figures of several systems
/// end with their letters.
pub(super) fn figures(report: &StudyReport, systems: &[&StudyDir]) -> anyhow::Result<Drawings> {
    let mut drawings = Drawings::default();
    let is_any = |_: &Step| true;
    let is_busy = |step: &Step| step.name.starts_with("busy-");
    let is_scenario = |step: &Step| !step.name.starts_with("busy-");
    let is_load = |step: &Step| step.role == Role::Main;
    // Next to the first load, other loads would only crowd the figure.
    let firsts: Vec<&str> = systems
        .iter()
        .filter_map(|dir| dir.steps().next())
        .map(|(step, _)| step.name)
        .collect();
    let is_factor = |step: &Step| step.role != Role::Main || firsts.contains(&step.name);
    match report.study {
        StudyName::Osdi99 => {
            let services = [
                Service::Irq,
                Service::Softirq,
                HIGH,
                MEDIUM,
                Service::Worker,
            ];
            let panels = services.map(|service| Panel::new("figure4", service, &is_load));
            let factor = Panel::new("figure5", HIGH, &is_factor);
            let panels: Vec<Panel<'_>> = panels.into_iter().chain([factor]).collect();
            distributions(systems, &panels, Shape::Percent, &mut drawings)?;
            for (name, service) in [("figure6", Service::Softirq), ("figure7", HIGH)] {
                for (letter, dir) in lettered(systems) {
                    mean_times(dir, (name, letter), service, &mut drawings)?;
                }
            }
        }
        StudyName::Hotos99 => {
            let panels =
                [HIGH, Service::Softirq].map(|service| Panel::new("figure", service, &is_any));
            distributions(systems, &panels, Shape::Percent, &mut drawings)?;
        }
        StudyName::Timmerman => {
            for (letter, dir) in lettered(systems) {
                switches_and_interrupts(dir, letter, &mut drawings)?;
            }
            for figure in bars(report) {
                let picture = Picture::Bars { figure: &figure };
                drawings.draw(figure.name.into(), picture);
            }
        }
        StudyName::Heubaum => {
            let panels = [
                Panel::new("figure2", Service::Irq, &is_scenario),
                Panel::new("figure3", Service::Softirq, &is_scenario),
                Panel::new("figure4", Service::Other, &is_busy),
                Panel::new("figure5", Contexts::BOOSTED, &is_scenario),
            ];
            distributions(systems, &panels, Shape::LinearCounts, &mut drawings)?;
        }
    }
    Ok(drawings)
}

impl Drawings {
    fn draw(&mut self, name: String, picture: Picture<'_>) {
        match svg(picture, STYLE) {
            Ok(svg) => self.figures.push((name, svg)),
            Err(err) => self.notes.push(format!("{name}: {err}")),
        }
    }
}

/// Returns the systems with the ends of the names of their figures.
fn lettered<'a>(systems: &[&'a StudyDir]) -> impl Iterator<Item = (&'static str, &'a StudyDir)> {
    let letters = if systems.len() > 1 {
        [".A", ".B"]
    } else {
        ["", ""]
    };
    letters.into_iter().zip(systems.to_vec())
}

/// Draws the distribution of the service of each panel, with a curve per load.
fn distributions(
    systems: &[&StudyDir],
    panels: &[Panel<'_>],
    shape: Shape,
    to: &mut Drawings,
) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    for (letter, dir) in lettered(systems) {
        reports.push((letter, dir.distributions(ask::threads())?));
    }
    for panel in panels {
        for (letter, reports) in &reports {
            let reports = reports.iter().filter(|(step, _)| (panel.has_step)(step));
            let mut of_service: Vec<_> = reports
                .map(|(step, report)| {
                    let mut report = report.clone();
                    // The command of an injected fault is longer than the figure.
                    if let Some(load) = &mut report.load
                        && !load.command.is_empty()
                    {
                        load.name = step.name.into();
                        load.command.clear();
                    }
                    report
                })
                .collect();
            for report in &mut of_service {
                report
                    .histograms
                    .retain(|view| view.service == panel.service);
                // The tables have one route per service.
                let has_deferred = report
                    .histograms
                    .iter()
                    .any(|view| view.route == Route::Deferred);
                // Heubaum's threads are requested directly.
                let route = if has_deferred && shape == Shape::Percent {
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
                to.draw(format!("{}.{}{letter}", panel.name, panel.service), picture);
            }
        }
    }
    Ok(())
}

/// Draws Timmerman's figures from the results.
fn switches_and_interrupts(dir: &StudyDir, letter: &str, to: &mut Drawings) -> anyhow::Result<()> {
    let results = results(dir)?;
    let mut draw = |name: &str, picture| to.draw(format!("{name}{letter}"), picture);
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

/// Draws the mean time between xruns as `service` for each load, with a curve per length of a
/// buffer. Notes what cannot be replayed.
fn mean_times(
    dir: &StudyDir,
    (name, letter): (&str, &str),
    service: Service,
    to: &mut Drawings,
) -> anyhow::Result<()> {
    let steps = dir.steps().filter(|(step, _)| step.role == Role::Main);
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
    let name_of = |load: &Load| load.label.load().unwrap_or("idle").to_owned();
    let place = |load: &Load| {
        dir.steps()
            .position(|(step, _)| step.load == Some(&name_of(load)))
    };
    loads.sort_by_key(place);
    for load in &loads {
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
            match assess(load, &application, Some(service)) {
                Ok(mut outlook) => {
                    // The softirq wakes the thread of the paper.
                    let deferred = |service: &ServiceOutlook| service.route == Route::Deferred;
                    if outlook.services.iter().any(deferred) {
                        outlook.services.retain(deferred);
                    }
                    for service in &mut outlook.services {
                        let is_shown = |point: &CurvePoint| point.buffering_ns <= MAX_BUFFERING;
                        service.curve.retain(is_shown);
                    }
                    reports.push(QosReport {
                        schema: QOS_SCHEMA,
                        application,
                        loads: vec![outlook],
                    });
                }
                Err(err) => to.notes.push(format!("{name}, {}: {err}", load.label)),
            }
        }
        if !reports.is_empty() {
            let picture = Picture::Mttf { reports: &reports };
            let load = name_of(load);
            to.draw(format!("{name}.{service}, {load}{letter}"), picture);
        }
    }
    Ok(())
}
