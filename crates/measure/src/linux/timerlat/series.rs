//! Activations from the tracer's records.

use std::io;

use laggard_model::{EventField, EventFormat, LossReason, Nanos, STAGES, Stage};

use crate::settled::{SettledExpiry, SettledLine};

/// Value of a record that the timer's callback wrote.
const IN_CALLBACK: i32 = 0;
/// Value of a record that the thread wrote.
const IN_THREAD: i32 = 1;

/// Fields of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Format {
    kind: u16,
    seqnum: EventField,
    context: EventField,
    latency: EventField,
}

/// Content of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sample {
    number: u32,
    context: i32,
    latency: Nanos,
}

impl Format {
    /// Parses tracefs's description of the record.
    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let invalid = |err| io::Error::new(io::ErrorKind::InvalidData, err);
        let format = EventFormat::parse(text).map_err(invalid)?;
        Ok(Self {
            kind: format.id,
            seqnum: format.integer("seqnum").map_err(invalid)?,
            context: format.integer("context").map_err(invalid)?,
            latency: format.integer("timer_latency").map_err(invalid)?,
        })
    }

    /// Returns the sample in a record, or `None` for a record of another kind.
    pub(super) fn sample(&self, record: &[u8]) -> Option<Sample> {
        if EventFormat::id_of(record)? != self.kind {
            return None;
        }
        Some(Sample {
            number: u32::try_from(self.seqnum.value(record)?).ok()?,
            context: i32::try_from(self.context.value(record)?.cast_signed()).ok()?,
            latency: Nanos::from_ns(self.latency.value(record)?),
        })
    }
}

/// Activations of one CPU's thread.
///
/// Its expiries lie on a grid, whose position the first record shows. Every point of the grid is
/// settled once, in order.
#[derive(Debug)]
pub(super) struct TracerSeries {
    pub(super) settled: SettledLine,
    period: Nanos,
    /// Point of the grid that is settled next.
    next: Option<Nanos>,
    /// Last record of the callback: its number, expiry and latency.
    expired: Option<(u32, Nanos, Nanos)>,
    /// Last record of the thread: its number and the time when it ran.
    served: Option<(u32, Nanos)>,
}

impl TracerSeries {
    /// Creates a series without records.
    pub(super) fn new(period: Nanos) -> Self {
        Self {
            settled: SettledLine::new(),
            period,
            next: None,
            expired: None,
            served: None,
        }
    }

    /// Adds a record that was written at `time`.
    pub(super) fn add(&mut self, time: Nanos, sample: Sample) {
        match (sample.context, self.expired) {
            (IN_CALLBACK, _) => {
                // Exact except for the time that it took to write the record.
                let expiry = time.saturating_sub(sample.latency);
                self.expired = Some((sample.number, expiry, sample.latency));
                self.next.get_or_insert(expiry);
            }
            (IN_THREAD, Some((number, expiry, expire))) if number == sample.number => {
                self.serve(number, expiry, expire, sample.latency);
            }
            // Its first half was lost, which the next number shows.
            _ => {}
        }
    }

    /// Returns whether the thread has served everything that is due before the end.
    pub(super) fn is_at_rest(&self) -> bool {
        self.next.is_none_or(|next| next >= self.settled.until)
    }

    /// Settles the rest of the plan, which the thread had not served at `given_up`.
    pub(super) fn close(&mut self, given_up: Nanos) {
        if let Some((number, expiry, _)) = self.expired
            && self.served.is_none_or(|(served, _)| served != number)
        {
            self.fill(number, expiry);
        }
        while let Some(expiry) = self.next.filter(|next| *next < self.settled.until) {
            let late = given_up.saturating_sub(expiry);
            self.push(expiry, true, true, only_thread(late));
            self.next = Some(expiry + self.period);
        }
        if self.next.is_none() {
            // The position of the grid is unknown, too.
            self.settled.lose_all(self.period);
        }
        self.settled.close();
    }

    fn serve(&mut self, number: u32, expiry: Nanos, expire: Nanos, latency: Nanos) {
        self.fill(number, expiry);
        self.served = Some((number, expiry + latency));
        self.next = Some(expiry + self.period);
        let mut steps = [None; STAGES.len()];
        steps[Stage::Expire.index()] = Some(expire.min(latency));
        steps[Stage::Kthread.index()] = Some(latency.saturating_sub(expire));
        self.push(expiry, false, false, steps);
    }

    /// Settles the expiries before `expiry`, whose number is `number`. They are lost if the
    /// numbers have a gap. Otherwise they are missed, because the thread was late.
    fn fill(&mut self, number: u32, expiry: Nanos) {
        let (Some((number_before, ran)), Some(next)) = (self.served, self.next) else {
            return;
        };
        let period = self.period.ns().max(1);
        let between = (expiry.saturating_sub(next).ns() + period / 2) / period;
        let lost = u64::from(number.wrapping_sub(number_before)).saturating_sub(1);
        let missed = between.saturating_sub(lost);
        for index in 0..between {
            let planned = next + self.period * index;
            // The thread skips expired times when it goes to sleep, shortly after it ran.
            // The latency of expiries that had not passed when it ran is unknown.
            match Nanos::between(planned, ran) {
                Some(late) if index < missed => {
                    self.push(planned, true, false, only_thread(late));
                }
                _ => self.settled.lose(planned, LossReason::RingFull),
            }
        }
        self.next = Some(expiry);
    }

    fn push(
        &mut self,
        expiry: Nanos,
        missed: bool,
        censored: bool,
        steps: [Option<Nanos>; STAGES.len()],
    ) {
        let settled_expiry = SettledExpiry {
            expiry,
            missed,
            censored,
            steps,
        };
        self.settled.push(expiry, settled_expiry);
    }
}

fn only_thread(late: Nanos) -> [Option<Nanos>; STAGES.len()] {
    let mut steps = [None; STAGES.len()];
    steps[Stage::Kthread.index()] = Some(late);
    steps
}

#[cfg(test)]
mod tests {
    use laggard_model::{Activation, Batch};

    use super::*;

    const FORMAT: &str = "name: timerlat\nID: 18\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned int seqnum;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:int context;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:u64 timer_latency;\toffset:16;\tsize:8;\tsigned:0;\n";

    fn series() -> TracerSeries {
        let mut series = TracerSeries::new(Nanos::from_ms(1));
        series.settled.begin(Nanos::ZERO);
        series
    }

    /// Adds both records of activation `number`, which expires at `ms`.
    fn serve(series: &mut TracerSeries, number: u32, ms: u64, expire_us: u64, latency_us: u64) {
        let expiry = Nanos::from_ms(ms);
        for (context, us) in [(IN_CALLBACK, expire_us), (IN_THREAD, latency_us)] {
            let latency = Nanos::from_us(us);
            let sample = Sample {
                number,
                context,
                latency,
            };
            series.add(expiry + latency, sample);
        }
    }

    fn drained(mut series: TracerSeries) -> (Vec<Activation>, u64) {
        let mut batch = Batch::default();
        series.settled.drain(&mut batch);
        (batch.iter().collect(), series.settled.account().lost)
    }

    #[test]
    fn record_is_read_according_to_its_format() {
        let format = Format::parse(FORMAT).unwrap();
        let mut record = vec![18, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0];
        record.extend(34_000_u64.to_ne_bytes());

        let sample = format.sample(&record).unwrap();

        assert_eq!(
            (sample.number, sample.context, sample.latency),
            (7, IN_THREAD, Nanos::from_us(34))
        );
        record[0] = 17;
        assert_eq!(format.sample(&record), None);
        assert_eq!(format.sample(&record[..20]), None);
    }

    #[test]
    fn format_error_names_the_missing_field() {
        let error = Format::parse(&FORMAT.replace("timer_latency", "delay")).unwrap_err();

        assert_eq!(
            error.to_string(),
            "the format of `timerlat` has no integer `timer_latency`"
        );
    }

    #[test]
    fn two_records_of_an_activation_become_its_two_stages() {
        let mut series = series();

        serve(&mut series, 1, 10, 5, 34);

        let (activations, lost) = drained(series);
        assert_eq!((activations.len(), lost), (1, 0));
        assert_eq!(activations[0].expiry, Nanos::from_ms(10));
        assert_eq!(activations[0].until(Stage::Expire), Some(Nanos::from_us(5)));
        assert_eq!(activations[0].latency(), Nanos::from_us(34));
    }

    #[test]
    fn expiries_that_the_thread_slept_through_were_missed() {
        let mut series = series();

        serve(&mut series, 1, 10, 5, 2_500);
        serve(&mut series, 2, 13, 5, 34);

        let (activations, lost) = drained(series);
        let late: Vec<(bool, u64)> = activations
            .iter()
            .map(|activation| (activation.missed, activation.latency().ns() / 1_000))
            .collect();
        assert_eq!(
            late,
            [(false, 2_500), (true, 1_500), (true, 500), (false, 34)]
        );
        assert_eq!(lost, 0);
    }

    #[test]
    fn gap_in_the_numbers_is_lost_and_not_missed() {
        let mut series = series();

        serve(&mut series, 1, 10, 5, 34);
        serve(&mut series, 4, 13, 5, 34);

        let (activations, lost) = drained(series);
        assert_eq!((activations.len(), lost), (2, 2));
        assert_eq!(activations[1].seq, 3);
    }

    #[test]
    fn expiry_before_the_start_has_no_number() {
        let mut series = series();
        series.settled.begin(Nanos::from_ms(11));

        serve(&mut series, 1, 10, 5, 34);
        serve(&mut series, 2, 11, 5, 34);

        let (activations, _) = drained(series);
        assert_eq!((activations.len(), activations[0].seq), (1, 0));
    }

    #[test]
    fn unserved_expiry_is_missed_and_its_wait_is_a_lower_bound() {
        let mut series = series();
        serve(&mut series, 1, 10, 5, 34);
        let expired = Sample {
            number: 2,
            context: IN_CALLBACK,
            latency: Nanos::from_us(5),
        };
        series.add(Nanos::from_us(11_005), expired);
        series.settled.until = Nanos::from_ms(20);

        series.close(Nanos::from_ms(100));

        assert_eq!(series.settled.account().planned, Some(10));
        let (activations, lost) = drained(series);
        assert_eq!((activations.len(), lost), (10, 0));
        assert!(
            activations[1..]
                .iter()
                .all(|activation| activation.missed && activation.censored)
        );
        assert_eq!(activations[1].latency(), Nanos::from_ms(89));
    }

    #[test]
    fn thread_without_records_has_lost_its_plan() {
        let mut series = series();
        series.settled.until = Nanos::from_ms(20);

        series.close(Nanos::from_ms(100));

        let account = series.settled.account();
        assert_eq!((account.planned, account.lost), (Some(20), 20));
        assert_eq!(account.losses.unserved, 20);
    }
}
