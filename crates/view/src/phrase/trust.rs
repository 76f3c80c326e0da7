//! Reasons to doubt a recording, in words.

use laggard_answer::qos::FinerPeriod;
use laggard_answer::trust::{
    CpuCost, Distrust, LOST_IN, LinePart, MeasuringRemedy, UnseenIn, UnseenStage,
};
use laggard_answer::{Doubt, Note, Shortfall, Trust};
use laggard_model::name::series_words;

use super::warning;
use crate::doc::Cell;

/// Maximum number of lines that a reason names. The others are counted.
const MAX_NAMED: usize = 3;
const RECORD_AGAIN: &str = "record again, and see `laggard doctor`";

/// Returns all reasons why figures cannot be trusted, with their remedies; `None`: they can.
pub fn reasons(trust: &Trust) -> Option<String> {
    let reasons = trust.reasons();
    (!reasons.is_empty()).then(|| joined(reasons))
}

/// Joins reasons with their remedies.
pub fn joined(reasons: &[Distrust]) -> String {
    let reasons: Vec<String> = reasons.iter().map(reason).collect();
    reasons.join("; ")
}

/// States a problem and its remedy.
pub fn reason(reason: &Distrust) -> String {
    match reason {
        Distrust::Empty => problem(reason),
        _ => format!("{}; {}", problem(reason), remedy(reason)),
    }
}

/// States the problem.
pub fn problem(reason: &Distrust) -> String {
    match reason {
        Distrust::Empty => "nothing was measured".into(),
        Distrust::TooFew { samples: 1 } => "only 1 wakeup was measured".into(),
        Distrust::TooFew { samples } => format!("only {samples} wakeups were measured"),
        Distrust::Lost { lost, of, .. } => {
            let were_lost = match lost {
                1 => "1 wakeup was lost".to_owned(),
                _ => format!("{lost} wakeups were lost"),
            };
            format!("{were_lost}, more than one in {LOST_IN} of {of}")
        }
        Distrust::LossyLines { lines, .. } => format!(
            "series lost more than one in {LOST_IN} of their wakeups: {}",
            named(lines, |part| format!(
                "{} {} of {}",
                place(part),
                part.count,
                part.of
            ))
        ),
        Distrust::SparseLines { lines } => format!(
            "series have less than half of the wakeups of the same service on another CPU: {}",
            named(lines, |part| format!(
                "{} has {} of {}",
                place(part),
                part.count,
                part.of
            ))
        ),
        Distrust::ClockBack { times: 1 } => "the clock ran backwards once".into(),
        Distrust::ClockBack { times } => format!("the clock ran backwards {times} times"),
        Distrust::StageUnseen(unseen) => unseen_stage(unseen),
        Distrust::Rescheduled { warning } | Distrust::TraceIncomplete { warning } => {
            warning.what.clone()
        }
        Distrust::OwnCost { cost, .. } => overhead(cost),
    }
}

/// States the remedy.
pub fn remedy(reason: &Distrust) -> String {
    match reason {
        Distrust::Empty | Distrust::SparseLines { .. } => RECORD_AGAIN.into(),
        Distrust::TooFew { .. } => "record for longer".into(),
        Distrust::Lost { remedy, .. }
        | Distrust::LossyLines { remedy, .. }
        | Distrust::OwnCost { remedy, .. } => measuring(*remedy).into(),
        Distrust::ClockBack { .. } => "check the clocksource".into(),
        Distrust::StageUnseen(_) => {
            "use the latencies, not their parts, and see `laggard doctor`".into()
        }
        Distrust::Rescheduled { warning } | Distrust::TraceIncomplete { warning } => {
            warning.advice.clone()
        }
    }
}

fn unseen_stage(unseen: &UnseenStage) -> String {
    let places = match &unseen.places {
        UnseenIn::Lines(lines) => named(lines, |part| {
            format!("{} ({} of {})", place(part), part.count, part.of)
        }),
        UnseenIn::All { count, of } => format!("{count} of {of} wakeups"),
    };
    format!(
        "the stage `{}` was not seen in {places}; its time is part of the next stage",
        unseen.stage
    )
}

fn overhead(cost: &CpuCost) -> String {
    let percent = 100.0 * cost.busy;
    match cost.cpus {
        1 => format!("overhead {percent:.0} % of the measured CPU"),
        several => format!(
            "overhead {:.0} % of the {several} measured CPUs ({percent:.0} % of one CPU)",
            100.0 * cost.share()
        ),
    }
}

const fn measuring(remedy: MeasuringRemedy) -> &'static str {
    match remedy {
        MeasuringRemedy::FasterDisk => {
            "record to a faster or emptier disk (`-o`), or keep less with `--keep tail`"
        }
        MeasuringRemedy::StayPut => {
            "do not move the measuring threads, and keep the CPUs online during the recording"
        }
        MeasuringRemedy::Uninterrupted => {
            "record again without stopping laggard (a signal, a debugger, suspend)"
        }
        MeasuringRemedy::LetRun => {
            "find out what kept the service from running (`laggard why`, if late wakeups were recorded), or record until it runs"
        }
        MeasuringRemedy::RaiseLess => {
            "record with a longer --period, or find out what kept the thread that raises the interrupt"
        }
        MeasuringRemedy::InTurn => {
            "record with a longer --period or fewer services of the driver, which take turns, and let no other program use it during the recording"
        }
        MeasuringRemedy::NoEpisodes => {
            "record with `--episodes off`, which records no causes of late wakeups"
        }
        MeasuringRemedy::FewerThreads => "attach to fewer threads (`--tid`, `--comm`)",
        MeasuringRemedy::Less {
            several_services: true,
        } => {
            "record with a longer --period, which misses more of the short stalls, or fewer services"
        }
        MeasuringRemedy::Less {
            several_services: false,
        } => "record with a longer --period, which misses more of the short stalls",
    }
}

fn place(LinePart { line, .. }: &LinePart) -> String {
    let name = series_words(line.service, line.route);
    format!("{name} on CPU {}", line.cpu)
}

/// Describes the first parts and counts the others.
fn named(parts: &[LinePart], write: impl Fn(&LinePart) -> String) -> String {
    let first: Vec<String> = parts.iter().take(MAX_NAMED).map(write).collect();
    let more = match parts.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        1 => " and 1 more series".into(),
        more => format!(" and {more} more series"),
    };
    first.join(", ") + &more
}

/// States a missing part of a recording and the remedy.
pub(crate) fn missing(shortfall: &Shortfall) -> String {
    format!("{shortfall}; {}", shortfall.advice())
}

/// States a doubt about a recording.
pub(crate) fn doubt(doubt: &Doubt) -> String {
    match doubt {
        Doubt::Untrustworthy(reasons) => format!("NOT TRUSTWORTHY: {}", joined(reasons)),
        Doubt::Scripted => "from a script: NOT a measurement".into(),
        Doubt::Lost(1) => "1 sample was lost; it may have been a late one".into(),
        Doubt::Lost(lost) => format!("{lost} samples were lost; they may have been late ones"),
        Doubt::Missing(shortfall) => missing(shortfall),
        Doubt::Measuring(doubt) => reason(doubt),
        Doubt::Caveat(caveat) => warning(caveat),
    }
}

/// States a doubt with its recording, if the answer has several.
pub(crate) fn note(note: &Note) -> String {
    let words = doubt(&note.doubt);
    match &note.recording {
        Some(recording) => format!("{recording}: {words}"),
        None => words,
    }
}

/// Advises a shorter sampling period, with its overhead.
pub(crate) fn finer(finer: &FinerPeriod) -> String {
    if !finer.can_be_recorded() {
        return "no period that can be recorded is short enough".into();
    }
    let advice = format!("record with `--period {}`", finer.period_ns);
    let Some(cpus) = finer.cpus() else {
        return advice;
    };
    let disturbs = if finer.disturbs() {
        "; that disturbs the measurement: record fewer services (`--services`)"
    } else {
        ""
    };
    format!(
        "{advice} (overhead about {} % of one CPU, {} % at {} in this recording){disturbs}",
        percent(cpus),
        percent(finer.recorded_cpus),
        Cell::Time(finer.recorded_period_ns),
    )
}

fn percent(cpus: f64) -> String {
    if cpus < 0.1 {
        format!("{:.1}", 100.0 * cpus)
    } else {
        format!("{:.0}", 100.0 * cpus)
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::*;

    fn advice(period_us: u64, recorded_cpus: f64) -> String {
        finer(&FinerPeriod {
            period_ns: Nanos::from_us(period_us),
            recorded_period_ns: Nanos::from_ms(1),
            recorded_cpus,
        })
    }

    #[test]
    fn finer_period_has_its_overhead_and_a_warning_if_it_disturbs() {
        assert_eq!(
            advice(50, 0.02),
            "record with `--period 50us` (overhead about 40 % of one CPU, 2.0 % at 1.00 ms in this recording)"
        );
        assert_eq!(
            advice(50, 0.04),
            "record with `--period 50us` (overhead about 80 % of one CPU, 4.0 % at 1.00 ms in this recording); that \
             disturbs the measurement: record fewer services (`--services`)"
        );
        // Recordings of an earlier version lack the overhead.
        assert_eq!(advice(50, 0.0), "record with `--period 50us`");
    }

    #[test]
    fn finer_period_that_would_be_refused_is_not_advised() {
        assert_eq!(advice(10, 0.0), "record with `--period 10us`");
        assert_eq!(
            advice(9, 0.0),
            "no period that can be recorded is short enough"
        );
    }
}
