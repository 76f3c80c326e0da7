//! Lines, boxes and letters, in pixels of the requested size.

use laggard_model::printable;
use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontTransform, IntoFont as _, RGBColor, ShapeStyle, TextStyle};

use super::PictureError;
use super::theme::Theme;

/// Height of letters, pixels.
pub(super) const TITLE: f64 = 19.0;
pub(super) const TEXT: f64 = 13.0;
pub(super) const SMALL: f64 = 11.5;

/// Position of a text relative to its given point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Anchor {
    Left,
    Centre,
    Right,
    /// Centred, and read upwards.
    Upwards,
}

/// Pattern of a line. Curves differ by it, too, because colours alone are hard to tell apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stroke {
    Solid,
    Dashes,
    Dots,
    DashesAndDots,
}

impl Stroke {
    /// Returns the pattern of curve `number` of several of the same kind.
    pub(super) const fn nth(number: usize) -> Self {
        match number % 4 {
            0 => Self::Solid,
            1 => Self::Dashes,
            2 => Self::Dots,
            _ => Self::DashesAndDots,
        }
    }

    /// Returns dashes if `is_dashed`.
    pub(super) const fn dashed(is_dashed: bool) -> Self {
        if is_dashed { Self::Dashes } else { Self::Solid }
    }

    /// Returns the lengths of dashes and gaps in turn, pixels.
    const fn lengths(self) -> &'static [f64] {
        match self {
            Self::Solid => &[],
            Self::Dashes => &[6.0, 4.0],
            Self::Dots => &[2.0, 3.0],
            Self::DashesAndDots => &[9.0, 3.0, 2.0, 3.0],
        }
    }
}

/// Area of a picture: left, top, right, bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// Drawing surface.
pub(super) struct Canvas<'a, B: DrawingBackend> {
    backend: &'a mut B,
    pub(super) theme: Theme,
    size: (f64, f64),
    scale: f64,
}

type Drawn = Result<(), PictureError>;

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    /// Creates a canvas of one colour. `scale` points of the backend are a pixel.
    pub(super) fn new(
        backend: &'a mut B,
        theme: Theme,
        (width, height): (u32, u32),
        scale: u32,
    ) -> Result<Self, PictureError> {
        let mut canvas = Self {
            backend,
            theme,
            size: (width.into(), height.into()),
            scale: scale.into(),
        };
        let (width, height) = canvas.size;
        canvas.fill(
            &[(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)],
            theme.ground,
            1.0,
        )?;
        Ok(canvas)
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "a picture has at most 16,000 points a side"
    )]
    fn at(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let whole = |value: f64| (value * self.scale).round() as i32;
        (whole(x), whole(y))
    }

    /// Draws a line through `points`, `width` pixels thick.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few points"
    )]
    pub(super) fn line(&mut self, points: &[(f64, f64)], colour: RGBColor, width: f64) -> Drawn {
        let style = ShapeStyle {
            color: colour.to_rgba(),
            filled: false,
            stroke_width: (width * self.scale).round().max(1.0) as u32,
        };
        let path: Vec<(i32, i32)> = points.iter().map(|&point| self.at(point)).collect();
        drawn(self.backend.draw_path(path, &style))
    }

    /// Draws a dashed line.
    pub(super) fn dashes(&mut self, points: &[(f64, f64)], colour: RGBColor, width: f64) -> Drawn {
        self.stroke(points, colour, width, Stroke::Dashes)
    }

    /// Draws a line with a pattern.
    pub(super) fn stroke(
        &mut self,
        points: &[(f64, f64)],
        colour: RGBColor,
        width: f64,
        stroke: Stroke,
    ) -> Drawn {
        let mut lengths = stroke.lengths().iter().copied().cycle();
        let Some(mut left) = lengths.next() else {
            return self.line(points, colour, width);
        };
        let mut dash = Vec::new();
        // `left` is the remaining length of the current dash or gap.
        let mut is_on = true;
        for two in points.windows(2) {
            let (mut from, to) = (two[0], two[1]);
            if is_on && dash.is_empty() {
                dash.push(from);
            }
            loop {
                let length = (to.0 - from.0).hypot(to.1 - from.1);
                if length < left {
                    left -= length;
                    if is_on {
                        dash.push(to);
                    }
                    break;
                }
                let share = left / length.max(1e-9);
                from = (
                    from.0 + (to.0 - from.0) * share,
                    from.1 + (to.1 - from.1) * share,
                );
                dash.push(from);
                if is_on {
                    self.line(&dash, colour, width)?;
                    dash.clear();
                } else {
                    dash = vec![from];
                }
                is_on = !is_on;
                left = lengths.next().unwrap_or(left);
            }
        }
        if is_on && dash.len() > 1 {
            self.line(&dash, colour, width)?;
        }
        Ok(())
    }

    /// Draws a filled shape with `strength` from 0 (invisible) to 1.
    pub(super) fn fill(
        &mut self,
        corners: &[(f64, f64)],
        colour: RGBColor,
        strength: f64,
    ) -> Drawn {
        let style = ShapeStyle {
            color: colour.mix(strength),
            filled: true,
            stroke_width: 0,
        };
        let path: Vec<(i32, i32)> = corners.iter().map(|&point| self.at(point)).collect();
        drawn(self.backend.fill_polygon(path, &style))
    }

    /// Draws a dot, filled or as a ring.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few points"
    )]
    pub(super) fn dot(
        &mut self,
        point: (f64, f64),
        radius: f64,
        colour: RGBColor,
        filled: bool,
    ) -> Drawn {
        let style = ShapeStyle {
            color: colour.to_rgba(),
            filled,
            stroke_width: self.scale as u32,
        };
        let radius = (radius * self.scale).round() as u32;
        let point = self.at(point);
        drawn(self.backend.draw_circle(point, radius, &style, filled))
    }

    /// Writes text, vertically centred on the given point.
    pub(super) fn text(
        &mut self,
        text: &str,
        point: (f64, f64),
        anchor: Anchor,
        size: f64,
        colour: RGBColor,
    ) -> Drawn {
        let mut font = ("sans-serif", size * self.scale).into_font();
        if anchor == Anchor::Upwards {
            font = font.transform(FontTransform::Rotate270);
        }
        let place = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Right => HPos::Right,
            Anchor::Centre | Anchor::Upwards => HPos::Center,
        };
        let style = TextStyle::from(font)
            .color(&colour)
            .pos(Pos::new(place, VPos::Center));
        let point = self.at(point);
        drawn(
            self.backend
                .draw_text(&printable(text).to_string(), &style, point),
        )
    }

    pub(super) fn width_of(&self, text: &str, size: f64) -> f64 {
        let font = ("sans-serif", size * self.scale).into_font();
        let size = font.box_size(&printable(text).to_string());
        size.map_or(0.0, |(width, _)| f64::from(width) / self.scale)
    }

    /// Shortens `text` to `room` pixels.
    pub(super) fn cut(&self, text: &str, size: f64, room: f64) -> String {
        let text = printable(text).to_string();
        if self.width_of(&text, size) <= room {
            return text;
        }
        let mut kept: Vec<char> = text.chars().collect();
        while kept.pop().is_some() {
            let shorter: String = kept.iter().chain(&['…']).collect();
            if self.width_of(&shorter, size) <= room {
                return shorter;
            }
        }
        String::new()
    }

    /// Breaks a text at its spaces into lines of at most `room` pixels. A longer word has a line.
    pub(super) fn wrap(&self, text: &str, size: f64, room: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            match lines.last_mut() {
                Some(line) if self.width_of(&[line.as_str(), word].join(" "), size) <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.into()),
            }
        }
        lines
    }

    /// Writes title, subtitle and captions, and returns the remaining area.
    pub(super) fn head_and_foot(
        &mut self,
        title: &str,
        subtitle: &str,
        captions: &[String],
    ) -> Result<Area, PictureError> {
        const EDGE: f64 = 18.0;
        const LINE: f64 = 16.0;
        let (width, height) = self.size;
        let room = width - 2.0 * EDGE;
        let Theme { ink, faint, .. } = self.theme;
        let title = self.cut(title, TITLE, room);
        self.text(&title, (EDGE, 24.0), Anchor::Left, TITLE, ink)?;
        let subtitle = self.cut(subtitle, SMALL, room);
        self.text(&subtitle, (EDGE, 45.0), Anchor::Left, SMALL, faint)?;
        let mut bottom = height - 12.0;
        let lines = captions
            .iter()
            .flat_map(|text| self.wrap(text, SMALL, room));
        for line in lines.collect::<Vec<_>>().iter().rev() {
            let caption = self.cut(line, SMALL, room);
            self.text(&caption, (EDGE, bottom), Anchor::Left, SMALL, faint)?;
            bottom -= LINE;
        }
        Ok(Area {
            left: EDGE,
            top: 60.0,
            right: width - EDGE,
            bottom: bottom - 2.0,
        })
    }

    /// Writes the legend of the colours, with as many lines as necessary, and returns the remaining
    /// area.
    pub(super) fn legend(
        &mut self,
        entries: &[(String, RGBColor, Stroke)],
        frame: Area,
    ) -> Result<Area, PictureError> {
        const SIGN: f64 = 22.0;
        const GAP: f64 = 16.0;
        const LINE: f64 = 19.0;
        let (mut x, mut y) = (frame.left, frame.top + 6.0);
        for (name, colour, stroke) in entries {
            let width = SIGN + 6.0 + self.width_of(name, SMALL);
            if x > frame.left && x + width > frame.right {
                (x, y) = (frame.left, y + LINE);
            }
            let sign = [(x, y), (x + SIGN, y)];
            self.stroke(&sign, *colour, 2.0, *stroke)?;
            let point = (x + SIGN + 6.0, y);
            let ink = self.theme.ink;
            self.text(name, point, Anchor::Left, SMALL, ink)?;
            x += width + GAP;
        }
        Ok(Area {
            top: y + 14.0,
            ..frame
        })
    }
}

fn drawn<E: std::fmt::Display>(result: Result<(), E>) -> Drawn {
    result.map_err(|err| PictureError::Draw(err.to_string()))
}
