//! `laggard rtos`: whether this system has what a real-time operating system needs.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::rtos::{self, RtosMeasured};
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{RtosBench, RtosPlan};
use laggard_model::text::Unit;
use laggard_model::{Nanos, RtosCriterion, WaitQueue};
use laggard_view::text;

use crate::args::RtosArgs;
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};

const LEAST_DURATION: Nanos = Nanos::from_secs(1);
const MOST_DURATION: Nanos = Nanos::from_secs(600);
/// A thread that is not taken over from gives up after 20 ms.
const MOST_WITHIN: Nanos = Nanos::from_ms(20);

pub(crate) fn rtos(args: &RtosArgs) -> anyhow::Result<Exit> {
    let (plan, asked) = planned(args)?;
    let stop = measuring::interruption()?;
    pipe::say(&format!(
        "{} on CPU {}, as real-time threads, at most {} each; Ctrl-C ends it",
        match asked.len() {
            1 => "1 criterion".into(),
            many => format!("{many} criteria"),
        },
        plan.cpu,
        Unit::Auto.write_nanos(args.duration)
    ));
    let host = host::identify(&Files::default());
    let mut measured = RtosMeasured::new(host, plan.cpu, args.within, asked);
    tried(&mut RtosBench::new(plan), &mut measured, &stop);
    let report = rtos::rtos(&measured);
    pipe::print(&match args.json {
        true => pipe::json(&report)?,
        false => text::rtos(&report, terminal::look(Unit::Auto)),
    })?;
    Ok(match report.is_met() {
        true => Exit::Ok,
        false => Exit::Unmet,
    })
}

/// One after the other, until all were tried or `stop` is set. What was ended early
/// is not told.
fn tried(bench: &mut RtosBench, measured: &mut RtosMeasured, stop: &AtomicBool) {
    let bar = ProgressBar::new(measured.asked.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len}: {wide_msg}") {
        bar.set_style(style);
    }
    for criterion in measured.asked.clone() {
        bar.set_message(criterion.about());
        bar.tick();
        let mut one = measured.clone();
        match criterion {
            RtosCriterion::Preemption => one.preemption = Some(bench.take_overs(stop)),
            RtosCriterion::Priorities => one.priorities = Some(bench.priorities(stop)),
            RtosCriterion::Order => {
                let queues = WaitQueue::ALL.into_iter();
                one.order = Some(queues.map(|queue| bench.wakes(queue, stop)).collect());
            }
            RtosCriterion::Inversion => one.inversion = Some(bench.inversions(stop)),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        *measured = one;
        bar.inc(1);
    }
    bar.finish_and_clear();
}

fn planned(args: &RtosArgs) -> anyhow::Result<(RtosPlan, Vec<RtosCriterion>)> {
    let duration = args.duration;
    if !(LEAST_DURATION..=MOST_DURATION).contains(&duration) {
        bail!("--duration {duration} is for each criterion; use 1s to 10min");
    }
    if args.within >= MOST_WITHIN {
        bail!(
            "--within {} is as long as a thread computes here before it gives up; use less than {MOST_WITHIN}",
            args.within
        );
    }
    let mut asked = match args.only.is_empty() {
        true => RtosCriterion::ALL.to_vec(),
        false => args.only.clone(),
    };
    asked.sort_unstable();
    asked.dedup();
    let cpu = measuring::one_cpu(args.cpu)?;
    Ok((RtosPlan { cpu, duration }, asked))
}
