//! Makes a recording of the default services, for `make bench`: its cost must grow no
//! faster than its length.
//!
//! Usage: `scaled DIR SECONDS [CPUS] [PERIOD_MS] [keep-tail]`: on CPUS CPUs [2], with
//! `PERIOD_MS` between the expiries of a series [1]. One wakeup in 2,000 is late, and
//! late wakeups of `fifo:90` have trace data.

use std::path::PathBuf;

use laggard_made::late;
use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Episode, EpisodeNotes, Happening, Keep, Line, LineId,
    Manifest, Nanos, ProbePlan, Route, STAGES, Service, Stage, State,
};
use laggard_record::{EpisodeWriter, Recorder};

const USAGE: &str = "usage: scaled DIR SECONDS [CPUS] [PERIOD_MS] [keep-tail]";
/// Monotonic time of the start.
const START: Nanos = Nanos::from_secs(100);
/// Number of threads that make others late.
const THREADS: u64 = 40;
/// Wakeups per late wakeup.
const LATE_EVERY: u64 = 2_000;
/// Series of each CPU.
const SERIES: [(Service, Route); 6] = [
    (Service::Softirq, Route::Direct),
    (Service::Fifo(90), Route::Direct),
    (Service::Fifo(50), Route::Direct),
    (Service::Other, Route::Direct),
    (Service::Fifo(90), Route::Deferred),
    (Service::Worker, Route::Deferred),
];

/// `SplitMix64` (Steele et al. 2014), so that a recording is reproducible.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the late wakeup `seq` of a line on `cpu`.
fn episode(number: u64, (line, cpu): (LineId, Cpu), seq: u64, expiry: Nanos) -> Episode {
    let mut late = late::episode(number);
    let before = late.expiry_ns;
    let shift = |time: Nanos| (time + expiry).saturating_sub(before);
    late.evidence.from_ns = shift(late.evidence.from_ns);
    late.evidence.to_ns = shift(late.evidence.to_ns);
    for event in &mut late.evidence.events {
        event.at_ns = shift(event.at_ns);
        if let Happening::Switch { name, .. } = &mut event.what {
            *name = format!("thread {}", number % THREADS);
        }
    }
    for sample in &mut late.evidence.samples {
        sample.at_ns = shift(sample.at_ns);
    }
    (late.line, late.cpu, late.seq, late.expiry_ns) = (line, cpu, seq, expiry);
    late
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u64| {
        let text = arguments.get(place);
        text.map_or(default, |text| text.parse().expect(USAGE))
    };
    let dir = PathBuf::from(arguments.first().expect(USAGE));
    let length = Nanos::from_secs(number(1, 0));
    let (cpus, period) = (number(2, 2), Nanos::from_ms(number(3, 1)));
    let is_tail = arguments.get(4).is_some_and(|keep| keep == "keep-tail");
    let cpus = (0..u32::try_from(cpus).expect(USAGE)).map(Cpu);
    let on_cpu = |cpu| SERIES.map(|(service, route)| Line::new(cpu, service, route));
    let lines: Vec<Line> = cpus.flat_map(on_cpu).collect();
    let clock = Clock {
        end_ns: Some(START + length),
        ..Clock::monotonic(START, "2026-11-20T00:00:00Z")
    };
    let plan = ProbePlan {
        keep: if is_tail { Keep::Tail } else { Keep::All },
        period_ns: period,
        // Two recordings with the same seed would count as one.
        seed: length.ns(),
        ..ProbePlan::default()
    };
    let manifest = Manifest::new(Backend::Fake, plan, clock, lines.clone());
    let mut recorder = Recorder::create(&dir, manifest).expect("there is room");
    let mut episodes = EpisodeWriter::new(recorder.folder());
    let (mut state, mut kept) = (length.ns(), 0);
    for seq in 0..length.ns() / period.ns() {
        let expiry = START + period * seq;
        let mut rows = Batch::default();
        for (place, line) in lines.iter().enumerate() {
            let id = LineId(u16::try_from(place).expect("there are few lines"));
            let chance = random(&mut state);
            let is_late = chance.is_multiple_of(LATE_EVERY);
            let mut steps = [None; STAGES.len()];
            let body = 2_000 + chance % 200 * (chance >> 32) % 40_000;
            let last = if is_late { 2_000_000 } else { body };
            steps[Stage::Irq.index()] = Some(Nanos::from_ns(1_000 + chance % 4_000));
            steps[line.service.last_stage().index()] = Some(Nanos::from_ns(last));
            rows.push(&Activation::new(id, seq, expiry, steps));
            let is_traced = (line.service, line.route) == SERIES[1];
            if is_late && is_traced {
                kept += 1;
                let late = episode(kept, (id, line.cpu), seq, expiry);
                episodes.append(&late).expect("there is room");
            }
        }
        recorder.append(&rows).expect("there is room");
        if seq.is_multiple_of(1_000) {
            recorder.flush(expiry).expect("there is room");
        }
    }
    let notes = EpisodeNotes {
        kept,
        surplus: 0,
        thresholds_ns: vec![Some(Nanos::from_us(500)); lines.len()],
        ..late::notes()
    };
    episodes.finish(&notes).expect("there is room");
    recorder.finish(State::Complete).expect("there is room");
}
