//! Applications: from the catalogue, a file of the user, or the command line.

use std::path::Path;

use laggard_model::{AskedApplication, Nanos, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{ApplicationError, MAX_BUFFER, MAX_BUFFERS};
use super::resolution::FINE_SAMPLES;
use super::{Application, MissPolicy, QOS_SCHEMA};
use crate::finer::two_digits;
use laggard_model::nearest;

const CATALOGUE: &str = include_str!("../../applications.toml");

/// Application that is evaluated if the user names none: a usual setting of JACK.
pub const USUAL: &str = "jack-128";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    application: Vec<CatalogueEntry>,
}

/// Application as written in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    pub name: String,
    /// Description.
    #[serde(default)]
    pub about: String,
    pub buffers: u32,
    /// Length of one buffer, with its unit.
    pub buffer: String,
    /// Work per buffer, with its unit.
    pub compute: String,
    /// Source of these figures.
    #[serde(default = "from_file")]
    pub source: String,
    /// Service that runs it; absent: the thread with the highest priority.
    #[serde(default)]
    pub service: Option<Service>,
    /// Whether only readers of the papers need it.
    #[serde(default)]
    pub is_historic: bool,
}

/// Catalogue of applications: `qos --list --json`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CatalogueReport {
    /// Version of this layout.
    pub schema: u32,
    /// The applications.
    pub applications: Vec<Application>,
}

/// Returns the applications of the catalogue.
///
/// # Errors
/// When the catalogue is damaged: a test holds that it is not.
pub fn listed() -> Result<CatalogueReport, ApplicationError> {
    Ok(CatalogueReport {
        schema: QOS_SCHEMA,
        applications: catalogue()?
            .iter()
            .map(from_entry)
            .collect::<Result<_, _>>()?,
    })
}

fn from_file() -> String {
    "the user's file".into()
}

/// Returns the catalogue.
///
/// # Errors
/// When the catalogue is damaged: a test holds that it is not.
pub fn catalogue() -> Result<Vec<CatalogueEntry>, ApplicationError> {
    let catalogue: Catalogue = toml::from_str(CATALOGUE).map_err(ApplicationError::Catalogue)?;
    Ok(catalogue.application)
}

/// Returns an application of the catalogue or of a file.
///
/// # Errors
/// When it is missing, or a figure is out of its range.
pub fn by_name(name: &str) -> Result<Application, ApplicationError> {
    from_entry(&named(name)?)
}

/// Lengths of a buffer, us, that stand for applications that are not in the catalogue.
const BUFFER_LENGTHS_US: [u64; 8] = [250, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];

/// Returns the applications to choose from: `first` or the usual application, then the catalogue,
/// then two buffers of each typical length with 25 % work.
///
/// # Errors
/// When the catalogue is damaged. A test excludes this.
pub fn choices(first: Option<Application>) -> Result<Vec<Application>, ApplicationError> {
    let mut choices = vec![match first {
        Some(first) => first,
        None => by_name(USUAL)?,
    }];
    for entry in catalogue()? {
        if !choices.iter().any(|choice| choice.name == entry.name) {
            choices.push(from_entry(&entry)?);
        }
    }
    for length in BUFFER_LENGTHS_US {
        let buffer = Nanos::from_us(length);
        let work = Nanos::from_ns(buffer.ns() / 4);
        let name = ["buffers of ", &buffer.to_string(), ", 25 % work"].concat();
        choices.push(Application::new(&name, 2, buffer, work, "two buffers")?);
    }
    Ok(choices)
}

/// Returns the applications of the catalogue that are in use today.
pub(crate) fn today() -> Result<Vec<Application>, ApplicationError> {
    let entries = catalogue()?;
    let current = entries.iter().filter(|entry| !entry.is_historic);
    current.map(from_entry).collect()
}

fn from_entry(entry: &CatalogueEntry) -> Result<Application, ApplicationError> {
    let time = |text: &str| {
        text.parse().map_err(|source| ApplicationError::Time {
            name: entry.name.clone(),
            source,
        })
    };
    let (buffer, compute) = (time(&entry.buffer)?, time(&entry.compute)?);
    let application = Application::new(&entry.name, entry.buffers, buffer, compute, &entry.source)?;
    Ok(Application {
        service: entry.service,
        ..application
    })
}

fn named(name: &str) -> Result<CatalogueEntry, ApplicationError> {
    let mut entries = catalogue()?;
    if let Some(place) = entries.iter().position(|entry| entry.name == name) {
        return Ok(entries.swap_remove(place));
    }
    let path = Path::new(name);
    if !name.ends_with(".toml") && !path.exists() {
        let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
        return Err(ApplicationError::Unknown(
            name.into(),
            nearest(name, &names),
        ));
    }
    let file = || name.to_owned();
    let text = laggard_files::read_text(path).map_err(|source| ApplicationError::Read {
        file: file(),
        source,
    })?;
    toml::from_str(&text).map_err(|source| ApplicationError::NoApplication {
        file: file(),
        source,
    })
}

impl Application {
    /// Creates an application with `buffers` of the length `buffer`, and the work `compute`
    /// for each.
    ///
    /// # Errors
    /// When a figure is out of its range.
    pub fn new(
        name: &str,
        buffers: u32,
        buffer: Nanos,
        compute: Nanos,
        source: &str,
    ) -> Result<Self, ApplicationError> {
        let called = || name.to_owned();
        if buffers < 2 {
            return Err(ApplicationError::FewBuffers {
                name: called(),
                buffers,
            });
        }
        if buffers > MAX_BUFFERS {
            return Err(ApplicationError::ManyBuffers {
                name: called(),
                buffers,
            });
        }
        if buffer > MAX_BUFFER {
            return Err(ApplicationError::LongBuffers {
                name: called(),
                buffer,
            });
        }
        if compute >= buffer {
            return Err(ApplicationError::TooMuchWork {
                name: called(),
                compute,
                buffer,
            });
        }
        let tolerance = buffer * u64::from(buffers - 1);
        Ok(Self {
            name: name.into(),
            buffers,
            buffer_ns: buffer,
            compute_ns: compute,
            tolerance_ns: tolerance,
            slack_ns: tolerance.saturating_sub(compute),
            source: source.into(),
            service: None,
            policy: MissPolicy::Late,
        })
    }
}

impl TryFrom<&AskedApplication> for Application {
    type Error = ApplicationError;

    fn try_from(application: &AskedApplication) -> Result<Self, ApplicationError> {
        let checked = Self::new(
            &application.name,
            application.buffers,
            application.buffer_ns,
            application.compute_ns,
            &application.source,
        )?;
        Ok(Self {
            service: application.service,
            ..checked
        })
    }
}

impl From<&Application> for AskedApplication {
    fn from(application: &Application) -> Self {
        Self {
            name: application.name.clone(),
            buffers: application.buffers,
            buffer_ns: application.buffer_ns,
            compute_ns: application.compute_ns,
            source: application.source.clone(),
            service: application.service,
        }
    }
}

/// Longest period. Shorter stalls matter to other applications.
const MAX_PERIOD: Nanos = Nanos::from_ms(1);
/// Shortest period, unless the slack needs a shorter one. A wakeup takes about 15 us of its CPU, so
/// shorter periods would be a load of their own.
const USUAL_MIN_PERIOD: Nanos = Nanos::from_us(600);
/// Samples per slack if the slack needs a shorter period.
const SAMPLES_PER_SLACK: u64 = 3;
/// Shortest period of all.
const MIN_PERIOD: Nanos = Nanos::from_us(20);

impl Application {
    /// Returns the mean time between two samples that a recording needs to resolve the slack of
    /// this application.
    pub fn probe_period(&self) -> Nanos {
        let slack = self.slack_ns.as_f64();
        let fine = Nanos::from_f64(slack / FINE_SAMPLES).clamp(USUAL_MIN_PERIOD, MAX_PERIOD);
        let covering = Nanos::from_ns(self.slack_ns.ns() / SAMPLES_PER_SLACK).max(MIN_PERIOD);
        two_digits(fine.min(covering))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_of_the_catalogue_is_valid() {
        let entries = catalogue().unwrap();

        assert!(entries.len() >= 15, "{}", entries.len());
        for entry in entries {
            let (buffer, compute) = (
                entry.buffer.parse().unwrap(),
                entry.compute.parse().unwrap(),
            );
            let application =
                Application::new(&entry.name, entry.buffers, buffer, compute, &entry.source);
            assert!(application.is_ok(), "for {}: {application:?}", entry.name);
            assert!(
                !entry.source.is_empty() && !entry.about.is_empty(),
                "for {}",
                entry.name
            );
        }
    }

    #[test]
    fn modem_of_the_paper_has_the_slack_of_the_paper() {
        let application =
            Application::new("m", 2, Nanos::from_ms(4), Nanos::from_ms(1), "OSDI'99 5.1").unwrap();

        assert_eq!(application.slack_ns, Nanos::from_ms(3));
    }

    #[test]
    fn more_or_longer_buffers_than_a_time_can_hold_are_refused_by_their_flags_names() {
        let text = |buffers, buffer| {
            let application = Application::new("a", buffers, buffer, Nanos::from_ms(1), "");
            application.map(|_| ()).unwrap_err().to_string()
        };

        assert_eq!(
            text(65_537, Nanos::from_ms(4)),
            "`a` has 65537 buffers; the limit of `--buffers` is 65536"
        );
        assert!(text(u32::MAX, Nanos::MAX).contains("`--buffers`"));
        assert!(text(2, Nanos::MAX).contains("the limit of `--buffer` is 86400s"));
        let most = Application::new("a", 65_536, MAX_BUFFER, Nanos::from_ms(1), "").unwrap();
        assert_eq!(most.tolerance_ns, MAX_BUFFER * 65_535);
    }

    #[test]
    fn sample_interval_follows_the_slack_of_the_application() {
        for (buffer, compute, expected) in [
            (Nanos::from_us(2_667), Nanos::from_us(800), "600us"),
            (Nanos::from_us(10_667), Nanos::from_us(3_200), "600us"),
            (Nanos::from_ms(64), Nanos::from_ms(16), "1ms"),
            (Nanos::from_us(250), Nanos::from_us(60), "63us"),
            (Nanos::from_us(30), Nanos::from_us(20), "20us"),
        ] {
            let application = Application::new("a", 2, buffer, compute, "").unwrap();

            assert_eq!(
                application.probe_period().to_string(),
                expected,
                "for {buffer}"
            );
        }
    }

    #[test]
    fn recorded_application_is_read_back() {
        for application in choices(None).unwrap() {
            let kept = AskedApplication::from(&application);

            let back = Application::try_from(&kept).unwrap();

            assert_eq!(AskedApplication::from(&back), kept);
            assert_eq!(
                (back.slack_ns, back.service),
                (application.slack_ns, application.service)
            );
        }
    }

    #[test]
    fn single_buffer_or_too_much_work_is_refused() {
        assert!(Application::new("a", 1, Nanos::from_ms(4), Nanos::from_ms(1), "").is_err());
        assert!(Application::new("a", 2, Nanos::from_ms(4), Nanos::from_ms(4), "").is_err());
    }
}
