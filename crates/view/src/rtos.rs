//! `laggard bench rtos`: criteria of a real-time operating system, one per row.

use laggard_answer::rtos::{
    InterruptFigures, InterruptTimes, LoadFigures, RtosReport, TestVerdict,
};
use laggard_model::text::listed;

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table, Verdict};
use crate::phrase::rtos as phrase;
use crate::phrase::{check, machine, warning};

/// Describes the report. `Short` fits on a terminal; `Full` adds the requirements and the
/// figures of interrupts and loads.
pub fn document(report: &RtosReport, detail: Detail) -> Document {
    let mut document = Document::new("Criteria of a real-time operating system");
    document.push(Block::Verdicts(vec![overall(report)]));
    let processor = Some(&report.host.processor.model)
        .filter(|model| detail == Detail::Full && !model.is_empty())
        .map_or_else(String::new, |model| format!(", {model}"));
    document.push(Block::Detail(format!(
        "{}{processor}, CPU {}; latency limit {}",
        machine(&report.host),
        report.cpu,
        Cell::Time(report.limit_ns)
    )));
    if !report.rows.is_empty() {
        document.push(Block::Table(criteria(report, detail)));
    }
    let mut lines = vec!["The criteria are necessary, not sufficient (Timmerman 1998).".to_owned()];
    if !report.not_run.is_empty() {
        lines.push(format!(
            "Ended early, before these tests: {}",
            listed(&report.not_run)
        ));
    }
    lines.extend(phrase::next_steps(report));
    document.lines(lines);
    if detail == Detail::Full {
        if let Some(figures) = &report.interrupts
            && figures.interrupts > 0
        {
            document.heading("Interrupts");
            document.push(Block::Table(interrupts(figures)));
        }
        if let Some(loads) = &report.bounded
            && !loads.is_empty()
        {
            document.heading("Wakeups under loads");
            document.push(Block::Table(self::loads(loads)));
        }
    }
    document.notes("Warnings", report.warnings.iter().map(warning).collect());
    document
}

/// Verdict on the system. Anything that fails or was not tested prevents a pass.
fn overall(report: &RtosReport) -> Verdict {
    let verdict = if report.is_met() {
        TestVerdict::Pass
    } else if report.count(TestVerdict::Fail) > 0 {
        TestVerdict::Fail
    } else {
        TestVerdict::Unknown
    };
    Verdict {
        tone: check::tone(verdict),
        word: check::verdict(verdict).into(),
        text: phrase::summary(report),
    }
}

fn criteria(report: &RtosReport, detail: Detail) -> Table {
    let requirement = (detail == Detail::Full).then(|| Column::name("requirement"));
    let columns = [Column::name("criterion"), Column::name("verdict")];
    let columns = columns.into_iter().chain(requirement);
    let mut table = Table::new(columns.chain([Column::sentence("result")])).keys(2);
    for row in &report.rows {
        let requirement = (detail == Detail::Full).then(|| row.criterion.requirement().into());
        let word = check::verdict(row.verdict).to_owned();
        let cells = [
            row.criterion.name().into(),
            Cell::Status(check::tone(row.verdict), word),
        ];
        let result = phrase::result(report, row);
        table.row(cells.into_iter().chain(requirement).chain([result.into()]));
    }
    if let Some(figures) = report.locked.as_ref().filter(|_| detail == Detail::Full) {
        table.note(phrase::pressure(figures));
    }
    table
}

fn interrupts(figures: &InterruptFigures) -> Table {
    let quantile = figures.quantile.map(phrase::quantile);
    let mut table = Table::new([
        Column::name("part"),
        Column::number("median"),
        Column::number(quantile.unwrap_or_else(|| "p99".into())),
        Column::number("max"),
        Column::number("max without steal"),
    ])
    .caption(format!(
        "{} interrupts of a SCHED_FIFO 90 thread by {}, {} excluded",
        Cell::Count(figures.interrupts as u64),
        phrase::source(figures.source),
        Cell::Count(figures.excluded)
    ));
    let mut row = |name: &str, times: &InterruptTimes| {
        table.row([
            name.into(),
            Cell::time_or(times.median_ns, Reason::TooFewSamples),
            Cell::time_or(times.quantile_ns, Reason::TooFewSamples),
            Cell::time_or(times.max_ns, Reason::NotMeasured),
            Cell::time_or(times.max_without_steal_ns, Reason::NoStealClock),
        ]);
    };
    row("ISR latency", &figures.latency);
    row("handler", &figures.handler);
    row("ISR dispatch latency", &figures.dispatch);
    if let Some(thread) = &figures.thread {
        row("IRQ thread latency", thread);
    }
    table.note(format!(
        "Resolution: {}, the time between two readings of the clock.",
        Cell::Time(figures.reading_ns)
    ));
    table
}

fn loads(loads: &[LoadFigures]) -> Table {
    let mut table = Table::new([
        Column::name("load"),
        Column::number("wakeups"),
        Column::number("missed"),
        Column::number("max"),
        Column::number("max without steal"),
        Column::number("growth (CI)"),
    ])
    .caption(
        "Latency of a SCHED_FIFO 90 thread on the CPU of the load. If the load leaves the CPU, a SCHED_IDLE thread computes.",
    );
    for (at, load) in loads.iter().enumerate() {
        let name = load.load.as_str().into();
        if load.absence.is_some() {
            let unknown = [(); 5].map(|()| Cell::Unknown(Reason::NotMeasured));
            table.row([name].into_iter().chain(unknown));
            continue;
        }
        let no_growth = if at == 0 {
            Reason::NotApplicable
        } else {
            Reason::TooFewSamples
        };
        let growth = load.growth.map_or(Cell::Unknown(no_growth), |growth| {
            let [ratio, low, high] =
                [growth.ratio, growth.ratio_low, growth.ratio_high].map(Cell::Ratio);
            Cell::estimate(ratio, low, high)
        });
        table.row([
            name,
            Cell::Count(load.wakeups as u64),
            Cell::Count(load.missed),
            Cell::time_or(load.max_ns, Reason::TooFewSamples),
            Cell::time_or(load.max_without_steal_ns, Reason::NoStealClock),
            growth,
        ]);
    }
    table.note("Missed: the timer expired before the preceding wakeup had run. Missed wakeups are in no other figure.");
    table.note(
        "Growth: mean max of a stretch, without steal time, divided by the one under the first load. The intervals hold together with 95 % confidence.",
    );
    table
}

#[cfg(test)]
mod tests;
