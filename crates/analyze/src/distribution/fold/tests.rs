use super::*;
use laggard_model::{Activation, Cpu, LineCount, LineId, Losses, Route};
use proptest::prelude::{any, prop, proptest};

const LINES: [Line; 2] = [
    Line::new(Cpu(0), Service::Fifo(90), Route::Direct),
    Line::new(Cpu(1), Service::Fifo(90), Route::Direct),
];

fn activation(line: u16, seq: u64, missed: bool, steps: &[(Stage, u64)]) -> Activation {
    let mut activation = Activation {
        line: LineId(line),
        seq,
        expiry: Nanos::from_secs(seq),
        missed,
        censored: false,
        steps: [None; STAGES.len()],
    };
    for &(stage, ns) in steps {
        activation.steps[stage.index()] = Some(Nanos::from_ns(ns));
    }
    activation
}

fn batch(activations: &[Activation]) -> Batch {
    let mut batch = Batch::default();
    activations
        .iter()
        .for_each(|activation| batch.push(activation));
    batch
}

#[test]
fn missed_activations_count_in_the_latency_and_in_no_stage() {
    let mut fold = Fold::new(2, Split::Whole);
    fold.add(&batch(&[
        activation(
            0,
            0,
            false,
            &[(Stage::Irq, 10), (Stage::Waking, 5), (Stage::User, 7)],
        ),
        activation(0, 1, true, &[(Stage::User, 900)]),
    ]));

    let groups = fold.groups(&LINES, false);
    let fifo = groups
        .iter()
        .find(|group| group.key.service == Service::Fifo(90))
        .unwrap();

    assert_eq!((fifo.latency.histogram().count(), fifo.missed), (2, 1));
    assert_eq!(fifo.latency.histogram().max(), Some(Nanos::from_ns(900)));
    assert_eq!(fifo.latency.largest_at(), Some(Nanos::from_secs(1)));
    assert_eq!(
        fifo.steps[Stage::User.index()].histogram().max(),
        Some(Nanos::from_ns(7))
    );
    assert_eq!(fifo.thread.histogram().max(), Some(Nanos::from_ns(7)));
}

/// The parts of a wakeup need not have their maxima in the same wakeup.
#[test]
fn time_after_the_softirq_is_the_sum_of_its_parts_per_wakeup() {
    let steps = |waking, user| {
        let before = [(Stage::Irq, 1_000), (Stage::Softirq, 500)];
        [
            before[0],
            before[1],
            (Stage::Waking, waking),
            (Stage::User, user),
        ]
    };
    let mut fold = Fold::new(2, Split::Whole);
    fold.add(&batch(&[
        activation(0, 0, false, &steps(70, 7)),
        activation(0, 1, false, &steps(5, 90)),
        activation(0, 2, false, &[(Stage::Irq, 10), (Stage::User, 9_000)]),
    ]));

    let groups = fold.groups(&LINES, false);
    let mut groups = groups.iter();
    let fifo = groups.find(|group| group.key.service == Service::Fifo(90));

    let after = fifo.unwrap().after_softirq.histogram();
    assert_eq!((after.count(), after.max()), (2, Some(Nanos::from_ns(95))));
}

#[test]
fn min_is_of_served_and_of_stored_activations() {
    let late = |ns: u64| {
        let mut tally = Tally::default();
        tally.add(Nanos::from_ns(ns), Nanos::ZERO);
        tally
    };
    let mut counted = Fold::new(2, Split::Whole);
    counted.add(&batch(&[
        activation(0, 0, false, &[(Stage::Irq, 5_000), (Stage::User, 3_000)]),
        activation(0, 1, true, &[(Stage::User, 3)]),
    ]));
    let mut stored = Fold::new(2, Split::Whole);
    stored.add_stored(LineId(0), Figure::Missed, &late(3));
    stored.add_stored(LineId(0), Figure::Latency, &late(8_000));
    stored.add_stored(LineId(0), Figure::Censored, &late(1));

    for fold in [counted, stored] {
        let groups = fold.groups(&LINES, false);
        let is_fifo = |group: &&Group| group.key.service == Service::Fifo(90);
        let fifo = groups.iter().find(is_fifo).unwrap();
        assert_eq!(fifo.least, Some(Nanos::from_us(8)));
    }
}

#[test]
fn losses_count_in_the_groups_of_their_line_or_in_all() {
    let mut fold = Fold::new(2, Split::Whole);
    let count = |lost| LineCount {
        lost,
        ..LineCount::default()
    };
    let losses = Losses {
        ring_full: 10,
        ..Losses::default()
    };
    fold.set_lost(Lost::new(&[count(7), count(1)], &losses));
    fold.add(&batch(&[activation(
        0,
        0,
        false,
        &[(Stage::Irq, 10), (Stage::User, 7)],
    )]));

    let lost = |by_cpu| -> Vec<u64> {
        let groups = fold.groups(&LINES, by_cpu);
        groups.iter().map(|group| group.lost).collect()
    };

    assert_eq!(lost(false), [9, 10], "of the interrupts and of both lines");
    assert_eq!(lost(true), [9, 9, 3]);
}

#[test]
fn interrupts_of_every_line_are_samples_of_the_irq_service() {
    let mut fold = Fold::new(2, Split::Whole);
    fold.add(&batch(&[
        activation(0, 0, false, &[(Stage::Irq, 10), (Stage::User, 7)]),
        activation(1, 0, false, &[(Stage::Irq, 30), (Stage::User, 7)]),
    ]));

    let groups = fold.groups(&LINES, false);

    assert_eq!(groups[0].key.service, Service::Irq);
    assert_eq!(groups[0].latency.histogram().count(), 2);
}

#[test]
fn minutes_are_separate() {
    let mut fold = Fold::new(2, Split::Minutes { since: Nanos::ZERO });
    fold.add(&batch(&[
        activation(0, 0, false, &[(Stage::User, 1)]),
        activation(0, 59, false, &[(Stage::User, 2)]),
        activation(0, 60, false, &[(Stage::User, 3)]),
    ]));

    let parts: Vec<(Option<u64>, u64)> = fold
        .groups(&LINES, true)
        .iter()
        .filter(|group| group.key.cpu == Some(Cpu(0)))
        .map(|group| (group.key.part, group.latency.histogram().count()))
        .collect();

    assert_eq!(parts, [(Some(0), 2), (Some(1), 1)]);
}

proptest! {
    #[test]
    fn runs_of_a_line_count_as_their_rows_do(
        rows in prop::collection::vec((any::<bool>(), any::<[u16; 4]>(), 0..40_u8), 0..120),
    ) {
        let mut line = 0;
        let mut batch = Batch::default();
        for ((is_other, [irq, waking, running, user], rare), seq) in rows.into_iter().zip(0..) {
            line ^= u16::from(is_other && rare < 3);
            let mut steps = vec![(Stage::Irq, u64::from(irq)), (Stage::User, user.into())];
            if rare != 7 {
                steps.push((Stage::Waking, (waking % 4).into()));
            }
            if rare != 6 {
                steps.push((Stage::Softirq, (running % 3).into()));
            }
            if rare != 8 {
                steps.push((Stage::Running, (running % 4).into()));
            }
            let mut row = activation(line, seq, rare == 9, &steps);
            row.censored = rare == 9 && is_other;
            batch.push(&row);
        }
        let mut by_row = vec![LineTally::default(); 2];
        for row in 0..batch.len() {
            add_row(&mut by_row[usize::from(batch.line[row].0)], &batch, row);
        }
        let mut by_run = vec![LineTally::default(); 2];
        let cut = batch.len() / 2;
        add_rows(&mut by_run, &batch, 0..cut);
        add_rows(&mut by_run, &batch, cut..batch.len());
        assert_eq!(format!("{by_run:?}"), format!("{by_row:?}"));
    }

    #[test]
    fn merged_folds_equal_the_fold_of_all(
        rows in prop::collection::vec((0..2_u16, any::<u32>(), any::<bool>()), 0..60),
        cut in 0..60_usize,
    ) {
        let activations: Vec<Activation> = rows
            .iter()
            .zip(0..)
            .map(|(&(line, ns, missed), seq)| {
                activation(line, seq, missed, &[(Stage::User, ns.into())])
            })
            .collect();
        let cut = cut.min(activations.len());
        let fold = |rows: &[Activation]| {
            let mut fold = Fold::new(2, Split::Whole);
            fold.add(&batch(rows));
            fold
        };
        let mut merged = fold(&activations[..cut]);
        merged.join(fold(&activations[cut..]));
        let latency = |fold: &Fold| -> Vec<Tally> {
            fold.groups(&LINES, true).iter().map(|group| group.latency.clone()).collect()
        };
        let (merged, whole) = (latency(&merged), latency(&fold(&activations)));
        assert_eq!(merged, whole);
    }
}
