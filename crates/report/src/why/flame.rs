//! Episodes as a flame graph: to whom their time went, and in which code.
//!
//! Width is time, not a number of samples: each cause is as wide as its time
//! in all episodes, to the nanosecond. Within it, the time is spread over the
//! call chains that its samples show, which is as exact as sampling is.

use std::collections::BTreeMap;

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options};
use laggard_analyze::causes::{Explanation, samples_by_part};
use laggard_model::{Cause, Culprit, Episode, Nanos, Service, StackSample, Symbol, Symbols};

use super::{Late, explained, words};
use crate::Unit;
use crate::duration::{count, span};

/// How [`MultiPalette::Java`] tells code of the kernel by colour.
const KERNEL: &str = "_[k]";
/// The same for user code.
const USER: &str = "_[j]";
/// The same for who took the time.
const WHO: &str = "_[i]";

/// Why there is no flame graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlameError {
    /// No episode took any time.
    #[error(
        "no late activation was kept, so there is nothing to draw; record for longer, or with a smaller `--threshold`"
    )]
    Nothing,
    /// The drawing failed.
    #[error("draw the flame graph")]
    Draw(#[source] std::io::Error),
}

/// The flame graph of all episodes, of `service` only if one is given, as SVG:
/// class, who, then the call chain.
///
/// # Errors
/// When no episode took any time, or it cannot be drawn.
pub fn flame(late: &Late<'_>, service: Option<Service>) -> Result<String, FlameError> {
    let explained = explained(late, service);
    let symbols = &late.notes.symbols;
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = Nanos::ZERO;
    for (episode, _, explanation) in &explained {
        total += episode.latency();
        for (stack, time) in stacks_of(episode, explanation, symbols) {
            *stacks.entry(stack).or_default() += time;
        }
    }
    if total == Nanos::ZERO {
        return Err(FlameError::Nothing);
    }
    let mut options = options(late, service, explained.len(), total);
    let lines: Vec<String> = stacks
        .into_iter()
        .map(|(stack, time)| format!("{stack} {time}"))
        .collect();
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(FlameError::Draw)?;
    String::from_utf8(svg)
        .map_err(|error| FlameError::Draw(std::io::Error::other(error.utf8_error())))
}

fn options(
    late: &Late<'_>,
    service: Option<Service>,
    episodes: usize,
    total: Nanos,
) -> Options<'static> {
    let mut options = Options::default();
    options.title = format!(
        "{}: {} of {} late activation{}{}, in {}",
        late.path,
        Unit::Auto.write_nanos(total),
        count(episodes as u64),
        if episodes == 1 { "" } else { "s" },
        service.map_or(String::new(), |one| format!(" of `{one}`")),
        span(super::duration(late.manifest)),
    );
    options.subtitle = Some(
        "Width: ns of their latency. From the bottom: class of the cause (red), who (blue), \
         call chain of user code (green) and of the kernel (orange), as far as sampled"
            .into(),
    );
    options.count_name = "ns".into();
    options.name_type = "Cause:".into();
    options.colors = Palette::Multi(MultiPalette::Java);
    options.hash = true;
    options.image_width = Some(1400);
    options.font_type = "sans-serif".into();
    options
}

/// The stacks of an episode, outermost first, and their times: together its
/// latency.
fn stacks_of(
    episode: &Episode,
    explanation: &Explanation,
    symbols: &Symbols,
) -> Vec<(String, u64)> {
    let shown = samples_by_part(episode, &explanation.parts);
    let mut stacks = Vec::new();
    for cause in &explanation.causes {
        let head = head(cause, symbols);
        let is_of = |part: usize| {
            let part = &explanation.parts[part];
            part.class == cause.class && part.culprit == cause.culprit
        };
        let samples: Vec<&StackSample> = shown
            .iter()
            .filter(|(part, _)| is_of(*part))
            .map(|(_, sample)| *sample)
            .collect();
        if samples.is_empty() {
            let at = cause.culprit.frame.map(|frame| symbols.kernel_name(frame));
            let last = at.map_or(String::new(), |name| format!(";{}{KERNEL}", clean(&name)));
            stacks.push((format!("{head}{last}"), cause.time_ns.ns()));
            continue;
        }
        let shares = shares(cause.time_ns.ns(), samples.len() as u64);
        for (sample, time) in samples.into_iter().zip(shares) {
            stacks.push((format!("{head}{}", chain(sample, symbols)), time));
        }
    }
    stacks
}

/// `whole` in `count` parts that add up to it.
fn shares(whole: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| whole / count + u64::from(at < whole % count))
}

/// Class and culprit, without the place that the chain shows.
fn head(cause: &Cause, symbols: &Symbols) -> String {
    let culprit = Culprit {
        frame: None,
        ..cause.culprit.clone()
    };
    match words::who(&culprit, symbols) {
        Some(who) => format!("{};{}{WHO}", cause.class, clean(&who)),
        None => cause.class.to_string(),
    }
}

/// The call chain, outermost first. Functions without a name are told by
/// their module only, because each address of them would be a tower of its own.
fn chain(sample: &StackSample, symbols: &Symbols) -> String {
    let known = symbols.user.get(&sample.process);
    let user = sample.user.iter().rev().map(|&at| {
        let symbol = known.and_then(|all| all.get(&at));
        named(symbol, || symbols.user_name(sample.process, at), USER)
    });
    let kernel = sample.kernel.iter().rev().map(|&at| {
        let symbol = symbols.kernel.get(&at);
        named(symbol, || symbols.kernel_name(at), KERNEL)
    });
    let mut frames: Vec<String> = user.chain(kernel).collect();
    frames.dedup();
    frames.concat()
}

fn named(symbol: Option<&Symbol>, name: impl Fn() -> String, mark: &str) -> String {
    let text = match symbol {
        Some(Symbol { name: Some(_), .. }) => name(),
        Some(Symbol {
            module: Some(module),
            ..
        }) => format!("[{module}]"),
        _ => "[not known]".into(),
    };
    format!(";{}{mark}", clean(&text))
}

/// A name without the characters that separate names and lines.
fn clean(name: &str) -> String {
    name.chars()
        .map(|one| match one {
            ';' => ',',
            one if one.is_control() => ' ',
            one => one,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{episode, manifest, notes};
    use super::*;

    fn drawn(service: Option<Service>) -> Result<String, FlameError> {
        let (manifest, notes) = (manifest(), notes());
        let episodes = [episode(1), episode(2)];
        let late = Late {
            path: "<r>.laggard".into(),
            manifest: &manifest,
            episodes: &episodes,
            notes: &notes,
            latest: Vec::new(),
            shortfalls: Vec::new(),
        };
        flame(&late, service)
    }

    #[test]
    fn the_stacks_of_an_episode_add_up_to_its_latency() {
        let (late, line, notes) = (episode(1), manifest().lines[0], notes());
        let explanation = laggard_analyze::causes::explain(&late, line.service, line.route);

        let stacks = stacks_of(&late, &explanation, &notes.symbols);

        let sum: u64 = stacks.iter().map(|(_, time)| time).sum();
        assert_eq!(sum, late.latency().ns());
        let hog = stacks
            .iter()
            .find(|(stack, _)| stack == "higher-priority thread;hog_[i];spin [hog]_[j]");
        assert!(hog.is_some_and(|(_, ns)| *ns > 900_000), "{stacks:?}");
    }

    #[test]
    fn the_drawing_says_its_unit_and_escapes_names() {
        let svg = drawn(None).unwrap();

        for part in ["4.00 ms of 2 late activations", "&lt;r&gt;.laggard", "ns,"] {
            assert!(svg.contains(part), "{part} in\n{svg}");
        }
        assert!(!svg.contains("<r>"));
    }

    #[test]
    fn nothing_late_is_no_empty_drawing() {
        assert!(matches!(
            drawn(Some(Service::Other)),
            Err(FlameError::Nothing)
        ));
    }

    #[test]
    fn a_name_cannot_break_a_stack_apart() {
        assert_eq!(clean("a;b\nc"), "a,b c");
    }
}
