//! `laggard forecast`: bounds and return levels of latencies.

use laggard_answer::forecast::forecasts;
use laggard_answer::loads;
use laggard_model::text::Unit;
use laggard_view::doc::{self, Detail};
use laggard_view::forecast::document;

use crate::args::ForecastArgs;
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

pub(crate) fn forecast(args: &ForecastArgs) -> anyhow::Result<Exit> {
    let loaded = loads(&ask::of(&args.recordings))?;
    let report = forecasts(&loaded, args.usage, &args.horizon)?;
    let detail = if args.all || args.markdown {
        Detail::Full
    } else {
        Detail::Short
    };
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
    } else if args.markdown {
        pipe::print(&doc::markdown(&document(&report, detail)))?;
    } else {
        let document = document(&report, detail);
        pipe::print_screen(&doc::terminal(&document, terminal::look(Unit::Auto)))?;
    }
    Ok(Exit::of(&loaded).unless_unmet(!report.has_level()))
}
