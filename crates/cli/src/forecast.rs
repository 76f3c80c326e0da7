//! `laggard forecast`: bounds and return levels of latencies.

use laggard_answer::forecast::forecasts;
use laggard_answer::loads;
use laggard_view::doc::Detail;
use laggard_view::forecast::document;

use crate::args::ForecastArgs;
use crate::exit::Exit;
use crate::pipe::Format;
use crate::{ask, pipe};

pub(crate) fn forecast(args: &ForecastArgs) -> anyhow::Result<Exit> {
    let loaded = loads(&ask::of(&args.recordings))?;
    let report = forecasts(&loaded, args.usage, &args.horizon)?;
    let format = Format {
        json: args.json,
        markdown: args.markdown,
    };
    let detail = Detail::new(args.all || args.markdown);
    pipe::print_answer(format, &report, || document(&report, detail))?;
    Ok(Exit::from_loads(&loaded).unless_unmet(!report.has_level()))
}
