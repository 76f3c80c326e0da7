//! Collection of the latest activations of every stream.

use std::collections::BTreeMap;

use laggard_model::{Batch, Cpu, Gather, Line, Nanos, Route, Service};

use super::Stream;
use super::kept::{KeptActivations, One};

/// Maximum number of exceedances in all streams together: 24 bytes each.
const MAX_KEPT: usize = 1 << 20;
/// Minimum number of exceedances per stream, for any number of streams.
const MIN_KEPT: usize = 4_096;

/// Collector of the latest activations of a recording.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Per line: exceedances of its service and of its interrupts.
    lines: Vec<[KeptActivations; 2]>,
    /// Per line: maximum time between two consecutive activations.
    gaps: Vec<Nanos>,
    most: usize,
    /// Latencies of the rows of a batch, ns; reused.
    latencies: Vec<u64>,
    /// Times to the interrupts of these rows, [`Batch::ABSENT`] for missed ones; reused.
    irq_latencies: Vec<u64>,
}

impl Collector {
    /// Creates an empty collector for a recording of `lines` lines whose activations
    /// are at most `gap` apart: the period, or twice the period with dither.
    pub fn new(lines: usize, gap: Nanos) -> Self {
        Self::of(vec![gap; lines])
    }

    /// Creates a collector with a separate gap for each line.
    pub fn of(gaps: Vec<Nanos>) -> Self {
        let lines = gaps.len();
        Self {
            lines: vec![<[KeptActivations; 2]>::default(); lines],
            gaps,
            latencies: Vec::new(),
            irq_latencies: Vec::new(),
            most: (MAX_KEPT / (2 * lines).max(1)).max(MIN_KEPT),
        }
    }

    /// Adds a batch, whose rows are in order of sequence number within each line. Skips
    /// lines that the recording does not have.
    pub fn add(&mut self, batch: &Batch) {
        batch.latencies(&mut self.latencies);
        self.irq_latencies.clear();
        let irqs = &batch.step_ns[Service::Irq.last_stage().index()];
        let of_served = |(&ns, &missed): (&u64, &bool)| if missed { Batch::ABSENT } else { ns };
        self.irq_latencies
            .extend(irqs.iter().zip(&batch.missed).map(of_served));
        let entry = |row: usize, latency: u64| One {
            seq: batch.seq[row],
            expiry: Nanos::from_ns(batch.expiry_ns[row]),
            latency: Nanos::from_ns(latency),
            missed: batch.missed[row],
        };
        let mut from = 0;
        for rows in batch.line.chunk_by(|a, b| a == b) {
            let line = usize::from(rows[0].0);
            let rows = from..from + rows.len();
            from = rows.end;
            let (Some([service, interrupts]), Some(&gap)) =
                (self.lines.get_mut(line), self.gaps.get(line))
            else {
                continue;
            };
            service.add(rows.clone(), &self.latencies, entry, gap, self.most);
            if !irqs.is_empty() {
                interrupts.add(rows, &self.irq_latencies, entry, gap, self.most);
            }
        }
    }

    /// Returns the streams of the recording's `lines`. The interrupts of all lines of a
    /// CPU are one stream, because an interrupt of any line shows that the CPU was
    /// free. Streams without activations are omitted.
    pub fn streams(self, lines: &[Line]) -> Vec<Stream> {
        let mut streams: BTreeMap<(Service, Route, Cpu), KeptActivations> = BTreeMap::new();
        let most = self.most;
        let each = lines.iter().zip(self.lines).zip(self.gaps);
        for ((line, [service, irq]), gap) in each {
            for (group, mut kept) in [(*line, service), (line.interrupts(), irq)] {
                kept.end(gap, most);
                let key = (group.service, group.route, group.cpu);
                streams.entry(key).or_default().absorb(kept, most);
            }
        }
        free_by_all(&mut streams);
        streams
            .into_iter()
            .filter(|(_, kept)| kept.samples > 0)
            .map(|((service, route, cpu), mut kept)| {
                kept.prune(most);
                // Stable, because that is fast for a few ascending lists one after the other.
                kept.late
                    .sort_by_key(|late| (late.expiry, late.latency, late.free_until));
                Stream {
                    cpu,
                    service,
                    route,
                    samples: kept.samples,
                    floor: kept.floor,
                    exceedances: kept.late,
                }
            })
            .collect()
    }
}

/// Limits stalls of interrupts with the other lines of the CPU. An interrupt's stall
/// starts after the last interrupt of another line on that CPU, or the last code of a
/// service: until then the CPU was free. For stalls longer than a period, all relevant
/// rows are kept. For shorter ones in very long recordings some were pruned, and these
/// stalls keep the length that their own line shows.
fn free_by_all(streams: &mut BTreeMap<(Service, Route, Cpu), KeptActivations>) {
    let mut served: BTreeMap<Cpu, Vec<Nanos>> = BTreeMap::new();
    for ((.., cpu), kept) in streams.iter() {
        let of_cpu = served.entry(*cpu).or_default();
        of_cpu.extend(kept.late.iter().map(|late| late.expiry + late.latency));
    }
    for served in served.values_mut() {
        served.sort();
    }
    let irqs = |key: &(Service, Route, Cpu)| !key.0.has_lines();
    for ((.., cpu), kept) in streams.iter_mut().filter(|(key, _)| irqs(key)) {
        let Some(proofs) = served.get(cpu) else {
            continue;
        };
        let late = &mut kept.late;
        late.sort_by_key(|late| late.expiry + late.latency);
        let mut earlier = 0;
        // All expiries that one interrupt served have the same free time.
        for served in late.chunk_by_mut(|a, b| a.expiry + a.latency == b.expiry + b.latency) {
            let end = served[0].expiry + served[0].latency;
            while proofs.get(earlier).is_some_and(|&proof| proof < end) {
                earlier += 1;
            }
            let proof = earlier.checked_sub(1).map(|index| proofs[index]);
            let free = served.iter().map(|late| late.free_until).max();
            let until = free.max(proof).unwrap_or_default();
            served.iter_mut().for_each(|late| late.free_until = until);
        }
    }
}

impl Gather for Collector {
    fn batch(&mut self, rows: &Batch) {
        self.add(rows);
    }

    fn join(&mut self, later: Self) {
        let each = self.lines.iter_mut().zip(later.lines).zip(&self.gaps);
        for ((ours, theirs), &gap) in each {
            for (mine, their) in ours.iter_mut().zip(theirs) {
                mine.join(their, gap, self.most);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::LateStretch;
    use laggard_model::{Activation, LineId, STAGES, Stage};
    use proptest::prelude::{any, prop, proptest};

    const LINES: [Line; 1] = [Line::new(Cpu(3), Service::Fifo(90), Route::Direct)];

    const TWO_CPUS: [Line; 2] = [
        LINES[0],
        Line {
            cpu: Cpu(4),
            ..LINES[0]
        },
    ];

    fn activation(seq: u64, irq_ns: u64, user_ns: u64) -> Activation {
        let mut activation =
            Activation::new(LineId(0), seq, Nanos::from_ms(seq), [None; STAGES.len()]);
        activation.steps[Stage::Irq.index()] = Some(Nanos::from_ns(irq_ns));
        activation.steps[Stage::User.index()] = Some(Nanos::from_ns(user_ns));
        activation
    }

    fn batch(rows: impl IntoIterator<Item = Activation>) -> Batch {
        let mut batch = Batch::default();
        rows.into_iter()
            .for_each(|activation| batch.push(&activation));
        batch
    }

    #[test]
    fn service_was_free_until_the_previous_activation_was_served() {
        let mut collector = Collector::new(1, Nanos::from_ms(2));
        collector.add(&batch([
            activation(5, 10, 90),
            activation(6, 20, 80),
            activation(9, 30, 70),
        ]));

        let streams = collector.streams(&LINES);

        let free: Vec<u64> = streams[0]
            .exceedances
            .iter()
            .map(|e| e.free_until.ns())
            .collect();
        assert_eq!(streams[0].service, Service::Irq);
        assert_eq!(free, [3_000_000, 5_000_100, 7_000_000]);
        assert_eq!(streams[1].exceedances[1].free_until.ns(), 5_000_100);
        assert_eq!(streams[1].exceedances[1].latency.ns(), 100);
    }

    #[test]
    fn interrupt_of_any_line_proves_a_free_cpu() {
        let both = [LINES[0], LINES[0]];
        let row = |line: u16, seq: u64, at_ns: u64, irq_ns: u64| {
            let mut activation = activation(seq, irq_ns, 1);
            (activation.line, activation.expiry) = (LineId(line), Nanos::from_ns(at_ns));
            activation
        };
        // The first line expires every 2,000, the second in between. Nothing is served
        // from 4,500 to 6,300.
        let mut collector = Collector::new(2, Nanos::from_ns(2_000));
        collector.add(&batch([
            row(0, 0, 1_000, 10),
            row(0, 1, 3_000, 10),
            row(0, 2, 5_000, 1_300),
            row(1, 0, 2_000, 10),
            row(1, 1, 4_000, 10),
            row(1, 2, 6_000, 300),
        ]));

        let streams = collector.streams(&both);

        let irq = &streams[0];
        let blackouts = irq.blackouts(Nanos::ZERO, Nanos::ZERO, Nanos::from_ns(100));
        let ends = |list: &[crate::exceedance::Blackout]| {
            list.iter().map(|b| (b.start, b.end)).collect::<Vec<_>>()
        };
        assert_eq!(ends(&blackouts.inner), [(5_000.0, 6_300.0)]);
        // From its line alone, the stall would start at 3,010.
        assert_eq!(ends(&blackouts.outer), [(4_011.0, 6_300.0)]);
    }

    #[test]
    fn memory_is_bounded_and_everything_above_the_floor_is_kept() {
        let mut collector = Collector::new(1, Nanos::from_ms(1));
        collector.most = 100;
        let latency = |seq: u64| seq * 7_919 % 10_007;
        collector.add(&batch(
            (0..5_000).map(|seq| activation(seq, 1, latency(seq))),
        ));

        let streams = collector.streams(&LINES);

        let stream = &streams[1];
        let above = (0..5_000)
            .filter(|&seq| latency(seq) + 1 > stream.floor.ns())
            .count();
        assert_eq!((stream.samples, stream.exceedances.len()), (5_000, above));
        assert!((90..=100).contains(&above), "{above}");
        assert!(stream.exceedances.is_sorted_by_key(|late| late.expiry));
    }

    #[test]
    fn stall_is_one_exceedance_for_any_number_of_waiting_activations() {
        let missed = |seq: u64, user_ns: u64| Activation {
            missed: true,
            ..activation(seq, 0, user_ns)
        };
        // Served at 9 ms; expiries during the stall waited until then.
        let rows = [activation(2, 0, 7_000_000)]
            .into_iter()
            .chain((3..9).map(|seq| missed(seq, (9 - seq) * 1_000_000)))
            .chain([activation(9, 0, 500), missed(10, 700)]);
        let rows: Vec<Activation> = rows.collect();

        for cut in 0..=rows.len() {
            let mut collector = Collector::new(1, Nanos::from_ms(2));
            collector.add(&batch(rows[..cut].iter().copied()));
            let mut later = Collector::new(1, Nanos::from_ms(2));
            later.add(&batch(rows[cut..].iter().copied()));
            collector.join(later);
            let streams = collector.streams(&LINES);
            let service = streams.iter().find(|stream| stream.service != Service::Irq);
            let service = service.unwrap();
            let late: Vec<u64> = service.exceedances.iter().map(|e| e.latency.ns()).collect();
            assert_eq!(late, [7_000_000, 500, 700], "cut at {cut}");
            assert_eq!(service.samples, 9);
            assert_eq!(
                service.stalls_beyond(Nanos::from_ms(2)),
                [LateStretch {
                    from: Nanos::from_ms(2),
                    until: Nanos::from_ns(6_999_999),
                    latency: Nanos::from_ms(7),
                }]
            );
        }
    }

    #[test]
    fn join_knows_the_activation_before_its_first() {
        let mut collector = Collector::new(1, Nanos::from_ms(2));
        collector.add(&batch([activation(5, 10, 90)]));
        let mut later = Collector::new(1, Nanos::from_ms(2));
        later.add(&batch([activation(6, 20, 80)]));
        let mut last = Collector::new(1, Nanos::from_ms(2));
        last.add(&batch([activation(8, 30, 70)]));

        later.join(last);
        collector.join(later);

        let free: Vec<u64> = collector.streams(&LINES)[1]
            .exceedances
            .iter()
            .map(|e| e.free_until.ns())
            .collect();
        assert_eq!(free, [3_000_000, 5_000_100, 6_000_000]);
    }

    proptest! {
        #[test]
        fn interrupts_never_miss_more_than_a_thread_on_the_same_rows(
            // Time since the previous expiry, until the interrupt, and from it to the
            // thread.
            rows in prop::collection::vec((1_000..3_000_u64, 0..900_u64, 0..4_000_u64), 1..120),
            stalls in prop::collection::vec(0..120_usize, 0..12),
            lost in prop::collection::vec(0..120_usize, 0..4),
        ) {
            use crate::qos::{Buffering, late_jobs};

            let (mut expiry, mut free) = (0, 0);
            let rows = (0_usize..).zip(rows).map(|(seq, (step, irq, thread))| {
                expiry += step;
                let long = if stalls.contains(&seq) { 40 * irq } else { irq };
                // Rows are served in order.
                let irq = long.max(u64::saturating_sub(free, expiry) + 1);
                free = expiry + irq + thread;
                let mut row = activation(seq as u64, irq, thread);
                row.expiry = Nanos::from_ns(expiry);
                row
            });
            let rows: Vec<Activation> = rows.filter(|row| !lost.iter().any(|&seq| seq as u64 == row.seq)).collect();
            let mut collector = Collector::new(1, Nanos::from_ns(3_000));
            collector.add(&batch(rows));
            let streams = collector.streams(&LINES);
            let misses = |stream: &Stream| {
                let blackouts = stream.blackouts(Nanos::ZERO, Nanos::ZERO, Nanos::from_ns(500));
                [blackouts.inner, blackouts.middle, blackouts.outer].map(|list| {
                    let buffering = Buffering::new(2, 6_000.0, 1_500.0).unwrap();
                    let phases = (0..16_u32).map(|phase| 375.0 * (f64::from(phase) + 0.5));
                    phases
                        .map(|phase| late_jobs(&list, 1e6, buffering, phase, 0.0).unwrap().misses.len())
                        .sum::<usize>()
                })
            };
            if let [irq, thread] = &streams[..] {
                for (irq, thread) in misses(irq).into_iter().zip(misses(thread)) {
                    proptest::prop_assert!(irq <= thread, "{irq} {thread}");
                }
            }
        }

        #[test]
        fn consecutive_parts_join_to_one_pass_for_any_division(
            rows in prop::collection::vec(
                // Line, step to the next sequence number, latencies, missed.
                (0..2_u16, 1..3_u64, 0..40_u64, 0..40_u64, any::<bool>()),
                0..200,
            ),
            cuts in prop::collection::vec(0..200_usize, 0..6),
            // Order of merging: from the left, or pairs first.
            pairs_first in any::<bool>(),
        ) {
            let mut seq = [0, 0];
            let activations: Vec<Activation> = rows
                .iter()
                .map(|&(line, step, irq, user, missed)| {
                    let own = &mut seq[usize::from(line)];
                    *own += step;
                    let mut row = activation(*own, irq, user);
                    (row.line, row.missed) = (LineId(line), missed);
                    row
                })
                .collect();
            let empty = || {
                let mut collector = Collector::new(2, Nanos::from_ms(1));
                collector.most = 10;
                collector
            };
            let collect = |rows: &[Activation]| {
                let mut collector = empty();
                rows.chunks(7).for_each(|rows| collector.add(&batch(rows.iter().copied())));
                collector
            };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(activations.len())).collect();
            cuts.push(activations.len());
            cuts.sort_unstable();
            let mut from = 0;
            let mut parts: Vec<Collector> = cuts
                .into_iter()
                .map(|until| collect(&activations[std::mem::replace(&mut from, until)..until]))
                .collect();
            if pairs_first {
                parts = parts
                    .chunks(2)
                    .map(|pair| {
                        let mut joined = pair[0].clone();
                        pair.iter().skip(1).for_each(|next| joined.join(next.clone()));
                        joined
                    })
                    .collect();
            }
            let mut joined = empty();
            parts.into_iter().for_each(|part| joined.join(part));

            assert_eq!(joined.streams(&TWO_CPUS), collect(&activations).streams(&TWO_CPUS));
        }
    }
}
