//! Known stalls, probed: the answers hold, however coarse the probe is and however few of its
//! samples were kept.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers, far from the end of the range"
)]

use laggard_analyze::distribution::{Fold, Split};
use laggard_analyze::exceedance::{Blackout, Collector, Exceedance};
use laggard_analyze::qos::{Buffering, failures_of_counts, late_jobs};
use laggard_answer::qos::{Application, Fitness, MissFigures, MissPolicy, ServiceOutlook, assess};
use laggard_answer::sched::{
    LargestPart, SchedQuestion, TaskAsked, TaskRank, TaskVerdict, UnseenTime, Verdict, analyse,
};
use laggard_answer::{Load, Run, Trust};
use laggard_model::{
    Activation, Batch, Cpu, CpuList, Gather, Line, LineId, Nanos, ProbePlan, Route, STAGES,
    Service, Stage,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const START: Nanos = Nanos::from_secs(1_000);
const EXPOSURE: f64 = 30e9;
/// Latency of a wakeup on a free CPU, ns.
const ORDINARY: f64 = 19e3;
const LINES: [Line; 2] = [line(0), line(1)];

const fn line(cpu: u32) -> Line {
    Line::new(Cpu(cpu), Service::Fifo(90), Route::Direct)
}

fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Stalls of about `length` each `between` on average, and now and then
/// some close together. Half of them are of one length, the others vary.
fn train(random: &mut Pcg64Mcg, length: f64, between: f64) -> Vec<Blackout> {
    let mut stalls = Vec::new();
    let mut start = exponential(random, between);
    while start + 20.0 * length < EXPOSURE {
        let varies = random.random::<f64>() < 0.5;
        let more = if varies {
            exponential(random, length / 3.0)
        } else {
            0.0
        };
        let end = start + length + more;
        stalls.push(Blackout::new(start, end));
        start = end + exponential(random, between) + length;
    }
    stalls
}

/// Simulates a dithered open-loop probe with this period. Without stalls it observes only the usual
/// latency.
fn probed(truth: &[Blackout], period: f64, random: &mut Pcg64Mcg) -> Run {
    run(&batch(truth, period, random), period, 0)
}

fn batch(truth: &[Blackout], period: f64, random: &mut Pcg64Mcg) -> Batch {
    let mut batch = Batch::default();
    add(&mut batch, truth, period, (LineId(0), random));
    batch
}

fn add(
    batch: &mut Batch,
    truth: &[Blackout],
    period: f64,
    (line, random): (LineId, &mut Pcg64Mcg),
) {
    let mut next = 0;
    let slots = (EXPOSURE / period) as u64;
    let mut served = 0.0;
    for seq in 0..slots {
        let expiry = (seq as f64 + random.random::<f64>()) * period;
        while truth.get(next).is_some_and(|stall| stall.end <= expiry) {
            next += 1;
        }
        let stall = truth
            .get(next)
            .filter(|candidate| candidate.start <= expiry);
        let free = stall.map_or(expiry, |current| current.end);
        if expiry > served {
            served = free + ORDINARY;
        }
        let mut activation = Activation {
            line,
            seq,
            expiry: START + Nanos::from_ns(expiry as u64),
            missed: served < free + ORDINARY,
            censored: false,
            steps: [None; STAGES.len()],
        };
        activation.steps[Stage::User.index()] = Some(Nanos::from_ns((served - expiry) as u64));
        batch.push(&activation);
    }
}

/// The same, next to a CPU without late wakeups.
fn probed_beside(truth: &[Blackout], period: f64, random: &mut Pcg64Mcg) -> Run {
    let mut batch = batch(truth, period, random);
    ordinary(&mut batch, LineId(1), period);
    run(&batch, period, 0)
}

/// Returns the run of `batch`, as if it were doubled `doublings` times in length, with additional
/// samples that are not later than the others.
fn run(batch: &Batch, period: f64, doublings: u32) -> Run {
    let mut fold = Fold::new(2, Split::Whole);
    fold.add(batch);
    for _ in 0..doublings {
        fold.join(fold.clone());
    }
    let mut late = Collector::new(2, Nanos::from_ns(2 * period as u64));
    late.add(batch);
    Run {
        dir: "r.laggard".into(),
        path: "r.laggard".into(),
        load: None,
        start: START,
        duration: Nanos::from_ns(EXPOSURE as u64) * 2_u64.pow(doublings),
        plan: ProbePlan {
            period_ns: Nanos::from_ns(period as u64),
            ..ProbePlan::default()
        },
        groups: fold.groups(&LINES, false),
        streams: late.streams(&LINES),
        waiting: Vec::new(),
        own_cpus: 0.02,
        doubts: Vec::new(),
        trust: Trust::Good,
    }
}

/// Returns a recording without late wakeups, doubled `doublings` times in length.
fn quiet(period: f64, doublings: u32) -> Run {
    let mut batch = Batch::default();
    ordinary(&mut batch, LineId(0), period);
    ordinary(&mut batch, LineId(1), period);
    run(&batch, period, doublings)
}

/// Activations that nothing makes late.
fn ordinary(batch: &mut Batch, line: LineId, period: f64) {
    for seq in 0..(EXPOSURE / period) as u64 {
        let mut activation = Activation::new(
            line,
            seq,
            START + Nanos::from_ns((seq as f64 * period) as u64),
            [None; STAGES.len()],
        );
        activation.steps[Stage::User.index()] = Some(Nanos::from_ns(ORDINARY as u64));
        batch.push(&activation);
    }
}

/// The same where samples up to this were not kept.
fn tail(run: &Run, floor: f64) -> Run {
    let mut tail = run.clone();
    for stream in &mut tail.streams {
        stream.floor = Nanos::from_ns(floor as u64);
        stream
            .exceedances
            .retain(|late| late.latency > stream.floor);
    }
    tail
}

fn load(run: Run) -> Load {
    loads(vec![run])
}

fn loads(runs: Vec<Run>) -> Load {
    Load::new(laggard_model::LoadLabel::none(), runs)
}

fn application(buffering: (u32, f64, f64)) -> Application {
    let (buffers, buffer, compute) = buffering;
    let time = |ns: f64| Nanos::from_ns(ns as u64);
    let tolerance = f64::from(buffers - 1) * buffer;
    Application {
        name: "a".into(),
        buffers,
        buffer_ns: time(buffer),
        compute_ns: time(compute),
        tolerance_ns: time(tolerance),
        slack_ns: time(tolerance - compute),
        source: String::new(),
        service: None,
        policy: MissPolicy::Late,
    }
}

fn figures(run: Run, buffering: (u32, f64, f64)) -> MissFigures {
    of_service(&load(run), buffering).outlook
}

fn of_service(load: &Load, buffering: (u32, f64, f64)) -> ServiceOutlook {
    let mut outlook = assess(load, &application(buffering), None).unwrap();
    outlook.services.remove(0)
}

/// The failures that these stalls make.
fn failures(truth: &[Blackout], (buffers, buffer, compute): (u32, f64, f64)) -> f64 {
    let buffering = Buffering::new(buffers, buffer, compute).unwrap();
    let (mut episodes, mut misses) = (0.0, 0.0);
    for phase in 0..16 {
        let phase = (f64::from(phase) + 0.5) / 16.0 * buffer;
        let late = late_jobs(truth, EXPOSURE, buffering, phase, ORDINARY).unwrap();
        episodes += late.episodes.len() as f64 / 16.0;
        misses += late.misses.len() as f64 / 16.0;
    }
    failures_of_counts(episodes, misses)
}

#[test]
fn a_cpu_that_fails_more_often_than_the_others_is_named_and_decides() {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let (period, buffering) = (250e3, (2, 2667e3, 800e3));
    let truth = train(&mut random, 4e6, 1e9);
    let load = load(probed_beside(&truth, period, &mut random));

    let outlook = of_service(&load, buffering);

    let apart = outlook.apart.as_ref().expect("CPU 0 stands out");
    assert_eq!((apart.cpus.as_slice(), apart.others), (&[Cpu(0)][..], 1));
    let on = apart.on.failures.unwrap();
    assert!(
        (on / failures(&truth, buffering) - 1.0).abs() < 0.05,
        "{on} of {truth:?}"
    );
    assert_eq!(apart.elsewhere.failures, Some(0.0));
    // All failures in half of the time.
    let (overall, there) = (outlook.outlook.mttf_ns.unwrap(), apart.on.mttf_ns.unwrap());
    assert!((overall / there - 2.0).abs() < 0.05, "{overall} {there}");
    assert_eq!(outlook.judged().0.mttf_ns, Some(there));
    assert_eq!(outlook.verdict, Fitness::NotFit);
}

#[test]
fn equally_failing_cpus_are_not_listed_separately() {
    let mut random = Pcg64Mcg::seed_from_u64(13);
    let period = 250e3;
    let mut decided = 0;
    for _ in 0..40 {
        let mut both = batch(&train(&mut random, 4e6, 1e9), period, &mut random);
        add(
            &mut both,
            &train(&mut random, 4e6, 1e9),
            period,
            (LineId(1), &mut random),
        );
        let outlook = of_service(&load(run(&both, period, 0)), (2, 2667e3, 800e3));
        decided += u32::from(outlook.apart.is_some());
    }

    // One in 1,000 is asked.
    assert!(decided <= 1, "{decided} of 40");
}

/// Lower and upper limit of the number of failures in the observed time.
fn interval(figures: &MissFigures) -> (f64, f64) {
    let least = figures.mttf_high_ns.map_or(0.0, |most| EXPOSURE / most);
    (least, EXPOSURE / figures.mttf_low_ns)
}

const APPLICATIONS: [(u32, f64, f64); 5] = [
    (2, 250e3, 60e3),
    (2, 667e3, 200e3),
    (2, 1333e3, 400e3),
    (3, 500e3, 50e3),
    (2, 5333e3, 1600e3),
];
const PERIODS: [f64; 5] = [100e3, 250e3, 500e3, 1e6, 4e6];

#[test]
fn a_constant_latency_never_fails_whatever_the_probe_and_the_buffers() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    for period in PERIODS {
        let run = probed(&[], period, &mut random);
        for buffering in APPLICATIONS {
            let result = figures(run.clone(), buffering);

            let what = format!("{buffering:?} by {period}: {result:?}");
            assert_eq!(interval(&result).0, 0.0, "{what}");
            assert_eq!(
                (result.mttf_ns, result.late_per_hour),
                (None, 0.0),
                "{what}"
            );
            let slack = buffering.1 * f64::from(buffering.0 - 1) - buffering.2;
            assert_eq!(result.failures.is_some(), slack >= 2.0 * period, "{what}");
        }
    }
}

#[test]
fn effect_of_stalls_is_in_the_interval_for_any_probe_period() {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let (mut intervals, mut held) = (0, 0);
    for (length, between) in [(150e3, 20e6), (500e3, 50e6), (1.2e6, 40e6), (4e6, 300e6)] {
        let truth = train(&mut random, length, between);
        for period in PERIODS {
            let run = probed(&truth, period, &mut random);
            for buffering in APPLICATIONS {
                let result = figures(run.clone(), buffering);
                let truth = failures(&truth, buffering);
                let (least, most) = interval(&result);
                intervals += 1;
                let holds = least <= truth && truth <= most;
                held += u32::from(holds);
                println!(
                    "{} stalls of {length}, {buffering:?} by {period}: {truth:.1} in {least:.1} to {most:.1}, {:?}",
                    if holds { "   " } else { "NOT" },
                    result.failures
                );
            }
        }
    }
    assert!(held * 100 >= intervals * 97, "{held} of {intervals}");
}

#[test]
fn tail_recording_gives_no_narrower_interval_than_all_samples() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for (length, between) in [(150e3, 20e6), (1.2e6, 40e6), (4e6, 300e6)] {
        let truth = train(&mut random, length, between);
        for period in [250e3, 1e6] {
            let whole = probed(&truth, period, &mut random);
            for floor in [30e3, 100e3, 1e6, 5e6] {
                let tail = tail(&whole, floor);
                for buffering in APPLICATIONS {
                    let (whole, tail) = (
                        figures(whole.clone(), buffering),
                        figures(tail.clone(), buffering),
                    );
                    let what = format!("{buffering:?}, floor {floor}: {whole:?}, tail {tail:?}");
                    if tail.failures.is_some() {
                        assert_eq!(
                            (tail.failures, tail.mttf_low_ns, tail.mttf_high_ns),
                            (whole.failures, whole.mttf_low_ns, whole.mttf_high_ns),
                            "{what}"
                        );
                        continue;
                    }
                    let (inner, outer) = (interval(&whole), interval(&tail));
                    let failures = whole.failures.unwrap_or(inner.0);
                    assert!(outer.0 <= failures * 1.001, "{what}");
                    assert!(
                        outer.1 * 1.001 >= whole.failures.unwrap_or(inner.1),
                        "{what}"
                    );
                }
            }
        }
    }
}

/// A single stall of 28 ms, shown by a wakeup soon after its start.
#[test]
fn observed_stall_fails_for_any_probe_period() {
    let truth = [Blackout::new(12.000_1e9, 12.028_6e9)];
    let mut random = Pcg64Mcg::seed_from_u64(17);
    for period in [1e6, 4e6] {
        let load = load(probed_beside(&truth, period, &mut random));
        // A whole buffer and more of the stall is beyond the slack of each.
        for buffering in [(2, 667e3, 200e3), (2, 2667e3, 800e3)] {
            let outlook = of_service(&load, buffering);

            let least = interval(&outlook.outlook).0;
            assert!(least > 0.0, "{buffering:?} by {period}: {outlook:?}");
            assert_eq!(
                outlook.verdict,
                Fitness::NotFit,
                "{buffering:?} by {period}"
            );
        }
    }
}

/// For the same recording: a shorter or equal buffer, and less slack.
#[test]
fn a_stricter_application_is_never_judged_better() {
    let rank = |fitness| match fitness {
        Fitness::NotFit => 0,
        Fitness::Unknown => 1,
        Fitness::Fit => 2,
    };
    // From JACK with 32 frames to a video call.
    let buffers = [250e3, 667e3, 1333e3, 2667e3, 5333e3, 10_667e3, 21_333e3];
    let mut random = Pcg64Mcg::seed_from_u64(19);
    let mut verdicts = [0; 3];
    for _ in 0..40 {
        let length = 10f64.powf(5.0 + 2.7 * random.random::<f64>());
        let between = 10f64.powf(8.5 + 2.5 * random.random::<f64>()) + 3.0 * length;
        let truth = train(&mut random, length, between);
        let period = PERIODS[random.random_range(1..PERIODS.len())];
        let run = probed_beside(&truth, period, &mut random);
        // Then nothing for a while: 30 s, 8 min or 17 h.
        let doublings = [0, 4, 11][random.random_range(0..3)];
        let run = loads(vec![run, quiet(period, doublings)]);
        let outlooks = buffers.map(|buffer| {
            let outlooks = of_service(&run, (2, buffer, 0.3 * buffer));
            verdicts[rank(outlooks.verdict)] += 1;
            outlooks.verdict
        });
        for (strict, loose) in outlooks.iter().zip(&outlooks[1..]) {
            assert!(
                rank(*strict) <= rank(*loose),
                "{outlooks:?}: {} stalls of {length} by {period}, then {doublings}",
                truth.len()
            );
        }
    }
    assert!(verdicts.iter().all(|&count| count > 10), "{verdicts:?}");
}

fn task(compute: f64, period: f64) -> TaskAsked {
    let time = |ns: f64| Nanos::from_ns(ns as u64);
    TaskAsked {
        name: "a".into(),
        compute_ns: time(compute),
        period_ns: time(period),
        deadline_ns: time(period),
        blocking_ns: Nanos::ZERO,
        service: Service::Fifo(90),
        cpu: None,
        buffers: None,
        rank: TaskRank::default(),
    }
}

fn verdict(run: Run, task: TaskAsked) -> TaskVerdict {
    let question = SchedQuestion {
        tasks: vec![task],
        overhead: Nanos::ZERO,
        permitted: Nanos::from_secs(8),
        cpus: CpuList::default(),
        remarks: Vec::new(),
    };
    analyse(&load(run), &question).unwrap().tasks.remove(0)
}

#[test]
fn gap_between_two_samples_is_a_bound_and_not_a_latency() {
    let mut random = Pcg64Mcg::seed_from_u64(13);
    for period in [1e6, 4e6] {
        let run = probed(&[], period, &mut random);
        for (compute, every) in [(60e3, 250e3), (300e3, 20e6), (2e6, 40e6)] {
            let result = verdict(run.clone(), task(compute, every));

            // The latency is 19 us, and less than any work here.
            let work = Nanos::from_ns(compute as u64);
            let what = format!("{compute} by {period}: {:?}", result.limit);
            assert!(
                matches!(result.limit.largest, LargestPart::Work { .. }),
                "{what}"
            );
            let least = result.least_ns.unwrap();
            assert!((work.as_f64() + ORDINARY - least).abs() < 500.0, "{what}");
            // Two dithered activations are up to two periods apart.
            let more = result.most_ns.map_or(f64::INFINITY, |most| most - least);
            assert!(more >= 2.0 * period * 0.99, "{what}: {more}");
            let unseen = UnseenTime::UpTo { time_ns: more };
            assert_eq!(result.limit.unseen, Some(unseen), "{what}");
        }
    }
}

/// The worst response of jobs of `compute` each `period`, from any phase.
fn worst(truth: &[Blackout], compute: f64, period: f64) -> f64 {
    let mut worst = compute + ORDINARY;
    // The worst case starts with a stall.
    for (first, stall) in truth.iter().enumerate() {
        let mut now = stall.start;
        let mut next = first;
        for job in 0..50 {
            let due = stall.start + f64::from(job) * period;
            if now < due {
                break;
            }
            let mut left = compute + if job == 0 { ORDINARY } else { 0.0 };
            while let Some(stall) = truth.get(next).filter(|stall| stall.start <= now + left) {
                left -= (stall.start - now).max(0.0);
                now = stall.end;
                next += 1;
            }
            now += left;
            worst = worst.max(now - due);
        }
    }
    worst
}

#[test]
fn effect_of_stalls_on_a_task_is_within_its_bounds() {
    let mut random = Pcg64Mcg::seed_from_u64(9);
    for (length, between) in [(150e3, 5e6), (500e3, 50e6), (1.2e6, 40e6), (4e6, 300e6)] {
        let truth = train(&mut random, length, between);
        for period in [250e3, 1e6, 4e6] {
            let run = probed(&truth, period, &mut random);
            for (compute, every) in [(60e3, 250e3), (300e3, 5e6), (2e6, 10e6), (60e6, 100e6)] {
                let result = verdict(run.clone(), task(compute, every));
                let worst = worst(&truth, compute, every);
                let (least, most) = (result.least_ns, result.most_ns);
                let what = format!(
                    "stalls of {length}, {compute} in {every} by {period}: {worst} in {least:?} to {most:?}, {:?}",
                    result.verdict
                );
                println!("{what}");
                assert!(least.is_some_and(|least| least <= worst + 1e3), "{what}");
                assert!(most.is_none_or(|most| worst <= most + 1e3), "{what}");
                if result.verdict == Verdict::Meets {
                    assert!(worst <= every, "{what}");
                }
                let tail = verdict(tail(&run, 600e3), task(compute, every));
                let same = tail.verdict == result.verdict;
                assert!(same || tail.verdict == Verdict::Unknown, "{what}");
            }
        }
    }
}

/// A stall of 104 days, which a recording of 30 s that was cut short can claim.
#[test]
fn a_stall_of_months_takes_no_longer_than_the_recording() {
    const LONG: f64 = 9e15;
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for period in [1e6, 4e6] {
        let whole = probed(&[], period, &mut random);
        for duration in [EXPOSURE, LONG] {
            let mut run = whole.clone();
            run.duration = Nanos::from_ns(duration as u64);
            for stream in &mut run.streams {
                stream.exceedances.push(Exceedance {
                    expiry: START + Nanos::from_ns(EXPOSURE as u64),
                    latency: Nanos::from_ns(LONG as u64),
                    free_until: START,
                });
            }
            for run in [tail(&run, 1e9), run] {
                let result = assess(&load(run), &application(APPLICATIONS[0]), None);
                assert_eq!(result.is_err(), duration > EXPOSURE, "{result:?}");
            }
        }
    }
}
