//! Options of a figure of the report.

use clap::Args as ClapArgs;
use laggard_model::Service;
use laggard_view::picture::FigureKind;

use super::named::named;
use crate::completion;

#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Figure")]
pub(crate) struct FigureArgs {
    /// Draw only this figure, as SVG or PNG (-o FILE.svg). distribution and mttf take
    /// several recordings, the others one
    #[arg(long, value_name = "FIGURE", requires = "output",
        conflicts_with_all = ["markdown", "tasks"], value_parser = named::<FigureKind>())]
    pub(crate) figure: Option<FigureKind>,
    /// Draw only this service [default: the most urgent thread; distribution of one
    /// recording: the timer IRQ and `SCHED_OTHER` too]
    #[arg(short, long, value_name = "NAME", requires = "figure", add = completion::services())]
    pub(crate) service: Option<Service>,
    /// For distribution and mttf: draw every service
    #[arg(long, requires = "figure", conflicts_with = "service")]
    pub(crate) all: bool,
    /// For distribution and cpus: draw a histogram instead of the fraction above each
    /// latency
    #[arg(long, requires = "figure")]
    pub(crate) counts: bool,
    /// The same up to the p99, on linear axes
    #[arg(long, requires = "figure", conflicts_with = "counts")]
    pub(crate) linear: bool,
    /// Draw light text on a dark background
    #[arg(long, requires = "figure")]
    pub(crate) dark: bool,
    /// Width and height in pixels
    #[arg(
        long,
        value_name = "WxH",
        requires = "figure",
        default_value = "960x600"
    )]
    pub(crate) size: SizeArg,
}

/// Size of a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SizeArg {
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl std::str::FromStr for SizeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size from 480x300 to 4000x4000, such as 960x600");
        let (width, height) = text.split_once('x').ok_or_else(wrong)?;
        let width: u32 = width.parse().map_err(|_| wrong())?;
        let height: u32 = height.parse().map_err(|_| wrong())?;
        if (480..=4000).contains(&width) && (300..=4000).contains(&height) {
            Ok(Self { width, height })
        } else {
            Err(wrong())
        }
    }
}
