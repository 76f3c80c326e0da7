//! Several recordings side by side, in short.

use laggard_answer::overview::{LateService, Overview};
use laggard_model::{Route, Service};

use super::super::screen::{Screen, Tone, cut, width};
use super::{Look, Measure, parts, verdict};

/// Of more recordings only the services that applications are run by are shown.
const FEW: usize = 2;

/// How much of each recording is shown.
const SHORT: Measure = Measure {
    doubt: 1,
    verdict: 1,
    ..Measure::FULL
};

/// The overviews of several recordings.
pub fn overviews(all: &[Overview], look: Look) -> Screen {
    let numbers: Vec<String> = (1..=all.len()).map(|at| format!("[{at}]")).collect();
    let mark = numbers.last().map_or(0, |last| width(last)) + 1;
    let narrow = Look {
        columns: look.columns.saturating_sub(mark),
        ..look
    };
    let short = SHORT.on(narrow);
    let mut screen = Screen::default();
    for (one, number) in all.iter().zip(&numbers) {
        let mut part = Screen::default();
        part.push(vec![(Tone::Strong, cut(&one.path, narrow.columns))]);
        part.append(parts::doubts(one, narrow, short));
        part.append(parts::conditions(one, narrow));
        screen.append(part.marked(number, mark));
    }
    screen.gap();
    screen.append(services(all, &numbers, look));
    for (one, number) in all.iter().zip(&numbers) {
        screen.gap();
        let part = verdict::verdicts(one, narrow, short);
        screen.append(part.marked(number, mark));
    }
    screen.gap();
    let more = "More: laggard show DIR for each; show --all, report for all of them";
    screen.fill(more, (Tone::Faint, width(more)), look.room(short.line, 2));
    screen
}

/// One row for each service and recording.
fn services(all: &[Overview], numbers: &[String], look: Look) -> Screen {
    let rows = |one: &Overview| -> Vec<LateService> {
        let is_shown = |row: &&LateService| all.len() <= FEW || row.service.is_thread();
        one.services.iter().filter(is_shown).cloned().collect()
    };
    let mut names: Vec<(Service, Route)> = Vec::new();
    for row in all.iter().flat_map(rows) {
        if !names.contains(&(row.service, row.route)) {
            names.push((row.service, row.route));
        }
    }
    let mark = numbers.last().map_or(0, |last| width(last)) + 1;
    let widest = names.iter().map(|one| width(&parts::name(one.0, one.1)));
    let wide = widest.max().unwrap_or(0).max(width("late by")) + 1;
    let mut screen = Screen::default();
    let head = format!(
        "{:wide$}{:mark$}{}",
        "late by",
        "",
        parts::heads(look, wide + mark)
    );
    screen.push(vec![(Tone::Faint, cut(&head, look.columns))]);
    for (service, route) in names {
        let mut name = parts::name(service, route);
        for (one, number) in all.iter().zip(numbers) {
            let row = rows(one)
                .into_iter()
                .find(|row| (row.service, row.route) == (service, route));
            let figures =
                row.map_or_else(String::new, |row| parts::figures(&row, look, wide + mark));
            let line = format!("{name:wide$}{number:mark$}{figures}");
            screen.plain_line(cut(&line, look.columns));
            name.clear();
        }
    }
    screen
}
