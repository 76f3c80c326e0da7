//! Destination and style of a figure.

use std::path::Path;

use laggard_model::printable;
use laggard_view::picture::{Picture, Style, png, svg};

use crate::pipe;

/// File format of a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Svg,
    Png,
}

impl Format {
    fn from_path(file: &Path) -> anyhow::Result<Self> {
        let extension = file
            .extension()
            .map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => anyhow::bail!(
                "`{}` ends neither in .svg nor in .png; the ending selects the format",
                file.display()
            ),
        }
    }
}

/// File of a figure.
pub(crate) struct Target<'a> {
    file: &'a Path,
    format: Format,
    style: Style,
}

impl<'a> Target<'a> {
    /// Returns the target. The extension of the name selects the format.
    pub(crate) fn from_path(file: &'a Path, style: Style) -> anyhow::Result<Self> {
        let format = Format::from_path(file)?;
        laggard_files::check(file, "picture")?;
        Ok(Self {
            file,
            format,
            style,
        })
    }

    /// Writes a figure. Returns its location in words.
    pub(crate) fn write(&self, picture: Picture<'_>) -> anyhow::Result<String> {
        let bytes = match self.format {
            Format::Svg => svg(picture, self.style)?.into_bytes(),
            Format::Png => png(picture, self.style)?,
        };
        laggard_files::write(self.file, "picture", &bytes)?;
        let name = self.file.display().to_string();
        Ok(format!("Wrote {}", printable(&name)))
    }

    /// Writes a figure, and prints its location.
    pub(crate) fn write_and_say(&self, picture: Picture<'_>) -> anyhow::Result<()> {
        pipe::print(&format!("{}\n", self.write(picture)?))
    }
}
