//! Recordings of a machine whose rate of late wakeups drifts, drawn from fixed
//! seeds.

use laggard_analyze::compare::RecordingCount;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Normal, Poisson};
use rand_pcg::Pcg64Mcg;

/// Number of comparisons per setting.
pub(crate) const RUNS: u64 = 1_200;
/// Duration of a recording, s.
const SPAN: f64 = 300.0;

/// Behaviour of a machine apart from the change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Expected number of bursts in a recording.
    pub(crate) bursts: f64,
    /// Mean number of late wakeups in a burst (geometric).
    pub(crate) size: f64,
    /// Standard deviation of the logarithm of the rate between recordings.
    pub(crate) drift: f64,
    /// Fraction of a deviation that the next recording keeps.
    pub(crate) memory: f64,
    /// Rate at the last recording divided by the rate at the first.
    pub(crate) growth: f64,
    /// Standard deviation of the logarithm of the rate between the four positions of A B B A.
    pub(crate) positions: f64,
}

pub(crate) const STEADY: Machine = Machine {
    bursts: 0.0,
    size: 1.0,
    drift: 0.0,
    memory: 0.0,
    growth: 1.0,
    positions: 0.0,
};

/// Draws the late wakeups of one recording; the rate also drifts within it.
fn recording(machine: Machine, rate: f64, random: &mut Pcg64Mcg) -> RecordingCount {
    let mut events = Vec::new();
    let mean = (machine.bursts * rate).max(1e-9);
    let bursts: f64 = Poisson::new(mean).unwrap().sample(random);
    let mut left = bursts;
    while left >= 1.0 {
        left -= 1.0;
        let mut time = random.random::<f64>() * (SPAN - 1.0);
        loop {
            events.push(time);
            if random.random::<f64>() * machine.size < 1.0 {
                break;
            }
            let step: f64 = Exp1.sample(random);
            time = (time + 0.05 + 0.01 * step).min(SPAN);
        }
    }
    RecordingCount::new(events, SPAN, SPAN).unwrap()
}

/// Draws `pairs` recordings of each side, made A B B A A B ..., with `times` the rate
/// in B. Comparison `run` with more recordings starts with the same ones.
pub(crate) fn recorded(
    machine: Machine,
    pairs: usize,
    times: f64,
    run: u64,
) -> [Vec<RecordingCount>; 2] {
    let order: Vec<usize> = (0..2 * pairs)
        .map(|number| [0, 1, 1, 0][number % 4])
        .collect();
    recorded_in(&order, machine, None, times, run)
}

/// Periodic job of the machine.
#[allow(dead_code, reason = "not each test program has one")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// Distance of the recordings with the job.
    pub(crate) every: u64,
    /// Rate with the job divided by the rate without it.
    pub(crate) times: f64,
}

/// Draws recordings in another order (0: A, 1: B), with or without a job.
pub(crate) fn recorded_in(
    order: &[usize],
    machine: Machine,
    job: Option<Job>,
    times: f64,
    run: u64,
) -> [Vec<RecordingCount>; 2] {
    let mut random = Pcg64Mcg::seed_from_u64(run);
    let normal = Normal::new(0.0, 1.0).unwrap();
    let mut deviation: f64 = normal.sample(&mut random);
    let mut of_position = [0.0; 4];
    if machine.positions > 0.0 {
        of_position = of_position.map(|_: f64| machine.positions * normal.sample(&mut random));
    }
    let mut sides = [Vec::new(), Vec::new()];
    for (number, &side) in order.iter().enumerate() {
        let of_job = job.filter(|job| (number as u64 + run).is_multiple_of(job.every));
        let of_side = if side == 1 { times } else { 1.0 };
        let place = number as f64 / (order.len() as f64 - 1.0) - 0.5;
        let rate = machine.growth.powf(place)
            * (machine.drift * deviation + of_position[number % 4]).exp()
            * of_side
            * of_job.map_or(1.0, |job| job.times);
        sides[side].push(recording(machine, rate, &mut random));
        let fresh: f64 = normal.sample(&mut random);
        let kept = machine.memory;
        deviation = kept * deviation + (1.0 - kept * kept).sqrt() * fresh;
    }
    sides
}
