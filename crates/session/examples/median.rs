//! Measures for 2 s and prints each service's median latency.
//!
//! `cargo run -p laggard-session --example median` measures this machine, as root with every
//! service. With the file of a script as the only argument it plays the script instead.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use laggard_model::name::line_name;
use laggard_model::{Histogram, Line, Nanos};
use laggard_session::{News, Next, Plan, ProbeChoice, Session, SessionError, WatchError, Watcher};

/// Latencies of every service over all CPUs.
struct Latencies {
    lines: Vec<Line>,
    seen: BTreeMap<String, Histogram>,
}

impl Watcher for Latencies {
    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        for activation in news.batch.iter() {
            let line = self.lines[usize::from(activation.line.0)];
            for (line, latency) in activation.readings().of(line) {
                let name = line_name(line.service, line.route);
                self.seen.entry(name).or_default().add(latency);
            }
        }
        Ok(Next::GoOn)
    }
}

fn main() -> Result<(), SessionError> {
    let plan = Plan {
        duration: Some(Nanos::from_secs(2)),
        probe: match std::env::args_os().nth(1) {
            Some(script) => ProbeChoice::Script(script.into()),
            None => ProbeChoice::Best,
        },
        ..Plan::default()
    };
    let interrupted = AtomicBool::new(false);
    let session = Session::ready(&plan, &interrupted)?;
    let mut latencies = Latencies {
        lines: session.manifest().lines.clone(),
        seen: BTreeMap::new(),
    };
    session.run(&mut [&mut latencies])?;
    for (name, latencies_of_name) in &latencies.seen {
        if let Some(median) = latencies_of_name.quantile(0.5) {
            println!(
                "{name}: {median} in the median of {}",
                latencies_of_name.count()
            );
        }
    }
    Ok(())
}
