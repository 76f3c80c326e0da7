//! Reports over the recordings of many machines.
//!
//! [`stores`] finds recordings, and [`reader`] lets `laggard` read the new ones. [`catalogue`]
//! keeps their figures as tables. [`engine`] runs the queries of [`sql`] over them, and [`answers`]
//! builds reports from the results.

#![forbid(unsafe_code)]

pub mod answers;
pub mod args;
pub mod catalogue;
pub mod cluster;
pub mod engine;
pub mod page;
pub mod reader;
pub mod since;
pub mod sql;
pub mod statistics;
pub mod store;
pub mod stores;

use std::collections::BTreeSet;
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_model::printable_json;
use schemars::schema_for;
use serde::Serialize;

use answers::{
    CausesReport, ChangedAsked, ChangedReport, HostReport, Lines, MachineMap, StoreView,
    SummaryReport, WorstReport,
};
use args::{Args, LateArgs, Question, SchemaOf};
use catalogue::{Catalogue, TABLES};
use cluster::Scheduler;
use engine::Engine;
use sql::Only;
use stores::Stores;

/// Completeness of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// All recordings are included.
    Whole,
    /// Some recordings are missing, or are only partly included.
    Partial,
}

/// Answers the question of the command line.
///
/// # Errors
/// If the store or the catalogue cannot be read or written, or if the question cannot be
/// answered.
pub fn answer(args: &Args) -> anyhow::Result<(String, Exit)> {
    if let Question::Schema { of } = args.question {
        return Ok((schema(of)?, Exit::Whole));
    }
    let since = args.question.since()?;
    let named = iter::once(&args.store).chain(&args.also);
    let stores = Stores::open(named.map(PathBuf::as_path))?;
    let dir = args.catalogue.clone().map_or_else(|| stores.home(), Ok)?;
    let recordings = stores.look()?;
    let catalogue = Catalogue::open(&dir).with_context(|| {
        format!(
            "cannot create the catalogue `{}`; name a writable directory with --catalogue",
            dir.display()
        )
    })?;
    let laggard = reader::program();
    let updated = catalogue.update(&recordings.places, |paths, scratch| {
        stores.read(&laggard, &recordings, paths, scratch)
    })?;
    let refused = recordings.refused.take();
    if let (0, [(path, why), ..]) = (updated.kept, &*refused) {
        anyhow::bail!("no recording can be read; `{path}`: {why}");
    }
    anyhow::ensure!(
        updated.kept > 0,
        "there is no recording in `{}`; a recording is a directory with a manifest.json, usually NAME.laggard",
        stores.text()
    );
    let engine = open(&catalogue, args.cluster.as_ref())?;
    let view = StoreView::read(&engine, stores.text(), &refused, since)?;
    let exit = if view.is_whole() {
        Exit::Whole
    } else {
        Exit::Partial
    };
    let only = Only {
        since_h: since,
        ..Only::default()
    };
    let text = ask(&engine, view, args, only)?;
    Ok(if args.show_sql {
        (engine.script(), exit)
    } else {
        (text, exit)
    })
}

/// Creates an engine, in this process or on a cluster, with the tables of the catalogue.
///
/// # Errors
/// If a table cannot be read, or if the cluster does not respond.
pub fn open(catalogue: &Catalogue, cluster: Option<&Scheduler>) -> anyhow::Result<Engine> {
    let bound = |engine: Engine| -> anyhow::Result<Engine> {
        for table in TABLES {
            engine.bind(table, &catalogue.table(table))?;
        }
        Ok(engine)
    };
    let here = bound(Engine::new()?)?;
    let Some(scheduler) = cluster else {
        return Ok(here);
    };
    let there = bound(Engine::on_cluster(scheduler)?)?;
    cluster::hold(&there, &here)
        .with_context(|| format!("cannot ask the cluster at `{scheduler}`"))?;
    // The check is not part of the answer.
    there.forget();
    Ok(there)
}

fn ask(engine: &Engine, view: StoreView, args: &Args, only: Only) -> anyhow::Result<String> {
    let json = args.json;
    match &args.question {
        Question::Summary(options) => {
            let by: Vec<&'static str> = options.by.iter().map(|by| by.column()).collect();
            let report = answers::summary(engine, view, &by, only)?;
            formatted(json, &report, SummaryReport::text)
        }
        Question::Worst(options) => {
            let line = line(engine, &options.late)?;
            let number = line.0;
            let top = match &options.output {
                Some(_) => options.list.top.unwrap_or(100),
                None => options.list.top(),
            };
            let report = answers::worst(
                engine,
                view,
                line,
                options.late.limit,
                options.order,
                top,
                only,
            )?;
            match &options.output {
                Some(file) => as_page(engine, &report, number, only, file),
                None => formatted(json, &report, WorstReport::text),
            }
        }
        Question::Changed(options) => {
            let report = answers::changed(
                engine,
                view,
                ChangedAsked {
                    line: line(engine, &options.late)?,
                    limit: options.late.limit,
                    by: options.by.iter().map(|by| by.column()).collect(),
                    top: options.list.top(),
                    only,
                },
            )?;
            formatted(json, &report, |report: &ChangedReport| {
                report.text(options.list.top())
            })
        }
        Question::Causes(options) => {
            let report = answers::causes(engine, view, options.top(), only)?;
            formatted(json, &report, CausesReport::text)
        }
        Question::Show { host, list } => {
            let report = answers::host(engine, view, host, list.top(), only)?;
            formatted(json, &report, HostReport::text)
        }
        Question::Sql { query } => sql_answer(engine, &view, query, json),
        Question::Schema { .. } => unreachable!("is answered without a store"),
    }
}

/// Writes the answer as a page. The file appears only when it is complete.
fn as_page(
    engine: &Engine,
    report: &WorstReport,
    line: i64,
    only: Only,
    file: &Path,
) -> anyhow::Result<String> {
    let map = MachineMap::read(engine, report, line, only)?;
    let text = page::page(report, &map);
    laggard_files::write(file, "page", text.as_bytes())?;
    Ok(format!(
        "{}{} by hours in {}\n",
        report.of.text(),
        answers::of(map.machines.len() as u64, "machine"),
        laggard_model::printable(&file.display().to_string())
    ))
}

/// Formats the rows of a query: JSON contains only the rows, text starts with the recordings behind
/// it.
fn sql_answer(
    engine: &Engine,
    view: &StoreView,
    query: &str,
    json: bool,
) -> anyhow::Result<String> {
    let rows = engine.query(query)?;
    let names = rows.names();
    let mut met = BTreeSet::new();
    for name in &names {
        anyhow::ensure!(
            met.insert(name),
            "the result has two columns `{name}`; rename one with AS"
        );
    }
    if json {
        return json_of(&serde_json::json!({
            "schema": answers::FLEET_SCHEMA, "of": view, "rows": rows.json()?,
        }));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cell = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => "-".into(),
        other => other.to_string(),
    };
    let cells = |row: serde_json::Map<String, serde_json::Value>| {
        names.iter().map(|name| cell(&row[*name])).collect()
    };
    let lines: Vec<Vec<String>> = rows.json()?.into_iter().map(cells).collect();
    Ok(format!(
        "{}\n{}",
        view.text(),
        answers::table(&names, names.len(), &lines)
    ))
}

fn formatted<T: Serialize>(
    json: bool,
    report: &T,
    text: impl Fn(&T) -> String,
) -> anyhow::Result<String> {
    if json {
        json_of(report)
    } else {
        Ok(text(report))
    }
}

fn json_of(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(format!(
        "{}\n",
        printable_json(&serde_json::to_string_pretty(value)?)
    ))
}

fn line(engine: &Engine, args: &LateArgs) -> anyhow::Result<(i64, String)> {
    Lines::read(engine)?.chosen(args.service)
}

fn schema(answer: SchemaOf) -> anyhow::Result<String> {
    json_of(&match answer {
        SchemaOf::Summary => schema_for!(SummaryReport),
        SchemaOf::Worst => schema_for!(WorstReport),
        SchemaOf::Changed => schema_for!(ChangedReport),
        SchemaOf::Causes => schema_for!(CausesReport),
        SchemaOf::Show => schema_for!(HostReport),
    })
}
