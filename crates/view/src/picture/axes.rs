//! Two scales, and the area between them.

use plotters::backend::DrawingBackend;
use plotters::style::RGBColor;

use super::PictureError;
use super::canvas::{Anchor, Area, Canvas, SMALL, TEXT};

/// Spacing of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    Linear {
        from: f64,
        to: f64,
    },
    /// Both ends are above zero.
    Log {
        from: f64,
        to: f64,
    },
}

impl Scale {
    /// Returns a logarithmic scale between powers of ten that contains `least` and `most`, both
    /// above zero.
    pub(super) fn decades(least: f64, most: f64) -> Self {
        let from = least.log10().floor();
        let to = most.log10().ceil().max(from + 1.0);
        Self::Log {
            from: 10_f64.powf(from),
            to: 10_f64.powf(to),
        }
    }

    /// Returns the position of `value`, 0 to 1. Values outside are placed at the ends.
    pub(super) fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { from, to } => (value - from) / (to - from),
            Self::Log { from, to } => {
                (value.max(f64::MIN_POSITIVE) / from).log10() / (to / from).log10()
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// Returns about `count` values to mark.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "marks are few, and so are powers of ten"
    )]
    pub(super) fn ticks(self, count: usize) -> Vec<f64> {
        match self {
            Self::Linear { from, to } => {
                let rough = (to - from) / count.max(1) as f64;
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .into_iter()
                    .map(|times| times * power)
                    .find(|step| *step >= rough)
                    .unwrap_or(rough);
                let first = (from / step).ceil() as i64;
                let last = (to / step + 1e-9).floor() as i64;
                (first..=last).map(|number| number as f64 * step).collect()
            }
            Self::Log { from, to } => {
                let first = (from.log10() - 1e-9).ceil() as i32;
                let last = (to.log10() + 1e-9).floor() as i32;
                let every = ((last - first) as usize).div_ceil(count.max(1)).max(1);
                (first..=last)
                    .step_by(every)
                    .map(|power| 10_f64.powi(power))
                    .collect()
            }
        }
    }
}

/// Axis: its scale, its name, and the format of its marks.
pub(super) struct Axis<'a> {
    pub(super) scale: Scale,
    pub(super) name: &'a str,
    pub(super) write: &'a dyn Fn(f64) -> String,
    /// Values to mark; if empty, the scale chooses them.
    pub(super) marks: Vec<f64>,
}

/// Area of the curves, and its scales.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axes {
    pub(super) frame: Area,
    x: Scale,
    y: Scale,
}

impl Axes {
    /// Draws grid and names within `frame`.
    pub(super) fn draw<B: DrawingBackend>(
        canvas: &mut Canvas<'_, B>,
        frame: Area,
        x: &Axis<'_>,
        y: &Axis<'_>,
    ) -> Result<Self, PictureError> {
        Self::draw_with(canvas, frame, (x, y), (42.0, 8, 0.0))
    }

    /// Draws one of several areas with the same x axis, whose marks and name only the last has.
    pub(super) fn draw_strip<B: DrawingBackend>(
        canvas: &mut Canvas<'_, B>,
        frame: Area,
        x: &Axis<'_>,
        y: &Axis<'_>,
        is_last: bool,
    ) -> Result<Self, PictureError> {
        let foot = if is_last { 42.0 } else { 6.0 };
        // The same for all, so that equal latencies are below each other.
        let room = canvas.width_of("1000k", SMALL);
        Self::draw_with(canvas, frame, (x, y), (foot, 2, room))
    }

    /// `foot` is the room for the marks and the name of the x axis. The y axis has about `count`
    /// marks, and at least `room` for their names.
    fn draw_with<B: DrawingBackend>(
        canvas: &mut Canvas<'_, B>,
        frame: Area,
        (x, y): (&Axis<'_>, &Axis<'_>),
        (foot, count, room): (f64, usize, f64),
    ) -> Result<Self, PictureError> {
        let marks = |axis: &Axis<'_>, count| {
            if axis.marks.is_empty() {
                axis.scale.ticks(count)
            } else {
                axis.marks.clone()
            }
        };
        let (across, up) = (marks(x, 10), marks(y, count));
        let widest = up
            .iter()
            .map(|mark| canvas.width_of(&(y.write)(*mark), SMALL))
            .fold(room, f64::max);
        let axes = Self {
            frame: Area {
                left: frame.left + 20.0 + widest + 8.0,
                top: frame.top + 6.0,
                right: frame.right - 12.0,
                bottom: frame.bottom - foot,
            },
            x: x.scale,
            y: y.scale,
        };
        let Area {
            left,
            top,
            right,
            bottom,
        } = axes.frame;
        let theme = canvas.theme;
        for mark in across {
            let (at, _) = axes.at(mark, 0.0);
            canvas.line(&[(at, top), (at, bottom)], theme.grid, 1.0)?;
            let name = (x.write)(mark);
            canvas.text(
                &name,
                (at, bottom + 13.0),
                Anchor::Centre,
                SMALL,
                theme.faint,
            )?;
        }
        for mark in up {
            let (_, at) = axes.at(0.0, mark);
            canvas.line(&[(left, at), (right, at)], theme.grid, 1.0)?;
            let name = (y.write)(mark);
            canvas.text(&name, (left - 7.0, at), Anchor::Right, SMALL, theme.faint)?;
        }
        canvas.line(
            &[(left, top), (left, bottom), (right, bottom)],
            theme.faint,
            1.0,
        )?;
        let middle = (left + right) / 2.0;
        canvas.text(
            x.name,
            (middle, bottom + 32.0),
            Anchor::Centre,
            TEXT,
            theme.ink,
        )?;
        let middle = (top + bottom) / 2.0;
        canvas.text(
            y.name,
            (frame.left + 6.0, middle),
            Anchor::Upwards,
            TEXT,
            theme.ink,
        )?;
        Ok(axes)
    }

    /// Returns the position of a point, pixels.
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let Area {
            left,
            top,
            right,
            bottom,
        } = self.frame;
        (
            left + (right - left) * self.x.place(x),
            bottom - (bottom - top) * self.y.place(y),
        )
    }

    /// Draws a horizontal line, with its name above its right end.
    pub(super) fn across<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas<'_, B>,
        value: f64,
        name: &str,
        colour: RGBColor,
    ) -> Result<(), PictureError> {
        let (_, y) = self.at(0.0, value);
        canvas.dashes(&[(self.frame.left, y), (self.frame.right, y)], colour, 1.0)?;
        let (width, ground) = (canvas.width_of(name, SMALL), canvas.theme.ground);
        let (right, top) = (self.frame.right - 4.0, y - 16.0);
        let behind = [
            (right - width - 4.0, top),
            (right, top),
            (right, y - 2.0),
            (right - width - 4.0, y - 2.0),
        ];
        canvas.fill(&behind, ground, 0.85)?;
        let place = (right - 2.0, y - 8.0);
        canvas.text(name, place, Anchor::Right, SMALL, colour)
    }
}

/// Formats a time as the name of a mark: `10 us`, `2.5 ms`.
pub(super) fn write_time(ns: f64) -> String {
    let (unit, factor) = match ns.abs() {
        ns if ns < 999.5 => ("ns", 1.0),
        ns if ns < 999.5e3 => ("us", 1e3),
        ns if ns < 999.5e6 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    if ns == 0.0 {
        return "0".into();
    }
    let text = format!("{:.3}", ns / factor);
    format!(
        "{} {unit}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_scale_gives_each_power_of_ten_the_same_room() {
        let scale = Scale::decades(3.0, 40_000.0);

        assert_eq!(
            scale,
            Scale::Log {
                from: 1.0,
                to: 100_000.0
            }
        );
        assert!((scale.place(100.0) - 0.4).abs() < 1e-12);
        assert_eq!(scale.ticks(10).len(), 6);
        assert!(
            scale.place(0.0).abs() < 1e-12,
            "smaller values are drawn at the end"
        );
    }

    #[test]
    fn linear_ticks_are_round_and_within() {
        let ticks = Scale::Linear {
            from: 0.0,
            to: 30.2,
        }
        .ticks(10);

        assert_eq!(ticks, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
    }

    #[test]
    fn a_mark_names_its_unit() {
        for (ns, text) in [
            (0.0, "0"),
            (1.0, "1 ns"),
            (1_000.0, "1 us"),
            (2_500_000.0, "2.5 ms"),
            (1e10, "10 s"),
        ] {
            assert_eq!(write_time(ns), text, "for {ns} ns");
        }
    }
}
