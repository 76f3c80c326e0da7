//! `laggard why --bug N`: Markdown for whoever wrote the code that made
//! activations late.

use std::fmt::Write as _;

use laggard_answer::why::{BugReport, CallChain, Example, Machine, at_least, place};
use laggard_model::text::{Unit, count, span};
use laggard_model::{CpuList, Nanos, printable, printable_lines, whole};

use crate::markdown::escaped;

/// One cause as Markdown, in the flavour that has tables.
pub fn bug(report: &BugReport) -> String {
    let mut text = format!("## {}\n\n", escaped(&report.title));
    text += &escaped(&report.sentences.join(" "));
    text += "\n\n";
    text += &figures(report);
    text += &machine(&report.machine);
    text += &chains(report);
    text += &examples(report);
    text += "\n### How to record it again\n\n";
    text += &fenced("sh", &report.reproduce);
    text += "\n### What was not seen\n\n";
    text += &list(&report.not_seen);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\nFrom <code>{}</code>, recorded by laggard {}: cause {} of those with most time{}.",
        plain(&report.recording),
        escaped(&report.version),
        report.number,
        report.service.map_or(String::new(), |service| format!(
            ", of {} only",
            escaped(&service.to_string())
        )),
    );
    printable_lines(&text).to_string()
}

fn write(time: Nanos) -> String {
    Unit::Auto.write_nanos(time)
}

/// Text with no backtick of its own in it.
fn plain(text: &str) -> String {
    escaped(&text.replace('`', "'"))
}

fn list(items: &[String]) -> String {
    items
        .iter()
        .map(|one| format!("- {}\n", escaped(one)))
        .collect()
}

/// A rate that so many events show, with no more digits than they carry: their
/// number is known to its root.
fn about(rate: f64, events: usize) -> String {
    let digits = if events < 10 { 1 } else { 2 };
    let power = rate.max(1.0).log10().floor();
    let unit = 10_f64.powf((power + 1.0 - f64::from(digits)).max(0.0));
    count(whole((rate / unit).round() * unit))
}

/// How often, how long, on which CPUs.
fn figures(report: &BugReport) -> String {
    let cause = &report.cause;
    let cpus: CpuList = cause.cpus.iter().copied().collect();
    let rhythm = cause.rhythm.as_ref().map_or_else(
        || "none that chance does not explain".into(),
        |rhythm| {
            format!(
                "every {}{}, {} of {} seen",
                write(rhythm.period_ns),
                rhythm.spell(),
                count(rhythm.hits as u64),
                count(rhythm.due as u64)
            )
        },
    );
    let rows = [
        ("made late", report.made_late.join(", ")),
        ("CPU", cpus.to_string()),
        (
            "late activations it took part in",
            format!(
                "{} of {} in {}, about {} an hour",
                count(cause.episodes as u64),
                count(report.episodes as u64),
                span(report.duration_ns),
                about(cause.per_hour, cause.episodes)
            ),
        ),
        ("largest part of", count(cause.first_in as u64)),
        ("period", rhythm),
        ("took in half of them at most", write(report.median_ns)),
        (
            "took at most",
            at_least(cause.is_at_least, cause.largest_ns),
        ),
        (
            "took together",
            format!(
                "{}, {:.1} % of all lateness",
                write(cause.total_ns),
                cause.share * 100.0
            ),
        ),
        (
            "largest latency seen without it",
            at_least(cause.largest_without_is_at_least, cause.largest_without_ns),
        ),
        ("load", report.load.clone()),
    ];
    table(rows.into_iter())
}

fn table<'a>(rows: impl Iterator<Item = (&'a str, String)>) -> String {
    let rows = rows.map(|(name, value)| format!("| {name} | {} |\n", escaped(&value)));
    std::iter::once("| | |\n| --- | --- |\n".to_owned())
        .chain(rows)
        .collect()
}

fn machine(machine: &Machine) -> String {
    let known = |text: &str| match text {
        "" => "not known".to_owned(),
        text => text.to_owned(),
    };
    let or = |text: &Option<String>, without: &str| text.clone().unwrap_or_else(|| without.into());
    let options = match (machine.options.as_slice(), machine.other_options) {
        ([], 0) => "not known, or empty".into(),
        ([], more) => format!("nothing that bears on latency ({more} other words)"),
        (some, 0) => some.join(" "),
        (some, more) => format!("{} ({more} other words)", some.join(" ")),
    };
    let processor = format!(
        "{}, {} CPUs online",
        known(&machine.processor),
        machine.cpus
    );
    let rows = [
        (
            "kernel",
            format!("{} {}", known(&machine.kernel), machine.build),
        ),
        ("distribution", or(&machine.distribution, "not known")),
        ("architecture", known(&machine.architecture)),
        ("preemption", or(&machine.preemption, "not known")),
        (
            "HZ",
            machine
                .hz
                .map_or_else(|| "not known".into(), |hz| hz.to_string()),
        ),
        ("processor", processor),
        ("hypervisor", or(&machine.hypervisor, "none known")),
        ("kernel's command line", options),
    ];
    let mut text = format!("\n### Machine\n\n{}", table(rows.into_iter()));
    let doubts = machine.caveats.iter().map(|one| one.what.clone());
    let doubts: Vec<String> = doubts.collect();
    if !doubts.is_empty() {
        text += "\nWhat about it adds latency, or casts doubt on these figures:\n\n";
        text += &list(&doubts);
    }
    text
}

fn chains(report: &BugReport) -> String {
    if report.chains.is_empty() {
        return String::new();
    }
    let told: usize = report.chains.iter().map(|one| one.samples).sum();
    let mut text = "\n### Where it was seen\n\n".to_owned();
    let s = if report.samples == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "{} sample{s} showed it; the innermost function is first.{}\n",
        count(report.samples as u64),
        match report.samples - told {
            0 => String::new(),
            more => format!(" {} of them had other chains.", count(more as u64)),
        }
    );
    for one in &report.chains {
        text += &chain(one);
    }
    text
}

fn chain(one: &CallChain) -> String {
    let s = if one.samples == 1 { "" } else { "s" };
    let mut lines = vec![format!("{} sample{s}:", count(one.samples as u64))];
    if one.functions.is_empty() {
        lines.push("    no call chain".into())
    } else {
        lines.extend(one.functions.iter().map(|name| format!("    {name}")))
    }
    if one.left_out > 0 {
        lines.push(format!("    ... {} more", one.left_out));
    }
    fenced("text", &lines)
}

fn examples(report: &BugReport) -> String {
    let many = match report.examples.as_slice() {
        [] => return String::new(),
        [_] => "The one with most of it",
        _ => "Those with most of it, each another event",
    };
    let mut text = format!("\n### Examples\n\n{many}; times count from the programmed expiry.\n");
    for one in &report.examples {
        text += &example(one);
    }
    text
}

fn example(one: &Example) -> String {
    let episode = &one.episode;
    let what = format!(
        "Episode {}: {}, {} late {:.3} s after the start, {} of it this",
        episode.number,
        place(episode.line),
        at_least(episode.is_at_least, episode.latency_ns),
        episode.after_start_ns.as_secs_f64(),
        write(one.of_it_ns)
    );
    let mut stages: Vec<_> = episode.stages_ns.iter().collect();
    stages.sort_by_key(|(stage, at)| (**at, **stage));
    let mut stages = stages.into_iter().peekable();
    let mut lines = vec![format!("{:>9}  {:>9}", "at", "took")];
    let stage_line = |name: &str, at: Nanos| format!("{:>9}  {:>9}  * {name}", write(at), "");
    for moment in &one.timeline {
        while let Some((stage, at)) = stages.next_if(|(_, at)| **at <= moment.after_ns) {
            lines.push(stage_line(stage.name(), *at));
        }
        let context = match moment.context.as_slice() {
            [] => String::new(),
            some => format!("  {}", some.join(" > ")),
        };
        lines.push(format!(
            "{:>9}  {:>9}  {}{context}{}",
            write(moment.after_ns),
            write(moment.ns),
            moment.words(),
            if moment.is_it { "  <- this" } else { "" }
        ));
    }
    lines.extend(stages.map(|(stage, at)| {
        if episode.is_at_least {
            stage_line("measuring ends, and it still waits", *at)
        } else {
            stage_line(stage.name(), *at)
        }
    }));
    format!("\n{}:\n\n{}", escaped(&what), fenced("text", &lines))
}

/// Lines as they are: whatever is in them cannot end the block.
fn fenced(language: &str, lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|one| printable(one).to_string()).collect();
    let mut longest = 0;
    for line in &lines {
        let runs = line.split(|letter| letter != '`').map(str::len);
        longest = longest.max(runs.max().unwrap_or_default());
    }
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use laggard_answer::why::{self, Explained, RecordedEpisodes};
    use laggard_made::late;
    use laggard_model::Happening;

    use super::*;

    fn told(change: impl Fn(&mut RecordedEpisodes)) -> String {
        let mut late = RecordedEpisodes {
            path: "/home/alice/r.laggard".into(),
            manifest: late::manifest(),
            episodes: (1..=11).map(late::episode).collect(),
            notes: late::notes(),
            latest: Vec::new(),
            shortfalls: Vec::new(),
        };
        late.manifest.command = ["laggard", "record", "--load", "a b"]
            .map(Into::into)
            .into();
        change(&mut late);
        bug(&why::bug(&Explained::new(&late, None), 1).unwrap())
    }

    #[test]
    fn an_author_is_told_what_happened_where_and_how_to_see_it_again() {
        let text = told(|_| ());

        for part in [
            "## Higher-priority thread: hog on CPU 1 makes fifo:90 late by up to 1.99 ms\n",
            "| period | every 5.00 s, 11 of 11 seen |",
            "| late activations it took part in | 11 of 11 in 60 s, about 660 an hour |",
            "22 samples:\n    spin [hog]\n",
            "laggard record --load 'a b'\nlaggard why --bug 1 r.laggard\n",
            "  <- this\n",
            "  * user\n",
            "### What was not seen\n\n- A timer took the samples",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("alice"), "{text}");
    }

    /// Names of threads are whoever's who runs programs there.
    #[test]
    fn a_hostile_name_stays_text_in_and_out_of_a_block() {
        let hostile = "```\n@all|<b>";
        let text = told(|late| {
            for event in late
                .episodes
                .iter_mut()
                .flat_map(|one| &mut one.evidence.events)
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
        for (rate, events, told) in [
            (50_381.0, 112, "50,000"),
            (720.0, 3, "700"),
            (9_960.0, 11, "10,000"),
            (7.3, 40, "7"),
            (0.2, 1, "0"),
        ] {
            assert_eq!(about(rate, events), told, "{rate} of {events}");
        }
    }
}
