//! Arguments of `laggard plot`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_answer::qos::USUAL;
use laggard_model::Service;
use laggard_view::picture::FigureKind;

use super::named::named;
use crate::completion;

const PLOT_EXAMPLES: &str = "\
Examples:
  laggard plot busy.laggard distribution -o busy.svg
  laggard plot idle.laggard busy.laggard distribution -o both.png
  laggard plot busy.laggard distribution --all --counts --dark -o all.svg
  laggard plot busy.laggard stages --service fifo:90 -o stages.png
  laggard plot busy.laggard time -o time.svg
  laggard plot busy.laggard mttf --app video-call -o mttf.svg";

#[derive(ClapArgs, Debug)]
#[command(after_help = PLOT_EXAMPLES)]
pub(crate) struct PlotArgs {
    /// Recordings; distribution and mttf take several
    #[arg(required = true, value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// Figure to draw
    #[arg(required = true, value_name = "FIGURE", value_parser = named::<FigureKind>())]
    pub(crate) figure: FigureKind,
    /// File to write, .svg or .png; an existing file is replaced
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Only this service [default: the most urgent thread; in the distribution of one
    /// recording also the timer IRQ and `SCHED_OTHER`]
    #[arg(short, long, value_name = "NAME", add = completion::services())]
    pub(crate) service: Option<Service>,
    /// For distribution and mttf: every service
    #[arg(long, conflicts_with = "service")]
    pub(crate) all: bool,
    /// Draw a histogram instead of the fraction of wakeups above each latency
    #[arg(long)]
    pub(crate) counts: bool,
    /// Draw the fraction above each latency (the default); for older scripts
    #[arg(long, hide = true, conflicts_with = "counts")]
    pub(crate) exceedance: bool,
    /// Light text on a dark background
    #[arg(long)]
    pub(crate) dark: bool,
    /// Application for mttf: a name from `laggard qos --list`, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", default_value = USUAL, add = completion::applications())]
    pub(crate) app: String,
    /// Width and height in pixels
    #[arg(long, value_name = "WxH", default_value = "960x600")]
    pub(crate) size: SizeArg,
}

/// Size of a figure in pixels.
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
