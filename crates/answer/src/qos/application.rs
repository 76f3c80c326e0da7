//! Applications: the catalogue, the user's file, or figures of one's own.

use std::path::Path;

use laggard_model::{AskedApplication, Nanos, ParseNanosError, Service};
use serde::Deserialize;

use super::told::FINE_PART;
use super::{Application, MissPolicy};
use crate::finer::two_digits;
use laggard_model::{Meant, nearest};

/// The catalogue, part of the program.
const CATALOGUE: &str = include_str!("../../applications.toml");

/// The application that is asked about unless another is named: what an audio
/// user of today runs.
pub const USUAL: &str = "jack-128";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    application: Vec<CatalogueEntry>,
}

/// More buffers are none: a day of them, each as long as allowed, would be
/// beyond what a time can hold.
const MOST_BUFFERS: u32 = 65_536;
/// And longer ones no stream's.
const LONGEST: Nanos = Nanos::from_secs(86_400);

/// Why there is no such application.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// Our own catalogue cannot be read.
    #[error("read the catalogue")]
    Catalogue(#[source] toml::de::Error),
    /// Neither a name of the catalogue nor a file.
    #[error("`{0}` is not in the catalogue; see `laggard qos --list`, or give a TOML file{1}")]
    Unknown(String, Meant),
    /// The file cannot be read.
    #[error("read the application `{file}`")]
    Read {
        /// The file, as given.
        file: String,
        /// Why it cannot be read.
        source: std::io::Error,
    },
    /// The file is of something else.
    #[error(
        "`{file}` is not an application; write name, buffers, buffer and compute as `laggard qos --help` shows"
    )]
    NoApplication {
        /// The file, as given.
        file: String,
        /// What is wrong with the file.
        source: toml::de::Error,
    },
    /// One of its times is none.
    #[error("application `{name}`")]
    Time {
        /// The application.
        name: String,
        /// What is wrong with the time.
        source: ParseNanosError,
    },
    /// One buffer tolerates nothing.
    #[error("`{name}` has {buffers} buffer(s); it takes 2 or more to tolerate any latency")]
    FewBuffers {
        /// The application.
        name: String,
        /// How many buffers were asked for.
        buffers: u32,
    },
    /// More than can be answered for.
    #[error("`{name}` has {buffers} buffers; the limit of `--buffers` is {MOST_BUFFERS}")]
    ManyBuffers {
        /// The application.
        name: String,
        /// How many buffers were asked for.
        buffers: u32,
    },
    /// Longer than can be answered for.
    #[error("`{name}` has buffers of {buffer}; the limit of `--buffer` is {LONGEST}")]
    LongBuffers {
        /// The application.
        name: String,
        /// How long each is.
        buffer: Nanos,
    },
    /// It can never keep up.
    #[error(
        "`{name}` computes for {compute} in a buffer of {buffer}; the work must be shorter than the buffer"
    )]
    TooMuchWork {
        /// The application.
        name: String,
        /// Its work for one buffer.
        compute: Nanos,
        /// How long each is.
        buffer: Nanos,
    },
}

/// An application as it is written in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub about: String,
    /// How many buffers it has.
    pub buffers: u32,
    /// How long each is, with its unit.
    pub buffer: String,
    /// Its work for one, with its unit.
    pub compute: String,
    /// Where these figures are from.
    #[serde(default = "from_file")]
    pub source: String,
    /// What runs it; absent: the most urgent thread that there is.
    #[serde(default)]
    pub service: Option<Service>,
    /// Whether it is of interest beside the papers only.
    #[serde(default)]
    pub is_historic: bool,
}

fn from_file() -> String {
    "the user's file".into()
}

/// Every application of the catalogue.
///
/// # Errors
/// When the catalogue is damaged: a test holds that it is not.
pub fn catalogue() -> Result<Vec<CatalogueEntry>, ApplicationError> {
    let catalogue: Catalogue = toml::from_str(CATALOGUE).map_err(ApplicationError::Catalogue)?;
    Ok(catalogue.application)
}

/// An application of the catalogue, or of a file.
///
/// # Errors
/// When it is neither, or its figures are out of their range.
pub fn by_name(name: &str) -> Result<Application, ApplicationError> {
    of_entry(&named(name)?)
}

/// The catalogue to choose from, `first` or else the usual application before
/// all others.
///
/// # Errors
/// When the catalogue is damaged: a test holds that it is not.
pub fn choices(first: Option<Application>) -> Result<Vec<Application>, ApplicationError> {
    let mut all = vec![match first {
        Some(first) => first,
        None => by_name(USUAL)?,
    }];
    for entry in catalogue()? {
        if !all.iter().any(|known| known.name == entry.name) {
            all.push(of_entry(&entry)?);
        }
    }
    Ok(all)
}

/// Those of the catalogue that people run today.
pub(crate) fn today() -> Result<Vec<Application>, ApplicationError> {
    let all = catalogue()?;
    let current = all.iter().filter(|entry| !entry.is_historic);
    current.map(of_entry).collect()
}

fn of_entry(entry: &CatalogueEntry) -> Result<Application, ApplicationError> {
    let time = |text: &str| {
        text.parse().map_err(|source| ApplicationError::Time {
            name: entry.name.clone(),
            source,
        })
    };
    let (buffer, compute) = (time(&entry.buffer)?, time(&entry.compute)?);
    let found = Application::new(&entry.name, entry.buffers, buffer, compute, &entry.source)?;
    Ok(Application {
        service: entry.service,
        ..found
    })
}

fn named(name: &str) -> Result<CatalogueEntry, ApplicationError> {
    let mut known = catalogue()?;
    if let Some(place) = known.iter().position(|entry| entry.name == name) {
        return Ok(known.swap_remove(place));
    }
    let path = Path::new(name);
    if !name.ends_with(".toml") && !path.exists() {
        let known: Vec<&str> = known.iter().map(|entry| &*entry.name).collect();
        return Err(ApplicationError::Unknown(
            name.into(),
            nearest(name, &known),
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
    /// One that fills `buffers` of the length `buffer`, each with work of
    /// `compute`; `source` says where these figures are from.
    ///
    /// # Errors
    /// When they are out of their range.
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
        if buffers > MOST_BUFFERS {
            return Err(ApplicationError::ManyBuffers {
                name: called(),
                buffers,
            });
        }
        if buffer > LONGEST {
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

    fn try_from(asked: &AskedApplication) -> Result<Self, ApplicationError> {
        let found = Self::new(
            &asked.name,
            asked.buffers,
            asked.buffer_ns,
            asked.compute_ns,
            &asked.source,
        )?;
        Ok(Self {
            service: asked.service,
            ..found
        })
    }
}

impl From<&Application> for AskedApplication {
    fn from(of: &Application) -> Self {
        Self {
            name: of.name.clone(),
            buffers: of.buffers,
            buffer_ns: of.buffer_ns,
            compute_ns: of.compute_ns,
            source: of.source.clone(),
            service: of.service,
        }
    }
}

/// No probe is coarser: shorter stalls matter to others.
const COARSEST: Nanos = Nanos::from_ms(1);
/// Nor finer unless it would not see the slack otherwise: it would be a load of
/// its own.
const FINE_ENOUGH: Nanos = Nanos::from_us(200);
/// Of one that must be finer, activations within the slack.
const SEEN: u64 = 4;
/// And none is finer than that.
const FINEST: Nanos = Nanos::from_us(20);

impl Application {
    /// The mean time between two activations with which a recording tells how
    /// often this application's buffers run dry.
    pub fn probe_period(&self) -> Nanos {
        let slack = self.slack_ns.as_f64();
        let fine = Nanos::from_f64(slack / FINE_PART).clamp(FINE_ENOUGH, COARSEST);
        let seen = Nanos::from_ns(self.slack_ns.ns() / SEEN).max(FINEST);
        two_digits(fine.min(seen))
    }
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
            let found =
                Application::new(&entry.name, entry.buffers, buffer, compute, &entry.source);
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
            Application::new("m", 2, Nanos::from_ms(4), Nanos::from_ms(1), "OSDI'99 5.1").unwrap();

        assert_eq!(found.slack_ns, Nanos::from_ms(3));
    }

    #[test]
    fn more_or_longer_buffers_than_a_time_can_hold_are_refused_by_their_flags_names() {
        let text = |buffers, buffer| {
            let found = Application::new("a", buffers, buffer, Nanos::from_ms(1), "");
            found.map(|_| ()).unwrap_err().to_string()
        };

        assert_eq!(
            text(65_537, Nanos::from_ms(4)),
            "`a` has 65537 buffers; the limit of `--buffers` is 65536"
        );
        assert!(text(u32::MAX, Nanos::MAX).contains("`--buffers`"));
        assert!(text(2, Nanos::MAX).contains("the limit of `--buffer` is 86400s"));
        let most = Application::new("a", 65_536, LONGEST, Nanos::from_ms(1), "").unwrap();
        assert_eq!(most.tolerance_ns, LONGEST * 65_535);
    }

    #[test]
    fn an_application_is_probed_as_finely_as_its_slack_takes_but_no_finer() {
        for (buffer, compute, expected) in [
            (Nanos::from_us(2_667), Nanos::from_us(800), "200us"),
            (Nanos::from_us(10_667), Nanos::from_us(3_200), "370us"),
            (Nanos::from_ms(64), Nanos::from_ms(16), "1ms"),
            (Nanos::from_us(250), Nanos::from_us(60), "47us"),
            (Nanos::from_us(30), Nanos::from_us(20), "20us"),
        ] {
            let found = Application::new("a", 2, buffer, compute, "").unwrap();

            assert_eq!(found.probe_period().to_string(), expected, "for {buffer}");
        }
    }

    #[test]
    fn what_a_recording_keeps_of_an_application_gives_it_back() {
        for found in choices(None).unwrap() {
            let kept = AskedApplication::from(&found);

            let back = Application::try_from(&kept).unwrap();

            assert_eq!(AskedApplication::from(&back), kept);
            assert_eq!(
                (back.slack_ns, back.service),
                (found.slack_ns, found.service)
            );
        }
    }

    #[test]
    fn one_buffer_or_too_much_work_is_called() {
        assert!(Application::new("a", 1, Nanos::from_ms(4), Nanos::from_ms(1), "").is_err());
        assert!(Application::new("a", 2, Nanos::from_ms(4), Nanos::from_ms(4), "").is_err());
    }
}
