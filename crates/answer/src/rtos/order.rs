//! Predictable synchronization: whoever waits is woken by priority.

use laggard_model::text::count;
use laggard_model::{Absence, RtosCriterion, WaitQueue, WakeSeen, WakesSeen};
use schemars::JsonSchema;
use serde::Serialize;

use super::{RtosRow, RtosVerdict};

/// Fewer rounds decide nothing where all are in order.
const ENOUGH: u64 = 100;

/// What was seen of one way of waiting.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct QueueOrder {
    /// The way.
    pub queue: WaitQueue,
    /// The calls.
    pub calls: &'static str,
    /// Rounds of eight waiting threads each.
    pub rounds: u64,
    /// Wakes.
    pub wakes: usize,
    /// Wakes of one while another that was more urgent waited.
    pub out_of_order: usize,
    /// The first such: the priority of who was woken, and the highest that waited.
    pub example: Option<(u8, u8)>,
    /// Why it could not be tried, or not to the end.
    pub absence: Option<Absence>,
}

pub(super) fn queue(seen: &WakesSeen) -> QueueOrder {
    let wrong = |wake: &&WakeSeen| wake.woken < wake.highest;
    let first = seen.wakes.iter().find(wrong);
    QueueOrder {
        queue: seen.queue,
        calls: seen.queue.about(),
        rounds: seen.rounds,
        wakes: seen.wakes.len(),
        out_of_order: seen.wakes.iter().filter(wrong).count(),
        example: first.map(|wake| (wake.woken, wake.highest)),
        absence: seen.absence.clone(),
    }
}

pub(super) fn row(queues: &[QueueOrder]) -> RtosRow {
    let (verdict, because) = judged(queues);
    let absence = queues.iter().find_map(|queue| queue.absence.clone());
    RtosRow {
        criterion: RtosCriterion::Order,
        verdict,
        because,
        absence,
    }
}

fn judged(queues: &[QueueOrder]) -> (RtosVerdict, String) {
    let is_wrong = |queue: &&QueueOrder| queue.out_of_order > 0;
    let is_whole = |queue: &&QueueOrder| queue.absence.is_none() && queue.rounds >= ENOUGH;
    let names = |some: Vec<&QueueOrder>| {
        let names: Vec<&str> = some.iter().map(|queue| queue.queue.name()).collect();
        names.join(", ")
    };
    let right = queues.iter().filter(|it| is_whole(it) && !is_wrong(it));
    let right = names(right.collect());
    let wrong: Vec<&QueueOrder> = queues.iter().filter(is_wrong).collect();
    let untold = queues.iter().filter(|it| !is_whole(it) && !is_wrong(it));
    let untold: Vec<String> = untold.map(why_untold).collect();
    let rounds = queues.iter().map(|queue| queue.rounds).min().unwrap_or(0);
    if !wrong.is_empty() {
        let right = match right.is_empty() {
            true => "none".to_owned(),
            false => right,
        };
        let wrong: Vec<String> = wrong.into_iter().map(out_of_order).collect();
        let because = format!("woken by priority: {right}; not: {}", wrong.join(", "));
        return (RtosVerdict::Fail, because);
    }
    // What all lack is said once.
    if let Some(reason) = common_reason(queues) {
        return (RtosVerdict::CannotBeTold, reason.to_owned());
    }
    if !untold.is_empty() || queues.is_empty() {
        let right = match right.is_empty() {
            true => String::new(),
            false => format!("woken by priority: {right}; "),
        };
        return (
            RtosVerdict::CannotBeTold,
            format!("{right}{}", untold.join("; ")),
        );
    }
    let because = format!(
        "woken by priority in each of {} rounds: {right}",
        count(rounds)
    );
    (RtosVerdict::Pass, because)
}

fn out_of_order(queue: &QueueOrder) -> String {
    let (woken, highest) = queue.example.unwrap_or_default();
    format!(
        "{} ({} of {} wakes, as of a fifo:{woken} before a fifo:{highest})",
        queue.queue.name(),
        count(queue.out_of_order as u64),
        count(queue.wakes as u64)
    )
}

/// Why none of them could be tried, where that is the same for all.
fn common_reason(queues: &[QueueOrder]) -> Option<&str> {
    let mut reasons = queues
        .iter()
        .map(|queue| Some(&queue.absence.as_ref()?.reason));
    let first = reasons.next()??;
    reasons.all(|other| other == Some(first)).then_some(first)
}

fn why_untold(queue: &QueueOrder) -> String {
    match &queue.absence {
        Some(absence) => format!("{}: {}", queue.queue.name(), absence.reason),
        None => format!("{}: only {} rounds", queue.queue.name(), queue.rounds),
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Lacks;

    use super::*;

    fn seen(queue: WaitQueue, rounds: u64, wrong: u64) -> WakesSeen {
        let wakes = (0..8 * rounds).map(|number| WakeSeen {
            woken: if number < wrong { 43 } else { 49 },
            highest: 49,
        });
        WakesSeen {
            queue,
            absence: None,
            rounds,
            wakes: wakes.collect(),
        }
    }

    fn verdict(seen: &[WakesSeen]) -> (RtosVerdict, String) {
        judged(&seen.iter().map(queue).collect::<Vec<_>>())
    }

    #[test]
    fn it_passes_only_where_every_wake_was_of_the_most_urgent() {
        let all = WaitQueue::ALL.map(|queue| seen(queue, 1_000, 0));

        let (verdict, because) = verdict(&all);

        assert_eq!(verdict, RtosVerdict::Pass);
        assert_eq!(
            because,
            "woken by priority in each of 1,000 rounds: futex, PI futex, condition, semaphore, message queue"
        );
    }

    #[test]
    fn what_wakes_out_of_order_once_is_named() {
        let some = [
            seen(WaitQueue::Futex, 1_000, 0),
            seen(WaitQueue::Condition, 1_000, 1),
        ];

        let (verdict, because) = verdict(&some);

        assert_eq!(verdict, RtosVerdict::Fail);
        assert_eq!(
            because,
            "woken by priority: futex; not: condition (1 of 8,000 wakes, as of a fifo:43 before a fifo:49)"
        );
    }

    #[test]
    fn what_all_of_them_lack_is_said_once() {
        let refused = WaitQueue::ALL.map(|queue| WakesSeen {
            absence: Some(Absence {
                reason: "this user may not".into(),
                remedy: "run as root".into(),
                lacks: Lacks::Rights,
            }),
            ..seen(queue, 0, 0)
        });

        let (told, because) = verdict(&refused);

        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert_eq!(because, "this user may not");
    }

    #[test]
    fn what_could_not_be_tried_is_named_and_not_called_right() {
        let mut absent = seen(WaitQueue::MessageQueue, 0, 0);
        absent.absence = Some(Absence {
            reason: "mq_receive, mq_send: refused, function not implemented".into(),
            remedy: "use a kernel with them".into(),
            lacks: Lacks::Kernel,
        });
        let some = [seen(WaitQueue::Futex, 1_000, 0), absent];

        let (told, because) = verdict(&some);

        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert!(
            because.starts_with("woken by priority: futex; message queue: mq_"),
            "{because}"
        );
        assert_eq!(
            verdict(&[seen(WaitQueue::Futex, 99, 0)]).0,
            RtosVerdict::CannotBeTold
        );
    }
}
