//! `laggard why --bug N`: one cause for the author of the code that made wakeups late.

use laggard_answer::why::{Addressee, BugReport, CallChain, Example, Gap, Machine, Moment, Series};
use laggard_model::name::series_words;
use laggard_model::text::{count, span};
use laggard_model::{Host, Nanos, Route, whole};

use crate::doc::{Block, Cell, Column, Document, Table, code};
use crate::phrase::why::{at_least, place};
use crate::phrase::{capital, cause, plural};
use crate::why::activity;

/// Describes one cause: its figures, the machine, call chains, examples, and how to reproduce
/// it.
pub fn document(report: &BugReport) -> Document {
    let mut document = Document::new(title(report));
    document.paragraph(summary(report));
    document.push(figures(report));
    push_machine(&mut document, &report.machine);
    push_chains(&mut document, report);
    push_examples(&mut document, report);
    document.heading("Reproduce");
    document.push(Block::Preformatted(report.reproduce.clone()));
    document.heading("Not recorded");
    document.push(Block::List(report.not_seen.iter().map(gap).collect()));
    let series = report.service.map_or_else(String::new, |service| {
        let route = report.route.unwrap_or(Route::Direct);
        format!(" of {}", series_words(service, route))
    });
    document.paragraph(format!(
        "From {}, recorded by laggard {}: cause {}{series}.",
        code(&report.recording),
        report.version,
        report.number,
    ));
    document
}

/// Names the cause, the series that it made late, and the kernel.
fn title(report: &BugReport) -> String {
    let row = &report.cause;
    let kernel = match report.machine.kernel.as_str() {
        "" => String::new(),
        kernel => format!(" ({})", Host::system_of(kernel)),
    };
    let victims = match report.made_late.as_slice() {
        [] => "wakeups".into(),
        [only] => name(only),
        [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
    };
    let max = at_least(row.is_at_least, row.largest_ns);
    format!(
        "{}: {victims} late by up to {max}{kernel}",
        capital(&cause::on_cpus(row))
    )
}

fn name(made_late: &Series) -> String {
    series_words(made_late.service, made_late.route)
}

fn summary(report: &BugReport) -> String {
    let row = &report.cause;
    let summary = format!(
        "{} took the largest part of {} of {} late wakeups with trace data, up to {} of one. Without it the max would be {}.",
        capital(&cause::share(row)),
        count(row.first_in as u64),
        count(report.episodes as u64),
        at_least(row.is_at_least, row.largest_ns),
        at_least(row.largest_without_is_at_least, row.largest_without_ns)
    );
    let addressee = report.addressee.map(addressee);
    [Some(summary.as_str()), addressee]
        .map(Option::unwrap_or_default)
        .join(" ")
        .trim_end()
        .into()
}

const fn addressee(addressee: Addressee) -> &'static str {
    match addressee {
        Addressee::Laggard => {
            "The thread belongs to the laggard that recorded, so this is not a bug of the machine."
        }
        Addressee::Hypervisor => {
            "No code of this machine took the time: report it to the operator of the hypervisor."
        }
        Addressee::Firmware => {
            "No code of this machine took the time: report it to the vendor of the firmware, or to the operator of the hypervisor."
        }
        Addressee::EveryWakeup => {
            "Every wakeup includes this time. It is a bug only if it takes longer than on other machines."
        }
        Addressee::Priorities => {
            "The scheduler followed the priorities. It is a bug only if this thread should not have run then, should have run for less time, or should have a lower priority."
        }
        Addressee::Limit => "A user set this limit, so it is not a bug of the kernel.",
        Addressee::Unknown => "The culprit is unknown. Find it before you report this.",
    }
}

fn gap(gap: &Gap) -> String {
    match gap {
        Gap::Script => "A script was played: this is NOT a measurement.".into(),
        Gap::NotSampled => "No call chains were sampled.".into(),
        Gap::Samples {
            missing,
            episodes,
            by_timer,
        } => {
            let missing = (*missing > 0).then(|| {
                format!(
                    "No sample shows it in {} of its {} episodes.",
                    count(*missing as u64),
                    count(*episodes as u64)
                )
            });
            let timer = by_timer.then(|| {
                "A timer took the samples: code with interrupts disabled appears only where it enables them again."
                    .to_owned()
            });
            missing
                .into_iter()
                .chain(timer)
                .collect::<Vec<_>>()
                .join(" ")
        }
        Gap::Steal => "Steal time was not traced, so part of these times can be steal time.".into(),
        Gap::Firmware => {
            "Activity of the firmware (on x86: system management interrupts) was not counted, so it can have part of these times."
                .into()
        }
        Gap::NotKept { wakeups } => format!(
            "No trace data was kept of {} late wakeups, of any cause.",
            count(*wakeups)
        ),
        Gap::Overwritten { episodes } => format!(
            "Trace data was overwritten in {} episodes of the recording.",
            count(*episodes)
        ),
        Gap::Switches { switches } => format!(
            "At least {} context switches were not seen, so the threads between them are unknown.",
            count(*switches)
        ),
        Gap::LostSamples { samples } => {
            format!(
                "{} samples were lost, and may have been late.",
                count(*samples)
            )
        }
        Gap::Missing { part } => format!("{}.", capital(&part.to_string())),
        Gap::Handlers => {
            "Runs that made no wakeup late were not counted (`laggard record --handlers`).".into()
        }
        Gap::NamesOnly => "Functions have names, but no lines, arguments or data.".into(),
    }
}

fn time(time: Nanos) -> String {
    Cell::Time(time).to_string()
}

/// Rounds a rate to the digits that its number of events supports: the error of a count is
/// its square root.
fn about(rate: f64, events: usize) -> String {
    let digits = if events < 10 { 1 } else { 2 };
    let power = rate.max(1.0).log10().floor();
    let unit = 10_f64.powf((power + 1.0 - f64::from(digits)).max(0.0));
    count(whole((rate / unit).round() * unit))
}

/// Returns frequency, times and CPUs of the cause.
fn figures(report: &BugReport) -> Block {
    let row = &report.cause;
    let rhythm = row.rhythm.as_ref().map_or_else(
        || "none that chance does not explain".into(),
        crate::phrase::why::rhythm,
    );
    let made_late: Vec<String> = report.made_late.iter().map(name).collect();
    let rows = [
        ("made late", made_late.join(", ")),
        ("CPU", cause::cpus(&row.cpus)),
        (
            "late wakeups with it",
            format!(
                "{} of {} in {}",
                count(row.wakeups),
                count(report.wakeups),
                span(report.duration_ns)
            ),
        ),
        (
            "episodes with it",
            format!(
                "{} of {}, about {} an hour",
                count(row.episodes as u64),
                count(report.episodes as u64),
                about(row.per_hour, row.episodes)
            ),
        ),
        ("largest part of", count(row.first_in as u64)),
        ("period", rhythm),
        ("median", time(report.median_ns)),
        ("max", at_least(row.is_at_least, row.largest_ns)),
        (
            "total",
            format!(
                "{}, {:.1} % of all lateness",
                time(row.time_ns),
                row.share * 100.0
            ),
        ),
        (
            "max latency without it",
            at_least(row.largest_without_is_at_least, row.largest_without_ns),
        ),
        ("load", report.load.clone()),
    ];
    table(rows)
}

fn table<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Block {
    let mut table = Table::new([Column::name(""), Column::sentence("")]);
    for (name, value) in rows {
        table.row([name.into(), value.into()]);
    }
    Block::Table(table)
}

fn push_machine(document: &mut Document, machine: &Machine) {
    let or_unknown = |text: &str| match text {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    };
    let or = |text: &Option<String>, without: &str| text.clone().unwrap_or_else(|| without.into());
    let options = match (machine.options.as_slice(), machine.other_options) {
        ([], 0) => "unknown, or empty".into(),
        ([], more) => format!("none that affect latency ({more} other words)"),
        (some, 0) => some.join(" "),
        (some, more) => format!("{} ({more} other words)", some.join(" ")),
    };
    let processor = format!(
        "{}, {} CPUs online",
        or_unknown(&machine.processor),
        machine.cpus
    );
    let rows = [
        (
            "kernel",
            format!("{} {}", or_unknown(&machine.kernel), machine.build),
        ),
        ("distribution", or(&machine.distribution, "unknown")),
        ("architecture", or_unknown(&machine.architecture)),
        ("preemption", or(&machine.preemption, "unknown")),
        (
            "HZ",
            machine
                .hz
                .map_or_else(|| "unknown".into(), |hz| hz.to_string()),
        ),
        ("processor", processor),
        ("hypervisor", or(&machine.hypervisor, "none")),
        ("kernel command line", options),
    ];
    document.heading("Machine");
    document.push(table(rows));
    if !machine.caveats.is_empty() {
        document.paragraph("Settings that add latency or affect these figures:");
        let settings = machine.caveats.iter().map(|caveat| caveat.what.clone());
        document.push(Block::List(settings.collect()));
    }
}

fn push_chains(document: &mut Document, report: &BugReport) {
    if report.chains.is_empty() {
        return;
    }
    let shown: usize = report.chains.iter().map(|chain| chain.samples).sum();
    let others = match report.samples - shown {
        0 => String::new(),
        more => format!(" {} of them had other chains.", count(more as u64)),
    };
    document.heading("Call chains");
    document.paragraph(format!(
        "{} showed it, innermost function first.{others}",
        plural(report.samples as u64, "sample")
    ));
    let chains = report.chains.iter().map(chain);
    document.blocks.extend(chains.map(Block::Preformatted));
}

fn chain(chain: &CallChain) -> Vec<String> {
    let mut lines = vec![format!("{}:", plural(chain.samples as u64, "sample"))];
    if chain.functions.is_empty() {
        lines.push("    no call chain".into());
    } else {
        lines.extend(chain.functions.iter().map(|name| format!("    {name}")));
    }
    if chain.left_out > 0 {
        lines.push(format!("    ... {} more", chain.left_out));
    }
    lines
}

fn push_examples(document: &mut Document, report: &BugReport) {
    let episodes = match report.examples.as_slice() {
        [] => return,
        [_] => "The episode with the most time of this cause",
        _ => "The episodes with the most time of this cause, each of a different event",
    };
    document.heading("Examples");
    document.paragraph(format!("{episodes}. Times are since the expiry."));
    for example in &report.examples {
        push_example(document, example);
    }
}

fn push_example(document: &mut Document, example: &Example) {
    let episode = &example.episode;
    let heading = format!(
        "Episode {}: {}, {} late {:.3} s after the start, {} of it this",
        episode.number,
        place(episode.line),
        at_least(episode.is_at_least, episode.latency_ns),
        episode.after_start_ns.as_secs_f64(),
        time(example.of_it_ns)
    );
    let mut stages: Vec<_> = episode.stages_ns.iter().collect();
    stages.sort_by_key(|(stage, at)| (**at, **stage));
    let mut stages = stages.into_iter().peekable();
    if example.timeline.is_empty() {
        let parts = episode.parts.iter().map(|part| {
            let name = cause::name(&part.cause, &[]);
            format!("{:>9}  {name}", time(part.took_ns))
        });
        document.paragraph(format!(
            "{heading}. `laggard attach` found these causes during the measurement; a timeline of this cycle was not recorded:"
        ));
        document.push(Block::Preformatted(parts.collect()));
        return;
    }
    let mut lines = vec![format!("{:>9}  {:>9}", "at", "took")];
    let stage_line =
        |name: &str, moment_ns: Nanos| format!("{:>9}  {:>9}  * {name}", time(moment_ns), "");
    for moment in &example.timeline {
        while let Some((stage, stamp)) = stages.next_if(|(_, stamp)| **stamp <= moment.after_ns) {
            lines.push(stage_line(stage.name(), *stamp));
        }
        let context = match moment.context.as_slice() {
            [] => String::new(),
            layers => format!("  {}", activity(layers)),
        };
        lines.push(format!(
            "{:>9}  {:>9}  {}{context}{}",
            time(moment.after_ns),
            time(moment.ns),
            moment_name(moment),
            if moment.is_it { "  <- this" } else { "" }
        ));
    }
    lines.extend(stages.map(|(stage, at)| {
        if episode.is_at_least {
            stage_line("the measurement ends, and the thread still waits", *at)
        } else {
            stage_line(stage.name(), *at)
        }
    }));
    document.paragraph(format!("{heading}:"));
    document.push(Block::Preformatted(lines));
}

fn moment_name(moment: &Moment) -> String {
    match moment.class {
        Some(class) => class.words().into(),
        None if moment.parts == 1 => "1 shorter part".into(),
        None => format!("{} shorter parts", moment.parts),
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::why::{self, Explained, RecordedEpisodes};
    use laggard_made::late;
    use laggard_model::Happening;

    use super::*;

    fn told(change: impl Fn(&mut RecordedEpisodes)) -> String {
        let mut late = RecordedEpisodes::new(
            "/home/alice/r.laggard",
            late::manifest(),
            (1..=11).map(late::episode).collect(),
            late::notes(),
        );
        late.manifest.command = ["laggard", "record", "--load", "a b"]
            .map(Into::into)
            .into();
        change(&mut late);
        crate::doc::markdown(&document(
            &why::bug(&Explained::new(&late, None), 1).unwrap(),
        ))
    }

    #[test]
    fn an_author_is_told_what_happened_where_and_how_to_see_it_again() {
        let text = told(|_| ());

        for part in [
            "## Preempted by hog (CPU 1): SCHED_FIFO 90 late by up to 1.99 ms\n",
            "| period | every 5.00 s (11 of 11 seen) |",
            "| late wakeups with it | 11 of 11 in 60 s |",
            "| episodes with it | 11 of 11, about 660 an hour |",
            "22 samples:\n    spin [hog]\n",
            "laggard record --load 'a b'\nlaggard why --service fifo:90 --bug 1 r.laggard\n",
            "  <- this\n",
            "  * user\n",
            "### Not recorded\n\n- A timer took the samples",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("alice"), "{text}");
    }

    /// `why` counts them, too.
    #[test]
    fn expiries_that_passed_in_an_episode_are_late_wakeups() {
        let text = told(|late| late.episodes[0].passed_ns = vec![Nanos::from_us(1_000)]);

        for part in [
            "took the largest part of 11 of 11 late wakeups with trace data",
            "| late wakeups with it | 12 of 12 in 60 s |",
            "| episodes with it | 11 of 11, about 660 an hour |",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    /// Anyone who runs programs on the machine chooses names of threads.
    #[test]
    fn a_hostile_name_stays_text_in_and_out_of_a_block() {
        let hostile = "```\n@all|<b>";
        let text = told(|late| {
            for event in late
                .episodes
                .iter_mut()
                .flat_map(|late| &mut late.evidence.events)
            {
                if let Happening::Switch { name, .. } = &mut event.what
                    && name == "hog"
                {
                    *name = hostile.into();
                }
            }
            late.manifest.command = vec!["laggard".into(), hostile.into()];
        });

        let mut fence: Option<usize> = None;
        for line in text.lines() {
            let ticks = line.len() - line.trim_start_matches('`').len();
            match fence {
                None if ticks >= 3 => fence = Some(ticks),
                Some(open) if ticks >= open => {
                    assert_eq!(line.len(), ticks, "{line}");
                    fence = None;
                }
                None => {
                    assert!(!line.contains("@all") && !line.contains("<b>"), "{line}");
                }
                Some(_) => {}
            }
        }
        assert_eq!(fence, None, "{text}");
        assert!(text.contains("&#64;all"), "{text}");
    }

    #[test]
    fn a_rate_has_the_digits_that_its_events_carry() {
        for (rate, events, expected) in [
            (50_381.0, 112, "50,000"),
            (720.0, 3, "700"),
            (9_960.0, 11, "10,000"),
            (7.3, 40, "7"),
            (0.2, 1, "0"),
        ] {
            assert_eq!(about(rate, events), expected, "{rate} of {events}");
        }
    }
}
