//! Whether the machine serves an application, in a sentence or a few.

use laggard_answer::overview::{Enough, Fit, Overview, Unfailing};
use laggard_answer::qos::Fitness;
use laggard_model::text::{Unit, mean_time};

use super::super::screen::{Room, Screen, Tone, width};
use super::often::{dropouts, narrowed};
use super::parts::name;
use super::{Look, Measure, groups};
use crate::phrase::qos::{remedy as resolution_remedy, tone, verdict as verdict_word};

/// The verdict on the application that was asked about, or those on the
/// applications of the catalogue.
pub(super) fn verdicts(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    if let Some(why) = &overview.unanswered {
        let head = "NO ANSWER:";
        let room = look.room(measure.verdict, 2);
        screen.fill(&format!("{head} {why}"), (Tone::Bad, head.len()), room);
    }
    match overview.fits.as_slice() {
        [only] => one(only, &mut screen, look.room(measure.verdict, 2)),
        several => {
            let on_windows = overview.conditions.is_windows();
            screen.append(groups::verdicts(several, on_windows, look, measure));
        }
    }
    screen
}

fn one(fit: &Fit, screen: &mut Screen, room: Room) {
    let (verdict, tone) = (verdict_word(fit.verdict), tone(fit.verdict));
    let head = format!("{verdict} for {}", fit.application.name);
    let text = format!(
        "{head}: {} ({}, slack {})",
        dropouts(fit),
        name(fit.service, fit.route),
        Unit::Auto.write_nanos(fit.application.slack_ns),
    );
    screen.fill(&text, (tone, width(&head)), room);
    if let Some(next) = what_then(fit) {
        screen.fill(&format!("  {next}"), (Tone::Plain, 0), room);
    }
}

/// What would decide, or what would do; and what would tell more.
fn what_then(fit: &Fit) -> Option<String> {
    let narrows = fit.narrowed_by_ns.map(narrowed);
    let next = match fit.verdict {
        Fitness::Fit => None,
        Fitness::NotFit => Some(enough(fit)),
        Fitness::Unknown => fit.decided_by_ns.map(decided).or_else(|| finer(fit)),
    };
    let all: Vec<String> = next.into_iter().chain(narrows).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn finer(fit: &Fit) -> Option<String> {
    let remedy = resolution_remedy(&fit.resolution)?;
    Some(format!("this recording cannot tell: {remedy}"))
}

fn enough(fit: &Fit) -> String {
    let length = Unit::Auto.write_nanos(fit.application.buffer_ns);
    match (fit.enough, fit.unfailing) {
        (
            Some(Enough {
                buffers,
                is_sure: true,
            }),
            _,
        ) => format!("{buffers} buffers of {length} are enough for one dropout an hour at most"),
        (Some(Enough { buffers, .. }), _) => format!(
            "by the estimate {buffers} buffers of {length} are enough for one dropout an hour; \
             not proved"
        ),
        (None, _) if fit.waited_ns.is_some() => format!(
            "how many buffers of {length} are enough is not known: it was still waiting when \
             measuring ended"
        ),
        (None, Some(Unfailing { buffers, record_ns })) => format!(
            "{buffers} buffers of {length} did not run dry; proof takes {} without a dropout",
            mean_time(record_ns)
        ),
        (None, None) => {
            let finer = resolution_remedy(&fit.resolution);
            format!(
                "how many buffers of {length} are enough is not known: {}",
                finer.unwrap_or_else(|| "laggard qos --curve".into())
            )
        }
    }
}

fn decided(ns: f64) -> String {
    format!(
        "record {}: no dropout in that shows that there is one an hour at most",
        mean_time(ns)
    )
}
