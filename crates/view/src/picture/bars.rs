//! Average and max of several systems side by side (Timmerman 1998, Fig. 3, 6 and 8).

use laggard_model::text::rough_time;
use plotters::backend::DrawingBackend;

use super::PictureError;
use super::axes::{Axes, Axis, Scale, write_time};
use super::canvas::{Anchor, Canvas, TEXT};
use crate::study::BarFigure;

/// Place of the two bars of a system within its width of 1.
const PLACES: [(f64, f64); 2] = [(0.2, 0.48), (0.52, 0.8)];

pub(super) fn draw<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    figure: &BarFigure,
) -> Result<(), PictureError> {
    let values = || figure.bars.iter().flat_map(|bar| bar.average_and_max_ns);
    let (min, max) = (
        values().fold(f64::INFINITY, f64::min).max(1.0),
        values().fold(1.0, f64::max),
    );
    if figure.bars.is_empty() {
        return Err(PictureError::Nothing("no system has a value".into()));
    }
    let caption = "Left bar: average. Right bar: max. The scale is logarithmic.";
    let frame = canvas.head_and_foot(figure.title, figure.subtitle, &[caption.into()])?;
    let scale = Scale::decades(min / 2.0, max * 2.0);
    let Scale::Log { from, .. } = scale else {
        return Err(PictureError::Draw("decades are logarithmic".into()));
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place among few bars"
    )]
    let name = |place: f64| {
        let bar = figure.bars.get(place as usize);
        bar.map(|bar| bar.system.clone()).unwrap_or_default()
    };
    let places = 0..figure.bars.len();
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::Linear {
                from: 0.0,
                to: figure.bars.len() as f64,
            },
            name: "",
            write: &name,
            marks: places.map(|place| place as f64 + 0.5).collect(),
        },
        &Axis {
            scale,
            name: "duration",
            write: &write_time,
            marks: Vec::new(),
        },
    )?;
    for (place, bar) in figure.bars.iter().enumerate() {
        let values = bar.average_and_max_ns.into_iter().zip(PLACES);
        for (series, (ns, (left, right))) in values.enumerate() {
            let [left, right] = [left, right].map(|within| place as f64 + within);
            let top = ns.max(from);
            let corners = [(left, from), (left, top), (right, top), (right, from)];
            let corners = corners.map(|(x, y)| axes.at(x, y));
            let colour = canvas.theme.series(series);
            canvas.fill(&corners, colour, 0.85)?;
            let (x, y) = axes.at(left.midpoint(right), top);
            let ink = canvas.theme.ink;
            canvas.text(&rough_time(ns, 3), (x, y - 9.0), Anchor::Centre, TEXT, ink)?;
        }
    }
    Ok(())
}
