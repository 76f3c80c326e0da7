//! Stack samples of a late wakeup, by function (OSDI'99 Table 4).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_model::{Address, Episode, StackSample, Symbol, Symbols};

/// Number of samples in a function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SampleCount {
    /// Module, such as `kernel`; `unknown` without a name.
    pub module: String,
    /// Function, or its address without a name.
    pub function: String,
    pub count: u64,
}

/// Counts the samples between the start of a late wakeup on its CPU and its end, most
/// frequent first.
pub fn sample_counts(episode: &Episode, symbols: &Symbols) -> Vec<SampleCount> {
    let within = |sample: &&StackSample| {
        sample.at_ns >= episode.here_from() && sample.at_ns <= episode.end()
    };
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for sample in episode.evidence.samples.iter().filter(within) {
        *counts.entry(function(sample, symbols)).or_default() += 1;
    }
    let counts = counts.into_iter();
    let mut counts: Vec<SampleCount> = counts
        .map(|((module, function), count)| SampleCount {
            module,
            function,
            count,
        })
        .collect();
    counts.sort_by_key(|count| Reverse(count.count));
    counts
}

fn function(sample: &StackSample, symbols: &Symbols) -> (String, String) {
    let named = |symbol: Option<&Symbol>, address: Address, module: &str| {
        let function = symbol.and_then(|symbol| symbol.name.clone());
        let module_name = symbol.and_then(|symbol| symbol.module.clone());
        (
            module_name.unwrap_or_else(|| module.to_owned()),
            function.unwrap_or_else(|| address.to_string()),
        )
    };
    if let Some(&address) = sample.kernel.first() {
        return named(symbols.kernel.get(&address), address, "kernel");
    }
    sample.user.first().map_or_else(
        || ("unknown".into(), "unknown".into()),
        |&address| {
            let process = symbols.user.get(&sample.process);
            let symbol = process.and_then(|symbols| symbols.get(&address));
            named(symbol, address, "unknown")
        },
    )
}
