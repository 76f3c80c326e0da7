//! Colours for light and dark backgrounds that all kinds of colour vision can distinguish.

use plotters::style::RGBColor;

/// Colours of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) ground: RGBColor,
    pub(super) ink: RGBColor,
    pub(super) faint: RGBColor,
    pub(super) grid: RGBColor,
    series: [RGBColor; 7],
}

/// Palette of Okabe and Ito (2008), without black. Its yellow is dark enough for a white
/// background.
const LIGHT: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// The same hues for a dark background.
const DARK: [RGBColor; 7] = [
    RGBColor(86, 180, 233),
    RGBColor(240, 130, 50),
    RGBColor(40, 190, 145),
    RGBColor(220, 150, 190),
    RGBColor(240, 228, 66),
    RGBColor(90, 150, 230),
    RGBColor(170, 170, 170),
];

impl Theme {
    pub(super) const fn new(dark: bool) -> Self {
        if dark {
            Self {
                ground: RGBColor(24, 27, 31),
                ink: RGBColor(230, 232, 235),
                faint: RGBColor(160, 166, 174),
                grid: RGBColor(56, 61, 68),
                series: DARK,
            }
        } else {
            Self {
                ground: RGBColor(255, 255, 255),
                ink: RGBColor(30, 33, 38),
                faint: RGBColor(95, 102, 110),
                grid: RGBColor(224, 227, 231),
                series: LIGHT,
            }
        }
    }

    /// Returns the colour of series `number`.
    pub(super) const fn series(&self, number: usize) -> RGBColor {
        self.series[number % self.series.len()]
    }
}
