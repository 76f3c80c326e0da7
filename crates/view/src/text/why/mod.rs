//! `laggard why` for the terminal: who made activations late, and what that
//! rests on.

mod full;

use laggard_answer::show::at_least;
use laggard_answer::why::{self, CauseRow, WhyReport, place};
use laggard_model::text::{Unit, count, span};
use laggard_model::{Caveat, Nanos, printable, printable_lines};

use super::Look;
use super::grid::Grid;

/// The causes of a recording's episodes as text: a few lines, or everything.
pub fn why(report: &WhyReport, all: bool, look: Look) -> String {
    let text = if all {
        full::in_full(report, look)
    } else {
        in_short(report, look)
    };
    printable_lines(&text).to_string()
}

fn in_short(report: &WhyReport, look: Look) -> String {
    let mut text = String::new();
    let mut reservations = report.reservations.iter();
    match report.causes.first() {
        Some(first) => {
            text += &look.filled("", &sentence(report, first));
            text.push('\n');
            text += &causes(report, look);
        }
        // Nothing was late, or why that is not known.
        None if report.episodes == 0 => {
            let first = reservations.next();
            text += &look.filled("", first.map_or("No late activation was kept.", |one| one));
        }
        None => text += &look.filled("", &late(report)),
    }
    text.push('\n');
    for one in reservations {
        text += &look.filled("  ", one);
    }
    for caveat in &report.shortfalls {
        text += &look.filled("  ", &missing(caveat));
    }
    text += &look.filled("  ", &basis(report));
    text
}

fn write(time: Nanos) -> String {
    Unit::Auto.write_nanos(time)
}

/// How many activations were late, and when.
fn late(report: &WhyReport) -> String {
    let of = report
        .service
        .map_or(String::new(), |service| format!(" of `{service}`"));
    let (s, were) = match report.wakeups {
        1 => ("", "was"),
        _ => ("s", "were"),
    };
    format!(
        "{} wakeup{s}{of} {were} late in {}",
        count(report.wakeups),
        span(report.duration_ns)
    )
}

/// The cause with most time, of how much that is, and what is without it.
fn sentence(report: &WhyReport, first: &CauseRow) -> String {
    let rhythm = rhythm(first);
    let largest = why::at_least(report.largest_is_at_least, report.largest_ns);
    let without = why::at_least(first.largest_without_is_at_least, first.largest_without_ns);
    let would = if largest == without {
        // What takes the most time need not be what made the largest.
        format!("Without it the largest would still be {largest}.")
    } else {
        format!("Without it the largest, {largest}, would be {without}.")
    };
    format!(
        "{} {}{rhythm}: {:.0} % of the {} by which {}. {would}",
        if first.share < 0.5 {
            "Most of all"
        } else {
            "Mostly"
        },
        first.on_cpus(),
        first.share * 100.0,
        write(report.total_ns),
        late(report)
    )
}

/// How often it comes, where it has a rhythm.
fn rhythm(row: &CauseRow) -> String {
    row.rhythm.as_ref().map_or(String::new(), |rhythm| {
        format!(
            ", every {}{} ({} of {} seen)",
            write(rhythm.period_ns),
            rhythm.spell(),
            rhythm.hits,
            rhythm.due
        )
    })
}

/// In fewer columns a cause has no room beside its numbers.
const LEAST_BESIDE: usize = 68;

/// The causes with most time, a line or two each.
fn causes(report: &WhyReport, look: Look) -> String {
    let line = |share: &str, total: &str, times: &str, most: &str, without: &str| {
        format!("{share:>5}  {total:>7}  {times:>6}  {most:>7}  {without:>10}  ")
    };
    let names = ["share", "time", "times", "up to", "without it"];
    let [share, time, times, most, without] = names;
    let head = line(share, time, times, most, without);
    let rest = " ".repeat(head.len());
    let mut text = format!("{head}cause\n");
    let mut table = Grid::new(["cause"].into_iter().chain(names));
    for (place, row) in report.causes.iter().enumerate() {
        // The sentence has that of the first.
        let name = match place {
            0 => row.on_cpus(),
            _ => row.on_cpus() + &rhythm(row),
        };
        let numbers = [
            format!("{:.0} %", row.share * 100.0),
            write(row.total_ns),
            count(row.wakeups),
            at_least(row.is_at_least, &write(row.largest_ns)),
            at_least(
                row.largest_without_is_at_least,
                &write(row.largest_without_ns),
            ),
        ];
        let [share, time, times, most, without] = &numbers;
        let beside = line(share, time, times, most, without);
        text += &look.hanging(&beside, &rest, &name);
        table.add_row([name].into_iter().chain(numbers));
    }
    if let Some(untraced) = &report.untraced {
        let name = String::from("no trace data");
        let numbers = [
            format!("{:.0} %", untraced.share * 100.0),
            write(untraced.total_ns),
            count(untraced.wakeups),
            String::new(),
            String::new(),
        ];
        let [share, time, times, most, without] = &numbers;
        let beside = line(share, time, times, most, without);
        text += &look.hanging(&beside, &rest, &name);
        table.add_row([name].into_iter().chain(numbers));
    }
    let more = match report.more_causes {
        0 => String::new(),
        more => format!("and {more} more (--top, --all)\n"),
    };
    match look.columns < LEAST_BESIDE {
        true => table.written(look) + &more,
        false if more.is_empty() => text,
        false => text + &rest + &more,
    }
}

/// The largest, and what counted as late.
fn basis(report: &WhyReport) -> String {
    let largest = report.largest.first().map_or(String::new(), |one| {
        format!(
            "The largest is {} of {}, {:.3} s after the start: --episode {}. ",
            why::at_least(one.is_at_least, one.latency_ns),
            place(one.line),
            one.after_start_ns.as_secs_f64(),
            one.number
        )
    });
    let limits = || report.thresholds.iter().filter_map(|one| one.threshold_ns);
    let limit = match (limits().min(), limits().max()) {
        (Some(least), Some(most)) if least == most => {
            format!("Late is more than {}", write(least))
        }
        (Some(least), Some(most)) => {
            format!(
                "Late is more than {} to {}, by line",
                write(least),
                write(most)
            )
        }
        _ => "What is late was not decided".into(),
    };
    format!(
        "{largest}{limit}. Not kept: {}; evidence overwritten: {}; switches of threads not seen: \
         {}. All: --all",
        count(report.surplus),
        count(report.overwritten),
        unseen(report)
    )
}

/// How many switches of threads were not seen.
fn unseen(report: &WhyReport) -> String {
    report
        .unseen_switches
        .map_or_else(|| "not counted".into(), count)
}

/// What of the recording is missing.
fn missing(caveat: &Caveat) -> String {
    format!(
        "Missing: {}; {}",
        printable(&caveat.what),
        printable(&caveat.advice)
    )
}

#[cfg(test)]
mod tests {
    use laggard_answer::why::{Explained, RecordedEpisodes, RhythmRow};
    use laggard_model::Nanos;

    use laggard_made::late::{episode, manifest, notes};

    use crate::text::Look;

    fn late() -> RecordedEpisodes {
        RecordedEpisodes {
            path: "r.laggard".into(),
            manifest: manifest(),
            episodes: vec![episode(1)],
            notes: notes(),
            latest: Vec::new(),
            shortfalls: Vec::new(),
        }
    }

    #[test]
    fn a_rhythm_is_told_once_of_whichever_cause_has_it() {
        let late = late();
        let mut report = Explained::new(&late, None).report(3);
        assert!(report.causes.len() > 1, "{report:?}");
        for place in [0, 1] {
            report.causes.iter_mut().for_each(|one| one.rhythm = None);
            report.causes[place].rhythm = Some(RhythmRow {
                period_ns: Nanos::from_secs(5),
                period_error_ns: None,
                hits: 6,
                due: 7,
                p: 0.001,
                none_before_ns: None,
                none_after_ns: None,
            });

            let text = super::why(&report, false, Look::default());

            let words: Vec<&str> = text.split_whitespace().collect();
            let told = words
                .join(" ")
                .matches("every 5.00 s (6 of 7 seen)")
                .count();
            assert_eq!(told, 1, "of cause {place}:\n{text}");
        }
    }

    #[test]
    fn the_text_shows_causes_losses_and_thresholds() {
        let late = late();

        let report = Explained::new(&late, None).report(3);
        let say = |all| super::why(&report, all, Look::default());
        let (short, text) = (say(false), say(true));

        for part in [
            "1 late activations explained, of 60 s",
            "higher-priority thread: hog",
            "fifo:90 on CPU 1",
            "Late is more than: fifo:90 on CPU 1 50.0 us",
            "Late and not kept: 3; evidence overwritten: 0",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(
            short.starts_with("Mostly higher-priority thread: hog on CPU 1: 99 % of"),
            "{short}"
        );
        let wide = short.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{short}");
    }
}
