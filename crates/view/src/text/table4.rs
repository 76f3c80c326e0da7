//! Episodes in the form of OSDI'99 Table 4: samples by module and function.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use laggard_model::{Address, Episode, StackSample, Symbol, Symbols, printable, printable_lines};

use super::Look;

/// What parts an episode from its total.
const LINE: usize = 49;

/// Each episode's stack samples between its expiry (or its interrupt, where
/// another CPU had the timer) and its end, counted by the innermost function.
pub fn table4<'a>(
    episodes: impl IntoIterator<Item = &'a Episode>,
    symbols: &Symbols,
    look: Look,
) -> String {
    let mut text = String::new();
    for episode in episodes {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "Analysis of latency episode number {}",
            episode.number
        );
        let within = |sample: &&StackSample| {
            sample.at_ns >= episode.here_from() && sample.at_ns <= episode.end()
        };
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut total = 0;
        for sample in episode.evidence.samples.iter().filter(within) {
            *counts
                .entry(module_and_function(sample, symbols))
                .or_default() += 1;
            total += 1;
        }
        for ((module, function), count) in counts {
            let (module, function) = (printable(&module), printable(&function));
            let line = format!("{count} samples in {module} function {function}");
            text += &look.hanging("", "    ", &line);
        }
        let _ = writeln!(
            text,
            "{}\n{total} total samples in episode\n",
            "-".repeat(LINE.min(look.columns))
        );
    }
    printable_lines(&text).to_string()
}

fn module_and_function(sample: &StackSample, symbols: &Symbols) -> (String, String) {
    let named = |symbol: Option<&Symbol>, address: Address, module: &str| {
        let of = |text: Option<&String>, absent: &str| text.map_or(absent.into(), Clone::clone);
        let function = match symbol.and_then(|symbol| symbol.name.clone()) {
            Some(name) => name,
            None => format!("unknown ({address})"),
        };
        (
            of(symbol.and_then(|symbol| symbol.module.as_ref()), module),
            function,
        )
    };
    if let Some(&address) = sample.kernel.first() {
        return named(symbols.kernel.get(&address), address, "kernel");
    }
    match sample.user.first() {
        Some(&address) => {
            let process = symbols.user.get(&sample.process);
            named(
                process.and_then(|all| all.get(&address)),
                address,
                "unknown",
            )
        }
        None => ("unknown".into(), "unknown".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_made::late::{episode, notes};

    #[test]
    fn samples_are_counted_in_the_form_of_table_4() {
        let text = table4(&[episode(7)], &notes().symbols, Look::default());

        let line = "-".repeat(LINE);
        assert_eq!(
            text,
            format!(
                "Analysis of latency episode number 7\n2 samples in hog function spin\n{line}\n2 total samples in episode\n\n"
            )
        );
    }
}
