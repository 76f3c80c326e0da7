//! Flame graph of late wakeups: their time per cause and call chain.
//!
//! Width is time, not a number of samples: each cause is as wide as its time
//! in all episodes, to the nanosecond. Within it, the time is spread over the
//! call chains that its samples show, which is as exact as sampling is. The page
//! draws the same stacks.

use std::collections::BTreeMap;

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options};
use laggard_answer::why::{Explained, Frame, FrameKind, stacks};
use laggard_model::text::{Unit, count, span};

use laggard_model::{Nanos, printable};

/// Suffix that [`MultiPalette::Java`] colours as kernel code.
const KERNEL: &str = "_[k]";
/// Suffix for user code.
const USER: &str = "_[j]";
/// Suffix for the thread or interrupt that took the time.
const WHO: &str = "_[i]";

/// Reason why a flame graph cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlameError {
    /// No episode took any time.
    #[error("no late wakeup was recorded; record for longer, or with a smaller `--threshold`")]
    Nothing,
    /// The drawing failed.
    #[error("draw the flame graph")]
    Draw(#[source] std::io::Error),
}

/// The flame graph of these episodes as SVG: class, who, then the call chain.
///
/// # Errors
/// When no episode took any time, or it cannot be drawn.
pub fn flame(late: &Explained<'_>) -> Result<String, FlameError> {
    let symbols = late.symbols();
    let mut folded: BTreeMap<String, Nanos> = BTreeMap::new();
    let mut total = Nanos::ZERO;
    for late_wakeup in &late.episodes {
        total += late_wakeup.episode.latency();
        for (stack, time) in stacks(late_wakeup.episode, &late_wakeup.explanation.parts, symbols) {
            *folded.entry(written(&stack)).or_default() += time;
        }
    }
    if total == Nanos::ZERO {
        return Err(FlameError::Nothing);
    }
    let mut options = options(late, total);
    let lines: Vec<String> = folded
        .into_iter()
        .map(|(stack, time)| format!("{stack} {}", time.ns()))
        .collect();
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(FlameError::Draw)?;
    String::from_utf8(svg)
        .map_err(|error| FlameError::Draw(std::io::Error::other(error.utf8_error())))
}

fn options(late: &Explained<'_>, total: Nanos) -> Options<'static> {
    let episodes = late.episodes.len();
    let mut options = Options::default();
    options.title = format!(
        "{}: {} of {} late wakeup{}{}, in {}",
        printable(&late.late.path),
        Unit::Auto.write_nanos(total),
        count(episodes as u64),
        if episodes == 1 { "" } else { "s" },
        late.service
            .map_or(String::new(), |name| format!(" of `{name}`")),
        span(late.late.duration()),
    );
    options.subtitle = Some(
        "Width: ns of their latency. From the bottom: class of the cause (red), who (blue), \
         call chain of user code (green) and of the kernel (orange), if sampled"
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

/// A stack as the drawing reads it: names by `;`, each marked with its colour.
fn written(stack: &[Frame]) -> String {
    let names: Vec<String> = stack
        .iter()
        .map(|frame| {
            let mark = match frame.level {
                FrameKind::Class(class) => return class.words().to_owned(),
                FrameKind::Who => WHO,
                FrameKind::User => USER,
                FrameKind::Kernel => KERNEL,
            };
            format!("{}{mark}", clean(&frame.name))
        })
        .collect();
    names.join(";")
}

/// A name without the characters that separate names and lines.
fn clean(name: &str) -> String {
    printable(name).to_string().replace(';', ",")
}

#[cfg(test)]
mod tests {
    use laggard_answer::why::RecordedEpisodes;
    use laggard_model::Service;

    use super::*;
    use laggard_made::late::{episode, manifest, notes};

    fn drawn(service: Option<Service>) -> Result<String, FlameError> {
        let late = RecordedEpisodes::new(
            "<r>.laggard",
            manifest(),
            vec![episode(1), episode(2)],
            notes(),
        );
        flame(&Explained::new(&late, service))
    }

    #[test]
    fn the_drawing_says_its_unit_and_escapes_names() {
        let svg = drawn(None).unwrap();

        for part in ["4.00 ms of 2 late wakeups", "&lt;r&gt;.laggard", "ns,"] {
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
        assert_eq!(clean("a;b\nc"), "a,b\\nc");
    }
}
