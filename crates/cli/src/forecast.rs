//! `laggard forecast`: how bad latencies will get.

use laggard_answer::forecast::{FORECAST_SCHEMA, ForecastReport, Horizon, predict};
use laggard_answer::{Load, loads};
use laggard_model::UsagePattern;
use laggard_view::text;

use crate::args::{ForecastArgs, HorizonArg};
use crate::exit::Exit;
use crate::{ask, pipe};

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
        text::forecast(&report, args.all)
    })?;
    Ok(match Exit::of(&seen) {
        Exit::Ok if !report.tells_anything() => Exit::Unmet,
        outcome => outcome,
    })
}

/// The forecasts of each load; `usage` where the user gave one.
pub(crate) fn forecasts(
    seen: &[Load],
    usage: Option<UsagePattern>,
    horizons: &[Horizon],
) -> anyhow::Result<ForecastReport> {
    let loads = seen
        .iter()
        .map(|one| {
            let (pattern, from) = used(usage, one);
            let known = one.causes()?;
            Ok(predict(one, &known, pattern, from.into(), horizons)?)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(ForecastReport {
        schema: FORECAST_SCHEMA,
        loads,
    })
}

/// The usage pattern, and where it comes from.
fn used(given: Option<UsagePattern>, load: &Load) -> (UsagePattern, &'static str) {
    match (given, load.usage()) {
        (Some(usage), _) => (usage, "as given"),
        (None, Some(usage)) => (usage, "the load's own"),
        (None, None) => (UsagePattern::ALWAYS, "not given: in use all the time"),
    }
}
