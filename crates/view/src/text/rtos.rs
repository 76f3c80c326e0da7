//! `laggard rtos` for the terminal: one page.

use laggard_answer::rtos::RtosReport;
use laggard_model::printable;

use super::Look;
use super::caveats::caveats;

/// Of what is asked, before the figure that answers.
const VERDICT_COLUMNS: usize = 16;

/// The report as text: the answer, then a criterion below the other, each with the
/// figure that carries its verdict.
pub fn rtos(report: &RtosReport, look: Look) -> String {
    let mut text = filled(look, &report.summary);
    text.push('\n');
    let indent = " ".repeat(VERDICT_COLUMNS);
    for row in &report.rows {
        let verdict = format!("{:<width$}", row.verdict.words(), width = VERDICT_COLUMNS);
        let told = format!("{}: {}", row.criterion, row.because);
        text += &look.hanging(&verdict, &indent, &printable(&told).to_string());
    }
    let remedies = report.remedies();
    if !remedies.is_empty() {
        text.push('\n');
    }
    for remedy in remedies {
        text += &filled(look, &remedy);
    }
    if !report.untried.is_empty() {
        let names: Vec<&str> = report.untried.iter().map(|one| one.name()).collect();
        text.push('\n');
        text += &filled(
            look,
            &format!("It was ended early, before {}.", names.join(", ")),
        );
    }
    text += &caveats("Caveats", &report.caveats, look);
    text
}

fn filled(look: Look, text: &str) -> String {
    look.filled("", &printable(text).to_string())
}

#[cfg(test)]
mod tests {
    use laggard_answer::rtos::{RtosMeasured, rtos as answered};
    use laggard_model::{
        Absence, Cpu, DuelRound, DuelsSeen, Host, InversionRound, InversionsSeen, Lacks, Nanos,
        PrioritiesSeen, RtosCriterion, WaitQueue, WakeSeen, WakesSeen,
    };

    use super::*;

    fn refused() -> Absence {
        Absence {
            reason: "this user may not have threads of its policy".into(),
            remedy: "run as root, or raise the limit with `ulimit -r 99`".into(),
            lacks: Lacks::Rights,
        }
    }

    fn measured() -> RtosMeasured {
        let all = RtosCriterion::ALL[..4].to_vec();
        RtosMeasured::new(Host::default(), Cpu(3), Nanos::from_ms(1), all)
    }

    fn report() -> RtosReport {
        let duel = |computing, woken, us| DuelRound {
            computing,
            woken,
            took: Nanos::from_us(us),
            took_over: computing < woken,
            stolen: None,
        };
        let duels = |rounds: Vec<DuelRound>| DuelsSeen {
            rounds,
            ..DuelsSeen::default()
        };
        let wakes = |queue, wrong: usize| WakesSeen {
            queue,
            absence: None,
            rounds: 1_000,
            wakes: (0..8_000)
                .map(|number| WakeSeen {
                    woken: if number < wrong { 45 } else { 49 },
                    highest: 49,
                })
                .collect(),
        };
        let round = |us, is_inverted| InversionRound {
            waited: Nanos::from_us(us),
            kept_by_middle: Nanos::ZERO,
            is_inverted,
        };
        let mut measured = measured();
        let mut took: Vec<DuelRound> = (0..2_000).map(|_| duel(50, 90, 6)).collect();
        took.push(duel(50, 90, 1_320));
        measured.preemption = Some(Ok(duels(took)));
        let pairs = (1..99).map(|low| duel(low, low + 1, 6));
        measured.priorities = Some(Ok(PrioritiesSeen {
            stated: (1, 99),
            usable: (1..=99).collect(),
            duels: duels(pairs.chain([duel(1, 1, 400)]).collect()),
        }));
        let wrong = |queue| wakes(queue, 2_700 * usize::from(queue == WaitQueue::Condition));
        measured.order = Some(WaitQueue::ALL.map(wrong).to_vec());
        measured.inversion = Some(Ok(InversionsSeen {
            with: vec![round(545, false); 20],
            without: vec![round(5_530, true); 20],
            hold: Nanos::from_us(500),
            middle: Nanos::from_ms(5),
        }));
        answered(&measured)
    }

    #[test]
    fn the_answer_is_first_and_every_verdict_has_its_figure() {
        let expected = "\
2 of 4 that were tried are met, 2 not. These requirements are necessary but not
sufficient (Timmerman 1998): a system that fails one is no good real-time
system, and one that meets all need not be one.

FAIL            preemption: a woken fifo:90 takes over from a computing fifo:50
                in 6.00 us, at most 1.32 ms (2,001 times); 1 took more than
                1.00 ms
pass            priorities: 99 priorities (1 to 99 stated): each of 98 takes
                over from the next lower one, and waits for an equal (1 tried)
FAIL            order: woken by priority: futex, PI futex, semaphore, message
                queue; not: condition (2,700 of 8,000 wakes, as of a fifo:45
                before a fifo:49)
pass            inversion: a lock held for 500 us is had after 545 us at most
                with PTHREAD_PRIO_INHERIT; without it 5.53 ms, as long as others
                compute
";
        assert_eq!(rtos(&report(), Look::default()), expected);
    }

    #[test]
    fn what_would_tell_more_is_said_once() {
        let mut measured = measured();
        measured.preemption = Some(Err(refused()));
        measured.priorities = Some(Err(refused()));

        let text = rtos(&answered(&measured), Look::default());

        let advice = "To have all of it told: run as root, or raise the limit with `ulimit -r 99`.";
        assert_eq!(text.matches(advice).count(), 1, "{text}");
        assert!(
            text.contains("cannot be told  preemption: this user may not"),
            "{text}"
        );
        assert!(
            text.ends_with("\n\nIt was ended early, before order, inversion.\n"),
            "{text}"
        );
    }

    #[test]
    fn it_keeps_to_forty_columns() {
        let look = Look {
            columns: 40,
            ..Look::default()
        };
        let text = rtos(&report(), look);

        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
    }
}
