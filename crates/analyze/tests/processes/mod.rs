//! Point processes with a known mean rate: steady, in bursts, and slowly varying.

mod xruns;

#[allow(unused_imports, reason = "not each test program predicts")]
pub(crate) use xruns::{future_failures, mean_time};

use laggard_analyze::Interval;
use rand::RngExt;
use rand_distr::{Distribution, Exp, Geometric, Normal, Poisson};
use rand_pcg::Pcg64Mcg;

/// Kind of a process. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Events at random times.
    Steady,
    /// Bursts at random times; all events of one within about 0.4 s.
    Bursts { size: f64, is_even: bool },
    /// A rate that changes every `step` by exp(`deviation` x normal).
    Steps { step: f64, deviation: f64 },
    /// Storms of this length at random times, with 30 times the rate outside.
    Storms { every: f64, length: f64 },
    /// Two states with exponential durations; the second has a twentieth of the rate.
    States { first: f64, second: f64 },
    /// Logarithm of the rate with exponential correlation.
    Wander { time: f64, deviation: f64 },
    /// Rate that grows evenly to this multiple.
    Drift { times: f64 },
    /// Regular events with this fraction missing.
    Regular { missing: f64 },
}

/// Process with its mean number of events in a recording of `span`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) kind: Kind,
    pub(crate) span: f64,
    pub(crate) events: f64,
    /// Minimum coverage of a 95 % interval. Below .9 if a recording often lacks a storm.
    pub(crate) least: f64,
}

const fn process(kind: Kind, span: f64, events: f64, least: f64) -> Process {
    Process {
        kind,
        span,
        events,
        least,
    }
}

/// Result of a simulation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// Number of simulated recordings.
    pub(crate) runs: u64,
    /// Number of recordings with an answer.
    pub(crate) answered: u64,
    /// Number of answers that contain the truth.
    pub(crate) held: u64,
    /// Upper divided by lower limit of each answer.
    pub(crate) widths: Vec<f64>,
}

impl Coverage {
    /// Adds a recording; `None` is a withheld answer.
    pub(crate) fn add(&mut self, interval: Option<Interval>, truth: f64) {
        self.runs += 1;
        let Some(interval) = interval else {
            return;
        };
        self.answered += 1;
        self.held += u64::from(interval.contains(truth));
        self.widths.push(interval.high / interval.low);
    }

    /// Returns the fraction of the answers that contain the truth.
    pub(crate) fn share(&self) -> f64 {
        self.held as f64 / self.answered as f64
    }

    /// Returns the median ratio of the limits.
    #[allow(dead_code, reason = "not each test program prints it")]
    pub(crate) fn width(&self) -> f64 {
        let mut widths = self.widths.clone();
        widths.sort_by(f64::total_cmp);
        widths[widths.len() / 2]
    }
}

/// Processes for the simulation of coverage.
pub(crate) const PROCESSES: [Process; 33] = [
    process(Kind::Steady, 100.0, 3.0, 0.93),
    process(Kind::Steady, 100.0, 10.0, 0.93),
    process(Kind::Steady, 100.0, 30.0, 0.93),
    process(Kind::Steady, 100.0, 100.0, 0.93),
    process(bursts(5.0, true), 100.0, 125.0, 0.93),
    process(bursts(10.0, false), 100.0, 250.0, 0.93),
    process(bursts(5.0, true), 100.0, 30.0, 0.93),
    process(bursts(10.0, false), 100.0, 60.0, 0.93),
    process(steps(1.0), 120.0, 40.0, 0.83),
    process(steps(1.0), 300.0, 100.0, 0.92),
    process(steps(1.0), 600.0, 200.0, 0.93),
    process(steps(1.0), 1_800.0, 600.0, 0.93),
    process(steps(0.5), 120.0, 40.0, 0.91),
    process(states(10.0, 20.0), 30.0, 11.0, 0.86),
    process(states(10.0, 20.0), 120.0, 44.0, 0.93),
    process(states(30.0, 90.0), 120.0, 34.5, 0.72),
    process(states(30.0, 90.0), 600.0, 172.5, 0.93),
    process(states(30.0, 90.0), 1_800.0, 517.5, 0.93),
    process(storms(30.0, 5.0), 30.0, 11.0, 0.89),
    process(storms(30.0, 5.0), 120.0, 46.0, 0.93),
    process(storms(120.0, 20.0), 120.0, 46.0, 0.65),
    process(storms(120.0, 20.0), 600.0, 230.0, 0.93),
    process(storms(120.0, 20.0), 1_800.0, 690.0, 0.93),
    process(wander(10.0, 0.5), 100.0, 100.0, 0.93),
    process(wander(10.0, 1.0), 100.0, 100.0, 0.93),
    process(wander(30.0, 0.5), 100.0, 100.0, 0.93),
    process(wander(30.0, 1.0), 100.0, 100.0, 0.87),
    process(wander(100.0, 0.5), 100.0, 100.0, 0.84),
    process(Kind::Drift { times: 4.0 }, 100.0, 100.0, 0.93),
    process(Kind::Regular { missing: 0.0 }, 100.0, 20.0, 0.93),
    process(Kind::Regular { missing: 0.3 }, 100.0, 14.0, 0.93),
    process(Kind::Steady, 100.0, 0.5, 0.93),
    process(Kind::Steady, 100.0, 1.0, 0.93),
];

const fn bursts(size: f64, is_even: bool) -> Kind {
    Kind::Bursts { size, is_even }
}

const fn steps(deviation: f64) -> Kind {
    Kind::Steps {
        step: 60.0,
        deviation,
    }
}

const fn states(first: f64, second: f64) -> Kind {
    Kind::States { first, second }
}

const fn storms(every: f64, length: f64) -> Kind {
    Kind::Storms { every, length }
}

const fn wander(time: f64, deviation: f64) -> Kind {
    Kind::Wander { time, deviation }
}

impl Process {
    /// Names the process for a table.
    pub(crate) fn name(self) -> String {
        match self.kind {
            Kind::Steady => "steady".into(),
            Kind::Bursts { size, is_even } => {
                let sizes = if is_even { "equal" } else { "geometric" };
                format!("bursts of {size}, {sizes}")
            }
            Kind::Steps { step, deviation } => {
                format!("rate changes every {step} s by exp({deviation} x normal)")
            }
            Kind::Storms { every, length } => {
                format!("storms of {length} s every {every} s")
            }
            Kind::States { first, second } => {
                format!("busy for {first} s, calm for {second} s (means)")
            }
            Kind::Wander { time, deviation } => {
                format!("log rate wanders: {time} s, deviation {deviation}")
            }
            Kind::Drift { times } => format!("rate grows to {times} times"),
            Kind::Regular { missing: 0.0 } => "regular".into(),
            Kind::Regular { missing } => format!("regular, {:.0} % missing", 100.0 * missing),
        }
    }

    /// Returns the mean rate, per second.
    fn rate(self) -> f64 {
        self.events / self.span
    }

    /// Draws the times of the events of one recording, ascending.
    pub(crate) fn draw(self, random: &mut Pcg64Mcg) -> Vec<f64> {
        let span = self.span;
        let mut times = match self.kind {
            Kind::Steady => at_random(self.rate(), (0.0, span), random),
            Kind::Bursts { size, is_even } => self.bursts(size, is_even, random),
            Kind::Steps { step, deviation } => {
                let rates = |random: &mut Pcg64Mcg| self.lognormal(deviation, normal(random));
                self.pieces(step, random, rates)
            }
            Kind::Storms { every, length } => {
                let calm = self.rate() / (1.0 + 30.0 * length / every);
                let mut times = at_random(calm, (0.0, span), random);
                for start in at_random(1.0 / every, (-length, span), random) {
                    times.extend(at_random(30.0 * calm, (start, start + length), random));
                }
                times
            }
            Kind::States { first, second } => self.states([first, second], random),
            Kind::Wander { time, deviation } => {
                let step = span / 256.0;
                let kept = (-step / time).exp();
                let mut state = normal(random);
                self.pieces(step, random, |random| {
                    let rate = self.lognormal(deviation, state);
                    state = kept * state + (1.0 - kept * kept).sqrt() * normal(random);
                    rate
                })
            }
            Kind::Drift { times } => at_random(self.rate(), (0.0, span), random)
                .into_iter()
                .map(|time| {
                    let share = time / span;
                    let root = (1.0 + share * (times * times - 1.0)).sqrt();
                    span * (root - 1.0) / (times - 1.0)
                })
                .collect(),
            Kind::Regular { missing } => {
                let period = span * (1.0 - missing) / self.events;
                let mut time = random.random::<f64>() * period;
                let mut times = Vec::new();
                while time < span {
                    if random.random::<f64>() >= missing {
                        times.push(time + 0.001 * random.random::<f64>());
                    }
                    time += period;
                }
                times
            }
        };
        times.retain(|time| (0.0..span).contains(time));
        times.sort_by(f64::total_cmp);
        times
    }

    fn lognormal(self, deviation: f64, normal: f64) -> f64 {
        self.rate() * (deviation * normal - deviation * deviation / 2.0).exp()
    }

    fn pieces(
        self,
        step: f64,
        random: &mut Pcg64Mcg,
        mut rate: impl FnMut(&mut Pcg64Mcg) -> f64,
    ) -> Vec<f64> {
        let (mut times, mut start) = (Vec::new(), 0.0);
        while start < self.span {
            let rate = rate(random);
            times.extend(at_random(rate, (start, start + step), random));
            start += step;
        }
        times
    }

    fn bursts(self, size: f64, is_even: bool, random: &mut Pcg64Mcg) -> Vec<f64> {
        let mut times = Vec::new();
        let apart = Exp::new(size / 0.4).unwrap();
        let more = Geometric::new(1.0 / size).unwrap();
        for start in at_random(self.rate() / size, (0.0, self.span), random) {
            let left = if is_even {
                size - 1.0
            } else {
                more.sample(random) as f64
            };
            let (mut time, mut number) = (start, 0.0);
            times.push(time);
            while number < left {
                time += apart.sample(random);
                times.push(time);
                number += 1.0;
            }
        }
        times
    }

    fn states(self, means: [f64; 2], random: &mut Pcg64Mcg) -> Vec<f64> {
        let busy = means[0] / (means[0] + means[1]);
        let high = self.rate() / (busy + 0.05 * (1.0 - busy));
        let mut state = usize::from(random.random::<f64>() >= busy);
        let (mut times, mut start) = (Vec::new(), 0.0);
        while start < self.span {
            let end = start + Exp::new(1.0 / means[state]).unwrap().sample(random);
            let rate = [high, 0.05 * high][state];
            times.extend(at_random(rate, (start, end.min(self.span)), random));
            (start, state) = (end, 1 - state);
        }
        times
    }
}

fn normal(random: &mut Pcg64Mcg) -> f64 {
    Normal::new(0.0, 1.0).unwrap().sample(random)
}

/// Draws the times of a Poisson process between two times, in no order.
pub(crate) fn at_random(rate: f64, (start, end): (f64, f64), random: &mut Pcg64Mcg) -> Vec<f64> {
    let mean = rate * (end - start);
    if mean <= 0.0 {
        return Vec::new();
    }
    let mut left: f64 = Poisson::new(mean).unwrap().sample(random);
    let mut times = Vec::new();
    while left >= 1.0 {
        left -= 1.0;
        times.push(start + (end - start) * random.random::<f64>());
    }
    times
}
