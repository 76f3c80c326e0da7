//! Keeping the latest activations of every stream.

use std::collections::BTreeMap;

use laggard_model::{Batch, Cpu, Line, Nanos, Route, STAGES, Service, Stage};

use super::{Exceedance, Stream};

/// Exceedances kept in all streams together: 24 bytes each.
const MOST_KEPT: usize = 1 << 20;
/// No stream keeps fewer, however many streams there are.
const LEAST_KEPT: usize = 4_096;

/// The activations of one line, or its interrupts.
#[derive(Clone, Debug, Default)]
struct Kept {
    samples: u64,
    floor: Nanos,
    late: Vec<Exceedance>,
    /// Sequence number of the activation before, and when it was served.
    before: Option<(u64, Nanos)>,
}

/// Collects the latest activations of a recording.
#[derive(Clone, Debug)]
pub struct Collector {
    /// By line: of its service, and of its interrupts.
    lines: Vec<[Kept; 2]>,
    /// The longest time between two activations of a line, if none is lost.
    gap: Nanos,
    most: usize,
}

impl Collector {
    /// An empty collector for a recording of `lines` lines whose activations
    /// are at most `gap` apart: the period, or twice that with dither.
    pub fn new(lines: usize, gap: Nanos) -> Self {
        let most = (MOST_KEPT / (2 * lines).max(1)).max(LEAST_KEPT);
        Self {
            lines: vec![<[Kept; 2]>::default(); lines],
            gap,
            most,
        }
    }

    /// Takes in a batch, whose rows are in order of sequence number within
    /// each line. Lines that the recording does not have are passed over.
    pub fn add(&mut self, batch: &Batch) {
        for row in 0..batch.len() {
            let Some([service, irq]) = self.lines.get_mut(usize::from(batch.line[row].0)) else {
                continue;
            };
            let step = |stage: Stage| match batch.step_ns[stage.index()].get(row) {
                None | Some(&Batch::ABSENT) => None,
                Some(&step) => Some(step),
            };
            let (seq, expiry) = (batch.seq[row], Nanos::from_ns(batch.expiry_ns[row]));
            let latency = STAGES.into_iter().filter_map(step).sum();
            service.add(seq, expiry, Nanos::from_ns(latency), self.gap, self.most);
            if !batch.missed[row]
                && let Some(latency) = step(Stage::Irq)
            {
                irq.add(seq, expiry, Nanos::from_ns(latency), self.gap, self.most);
            }
        }
    }

    /// Adds all that `other`, of the same recording, has collected.
    pub fn merge(&mut self, other: Self) {
        for (ours, theirs) in self.lines.iter_mut().zip(other.lines) {
            for (mine, their) in ours.iter_mut().zip(theirs) {
                mine.merge(their, self.most);
            }
        }
    }

    /// The streams of the recording's `lines`, the interrupts of all lines of
    /// a CPU as one. Streams without activations are left out.
    pub fn streams(self, lines: &[Line]) -> Vec<Stream> {
        let mut streams: BTreeMap<(Service, Route, Cpu), Kept> = BTreeMap::new();
        let most = self.most;
        for (line, [service, irq]) in lines.iter().zip(self.lines) {
            let keys = [
                ((line.service, line.route, line.cpu), service),
                ((Service::Irq, Route::Direct, line.cpu), irq),
            ];
            for (key, kept) in keys {
                streams.entry(key).or_default().merge(kept, most);
            }
        }
        streams
            .into_iter()
            .filter(|(_, kept)| kept.samples > 0)
            .map(|((service, route, cpu), mut kept)| {
                kept.prune(most);
                kept.late.sort_unstable_by_key(|late| late.expiry);
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

impl Kept {
    fn add(&mut self, seq: u64, expiry: Nanos, latency: Nanos, gap: Nanos, most: usize) {
        let free_until = match self.before {
            Some((before, served)) if before.checked_add(1) == Some(seq) => served,
            _ => expiry.saturating_sub(gap),
        };
        self.before = Some((seq, expiry + latency));
        self.samples += 1;
        if latency <= self.floor {
            return;
        }
        self.late.push(Exceedance {
            expiry,
            latency,
            free_until: free_until.min(expiry),
        });
        if self.late.len() >= 2 * most {
            self.prune(most);
        }
    }

    /// Keeps the `most` latest; what is as late as the first that goes, goes
    /// too, so that the floor tells exactly what is kept.
    fn prune(&mut self, most: usize) {
        if self.late.len() <= most {
            return;
        }
        let (_, first_out, _) = self
            .late
            .select_nth_unstable_by_key(most, |late| std::cmp::Reverse(late.latency));
        self.floor = self.floor.max(first_out.latency);
        self.late.retain(|late| late.latency > self.floor);
    }

    fn merge(&mut self, other: Self, most: usize) {
        self.samples += other.samples;
        self.floor = self.floor.max(other.floor);
        self.late.extend(other.late);
        self.late.retain(|late| late.latency > self.floor);
        self.before = None;
        self.prune(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{Activation, LineId};

    const LINES: [Line; 1] = [Line {
        cpu: Cpu(3),
        service: Service::Fifo(90),
        route: Route::Direct,
    }];

    fn activation(seq: u64, irq_ns: u64, user_ns: u64) -> Activation {
        let mut one = Activation {
            line: LineId(0),
            seq,
            expiry: Nanos::from_ms(seq),
            missed: false,
            censored: false,
            steps: [None; STAGES.len()],
        };
        one.steps[Stage::Irq.index()] = Some(Nanos::from_ns(irq_ns));
        one.steps[Stage::User.index()] = Some(Nanos::from_ns(user_ns));
        one
    }

    fn batch(rows: impl IntoIterator<Item = Activation>) -> Batch {
        let mut batch = Batch::default();
        rows.into_iter().for_each(|one| batch.push(&one));
        batch
    }

    #[test]
    fn a_service_was_free_until_the_activation_before_was_served() {
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
        assert_eq!(free, [3_000_000, 5_000_010, 7_000_000]);
        assert_eq!(streams[1].exceedances[1].free_until.ns(), 5_000_100);
        assert_eq!(streams[1].exceedances[1].latency.ns(), 100);
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
    fn collectors_merge_to_the_collector_of_all() {
        let rows =
            |range: std::ops::Range<u64>| batch(range.map(|seq| activation(seq, 1, seq % 97)));
        let collect = |cuts: &[u64]| {
            let mut all = Collector::new(1, Nanos::from_ms(1));
            all.most = 50;
            let mut from = 0;
            for &until in cuts {
                let mut one = Collector::new(1, Nanos::from_ms(1));
                one.most = 50;
                one.add(&rows(from..until));
                all.merge(one);
                from = until;
            }
            let mut streams = all.streams(&LINES);
            let stream = streams.remove(1);
            let latencies: Vec<Nanos> = stream.exceedances.iter().map(|e| e.latency).collect();
            (stream.samples, stream.floor, latencies)
        };

        assert_eq!(collect(&[400, 1_000]), collect(&[1_000]));
    }
}
