//! Applications: the catalogue, the user's file, or the command line.

use std::path::Path;

use anyhow::Context as _;
use laggard_model::Nanos;
use laggard_report::qos::Application;
use serde::Deserialize;

use crate::args::QosArgs;

/// The catalogue, part of the program.
const CATALOGUE: &str = include_str!("../../applications.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    application: Vec<Entry>,
}

/// More buffers are none: a day of them, each as long as allowed, would be
/// beyond what a time can hold.
const MOST_BUFFERS: u32 = 65_536;
/// And longer ones no stream's.
const LONGEST: Nanos = Nanos::from_secs(86_400);

/// An application as it is written in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) about: String,
    pub(crate) buffers: u32,
    pub(crate) buffer: String,
    pub(crate) compute: String,
    #[serde(default = "from_file")]
    pub(crate) source: String,
}

fn from_file() -> String {
    "the user's file".into()
}

/// Every application of the catalogue.
pub(crate) fn catalogue() -> anyhow::Result<Vec<Entry>> {
    let catalogue: Catalogue = toml::from_str(CATALOGUE).context("read the catalogue")?;
    Ok(catalogue.application)
}

/// The application that the user asks about.
pub(crate) fn chosen(args: &QosArgs) -> anyhow::Result<Application> {
    match (&args.app, args.buffers, args.buffer, args.compute) {
        (Some(name), ..) => by_name(name),
        (None, Some(buffers), Some(buffer), Some(compute)) => {
            application("application", buffers, buffer, compute, "the command line")
        }
        _ => anyhow::bail!(
            "no application is given; use --app NAME (see `laggard qos --list`), or --buffers, --buffer and --compute"
        ),
    }
}

/// An application of the catalogue, or of a file.
pub(crate) fn by_name(name: &str) -> anyhow::Result<Application> {
    of_entry(&named(name)?)
}

/// The catalogue to choose from, `first` (a name or a file) before all others.
pub(crate) fn choices(first: Option<&str>) -> anyhow::Result<Vec<Application>> {
    let mut all: Vec<Application> = first.map(by_name).transpose()?.into_iter().collect();
    for entry in catalogue()? {
        if !all.iter().any(|known| known.name == entry.name) {
            all.push(of_entry(&entry)?);
        }
    }
    Ok(all)
}

fn of_entry(entry: &Entry) -> anyhow::Result<Application> {
    let time = |text: &str| -> anyhow::Result<Nanos> {
        text.parse()
            .with_context(|| format!("application `{}`", entry.name))
    };
    let (buffer, compute) = (time(&entry.buffer)?, time(&entry.compute)?);
    application(&entry.name, entry.buffers, buffer, compute, &entry.source)
}

fn named(name: &str) -> anyhow::Result<Entry> {
    if let Some(entry) = catalogue()?.into_iter().find(|entry| entry.name == name) {
        return Ok(entry);
    }
    let file = Path::new(name);
    if !name.ends_with(".toml") && !file.exists() {
        anyhow::bail!(
            "`{name}` is not in the catalogue; see `laggard qos --list`, or give a TOML file"
        );
    }
    let text =
        std::fs::read_to_string(file).with_context(|| format!("read the application `{name}`"))?;
    toml::from_str(&text).with_context(|| {
        format!("`{name}` is not an application; write name, buffers, buffer and compute as `laggard qos --help` shows")
    })
}

fn application(
    name: &str,
    buffers: u32,
    buffer: Nanos,
    compute: Nanos,
    source: &str,
) -> anyhow::Result<Application> {
    if buffers < 2 {
        anyhow::bail!(
            "`{name}` has {buffers} buffer(s); it takes 2 or more to tolerate any latency"
        );
    }
    if buffers > MOST_BUFFERS {
        anyhow::bail!("`{name}` has {buffers} buffers; the limit of `--buffers` is {MOST_BUFFERS}");
    }
    if buffer > LONGEST {
        anyhow::bail!("`{name}` has buffers of {buffer}; the limit of `--buffer` is {LONGEST}");
    }
    if compute >= buffer {
        anyhow::bail!(
            "`{name}` computes for {compute} in a buffer of {buffer}; the work must be shorter than the buffer"
        );
    }
    let tolerance = buffer * u64::from(buffers - 1);
    Ok(Application {
        name: name.into(),
        buffers,
        buffer_ns: buffer,
        compute_ns: compute,
        tolerance_ns: tolerance,
        slack_ns: tolerance.saturating_sub(compute),
        source: source.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_of_the_catalogue_can_be_asked_about() {
        let all = catalogue().unwrap();

        assert!(all.len() >= 15, "{}", all.len());
        for entry in all {
            let (buffer, compute) = (
                entry.buffer.parse().unwrap(),
                entry.compute.parse().unwrap(),
            );
            let found = application(&entry.name, entry.buffers, buffer, compute, &entry.source);
            assert!(found.is_ok(), "for {}: {found:?}", entry.name);
            assert!(
                !entry.source.is_empty() && !entry.about.is_empty(),
                "for {}",
                entry.name
            );
        }
    }

    #[test]
    fn the_papers_modem_tolerates_what_the_paper_says() {
        let found =
            application("m", 2, Nanos::from_ms(4), Nanos::from_ms(1), "OSDI'99 5.1").unwrap();

        assert_eq!(found.slack_ns, Nanos::from_ms(3));
    }

    #[test]
    fn more_or_longer_buffers_than_a_time_can_hold_are_refused_by_their_flags_names() {
        let text = |buffers, buffer| {
            let found = application("a", buffers, buffer, Nanos::from_ms(1), "");
            found.map(|_| ()).unwrap_err().to_string()
        };

        assert_eq!(
            text(65_537, Nanos::from_ms(4)),
            "`a` has 65537 buffers; the limit of `--buffers` is 65536"
        );
        assert!(text(u32::MAX, Nanos::MAX).contains("`--buffers`"));
        assert!(text(2, Nanos::MAX).contains("the limit of `--buffer` is 86400s"));
        let most = application("a", 65_536, LONGEST, Nanos::from_ms(1), "").unwrap();
        assert_eq!(most.tolerance_ns, LONGEST * 65_535);
    }

    #[test]
    fn one_buffer_or_too_much_work_is_refused() {
        assert!(application("a", 1, Nanos::from_ms(4), Nanos::from_ms(1), "").is_err());
        assert!(application("a", 2, Nanos::from_ms(4), Nanos::from_ms(4), "").is_err());
    }
}
