//! `laggard forecast`: how bad latencies will get.

use laggard_answer::forecast::{Horizon, forecasts};
use laggard_answer::loads;
use laggard_model::text::Unit;
use laggard_view::text;

use crate::args::{ForecastArgs, HorizonArg};
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

pub(crate) fn forecast(args: &ForecastArgs) -> anyhow::Result<Exit> {
    let horizons: Vec<Horizon> = args
        .horizon
        .iter()
        .map(|horizon| match horizon {
            HorizonArg::Hour => Horizon::Hour,
            HorizonArg::Day => Horizon::Day,
            HorizonArg::Week => Horizon::Week,
        })
        .collect();
    let seen = loads(&ask::of(&args.recordings))?;
    let report = forecasts(&seen, args.usage, &horizons)?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::forecast(&report, args.all, terminal::look(Unit::Auto))
    })?;
    Ok(Exit::of(&seen).unless_unmet(!report.tells_anything()))
}
