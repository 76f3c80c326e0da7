//! What the next hour brings, on the first screen.

use laggard_answer::forecast::{StaysBelow, is_almost_sure, percent};
use laggard_answer::overview::{NextHour, Overview};
use laggard_answer::show::at_least;
use laggard_model::text::{Unit, mean_time, rough_time};

use super::super::screen::{Screen, Tone, width};
use super::{Look, Measure};

/// What an hour like this brings.
pub(super) fn next_hour(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    let Some(hour) = &overview.next_hour else {
        return screen;
    };
    let ahead = &hour.ahead;
    let (chance, is_sure) = (
        percent(ahead.new_largest),
        is_almost_sure(ahead.new_largest),
    );
    let chance = match (ahead.is_at_least, ahead.is_at_most) {
        (true, false) if !is_sure => at_least(true, &chance),
        (false, true) if is_sure => "at most 100 %".into(),
        (false, true) => format!("at most {chance}"),
        (true, true) => format!("about {chance}"),
        _ => chance,
    };
    let (next, such) = horizon(hour);
    let head = format!("Next {next} like this:");
    let mut text = format!(
        "{head} {chance} chance of more than {}",
        Unit::Auto.write_nanos(hour.largest_ns)
    );
    let short = text.clone();
    let nine = ahead
        .stays_below
        .iter()
        .max_by(|a, b| a.share.total_cmp(&b.share));
    if let Some(nine) = nine {
        text += &format!("; {}", below(nine, such, ahead.is_at_least));
    }
    if measure.hour == 1 && width(&text) > look.columns {
        text = short;
    }
    screen.fill(
        &text,
        (Tone::Strong, head.len()),
        look.room(measure.hour, 2),
    );
    screen
}

/// What the chance is of: an hour, unless what happens lasts so long that
/// nothing is known of an hour.
fn horizon(hour: &NextHour) -> (String, &'static str) {
    let measured = 3.6e12 / hour.usage.compression.min(1.0);
    match hour.ahead.horizon_ns {
        long if long > measured * 1.001 => (mean_time(long), "times"),
        _ => ("hour".into(), "hours"),
    }
}

/// What most of such horizons stay below: as was seen, or as is assumed.
fn below(asked: &StaysBelow, such: &str, is_open: bool) -> String {
    let of_ten = (10.0 * asked.share).round();
    let write = |is_at_least, ns| at_least(is_at_least, &Unit::Auto.write(ns));
    let (seen, assumed) = (asked.record_ns, asked.assumed_record_ns);
    if asked.is_unresolved {
        return "every latency was 0 ns, so that no bound is known".into();
    }
    match (asked.bound_ns, asked.assumed_ns) {
        (Some(bound), _) => format!(
            "{of_ten} of 10 such {such} stay within {}",
            write(asked.is_at_least, bound)
        ),
        (None, Some(bound)) => format!(
            "assumed, not seen: {of_ten} of 10 such {such} stay within {}; record {} to see it",
            write(is_open, bound),
            rough_time(seen, 1)
        ),
        (None, None) => format!(
            "record {} for an assumed bound, {} for one that was seen",
            rough_time(assumed, 2),
            rough_time(seen, 1)
        ),
    }
}
