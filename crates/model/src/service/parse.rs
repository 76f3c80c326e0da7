//! Services by their names, as in options and recordings.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Service;
use crate::nearest;

/// Names for suggestions.
const NAMES: [&str; 14] = [
    "irq",
    "softirq",
    "worker",
    "deadline",
    "fifo:90",
    "pi:50",
    "other",
    "nice:-20",
    "slice:100us",
    "kthread",
    "realtime:31",
    "mmcss",
    "dpc",
    "kthread:28",
];

/// Reason why a text is not a service.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseServiceError {
    /// Unknown name.
    #[error(
        "`{0}` is not a service; use irq, softirq, worker, deadline, fifo:1 to fifo:99, pi:1 to pi:99, other, nice:-20 to nice:19, slice:100us to slice:100ms, kthread, or kthread:32 to kthread:99; on Windows realtime:16 to realtime:31, mmcss, dpc, or kthread:16 to kthread:31{meant}",
        meant = nearest(.0, &NAMES)
    )]
    Unknown(String),
    /// The nice value is invalid, or the one of `other`.
    #[error("the nice value of `{0}` is not -20 to 19 (0 is `other`); write it as `nice:-20`")]
    Nice(String),
    /// The slice is invalid for a normal thread.
    #[error("the slice of `{0}` is not 100us to 100ms; write it as `slice:100us`")]
    Slice(String),
    /// Not a service of a trace.
    #[error(transparent)]
    Traced(#[from] crate::ParseTracedError),
    /// Not a thread.
    #[error(
        "`{0}` is not a thread of a recording; write it as `laggard show` does: `thread NAME, by timer`"
    )]
    Task(String),
    /// The priority cannot be lent.
    #[error("the priority of `{0}` is not 1 to 99; write it as `pi:50`")]
    Lent(String),
    /// The priority is outside the range of the real-time class.
    #[error("the priority of `{0}` is not 16 to 31; write it as `realtime:31`")]
    Realtime(String),
    /// The priority is outside the ranges of kernel threads.
    #[error(
        "the priority of `{0}` is not 32 to 99; write it as `kthread:50` (on Windows 16 to 31, `kthread:28`)"
    )]
    SystemThread(String),
    /// The priority is outside the range of `SCHED_FIFO`.
    #[error("the priority of `{0}` is not 1 to 99; write it as `fifo:90`")]
    Priority(String),
}

impl FromStr for Service {
    type Err = ParseServiceError;

    fn from_str(text: &str) -> Result<Self, ParseServiceError> {
        match text.trim() {
            "irq" => Ok(Self::Irq),
            "softirq" => Ok(Self::Softirq),
            "worker" => Ok(Self::Worker),
            "kthread" => Ok(Self::KTHREAD),
            "other" => Ok(Self::Other),
            "deadline" => Ok(Self::Deadline),
            "mmcss" => Ok(Self::Mmcss),
            "dpc" => Ok(Self::Dpc),
            other if other.starts_with("thread ") => shown_task(other),
            other => match other.split_once(':') {
                Some(("fifo", priority)) => match priority.parse() {
                    Ok(priority @ 1..=99) => Ok(Self::Fifo(priority)),
                    _ => Err(ParseServiceError::Priority(other.into())),
                },
                Some(("pi", priority)) => match priority.parse() {
                    Ok(priority @ 1..=99) => Ok(Self::Lent(priority)),
                    _ => Err(ParseServiceError::Lent(other.into())),
                },
                Some(("realtime", priority)) => match priority.parse() {
                    Ok(priority @ 16..=31) => Ok(Self::Realtime(priority)),
                    _ => Err(ParseServiceError::Realtime(other.into())),
                },
                Some(("kthread", priority)) => match priority.parse() {
                    Ok(priority @ 16..=31) => Ok(Self::SystemThread(priority)),
                    Ok(priority @ 32..=99) => Ok(Self::Kthread(priority)),
                    _ => Err(ParseServiceError::SystemThread(other.into())),
                },
                Some(("nice", nice)) => match nice.parse() {
                    Ok(nice @ (-20..=-1 | 1..=19)) => Ok(Self::Nice(nice)),
                    _ => Err(ParseServiceError::Nice(other.into())),
                },
                Some(("slice", length)) => match length.parse() {
                    Ok(length) if (Self::SLICES.0..=Self::SLICES.1).contains(&length) => {
                        Ok(Self::Slice(length))
                    }
                    _ => Err(ParseServiceError::Slice(other.into())),
                },
                Some(("isr" | "dpc" | "ready", _)) => Ok(Self::Traced(other.parse()?)),
                Some(("task", task)) => match task.parse() {
                    Ok(task) => Ok(Self::Task(task)),
                    Err(_) => Err(ParseServiceError::Task(other.into())),
                },
                None if other == "hardfault" => Ok(Self::Traced(other.parse()?)),
                None if other == "slice" => Err(ParseServiceError::Slice(other.into())),
                None if other == "nice" => Err(ParseServiceError::Nice(other.into())),
                None if other == "pi" => Err(ParseServiceError::Lent(other.into())),
                None if other == "realtime" => Err(ParseServiceError::Realtime(other.into())),
                None if other == "fifo" => Err(ParseServiceError::Priority(other.into())),
                _ => Err(ParseServiceError::Unknown(other.into())),
            },
        }
    }
}

/// Reads a watched thread as reports show it.
fn shown_task(text: &str) -> Result<Service, ParseServiceError> {
    let shown = text.strip_prefix("thread ").unwrap_or(text);
    let parts = shown.rsplit_once(", by ");
    let task = parts.and_then(|(name, way)| format!("{name}/{way}").parse().ok());
    task.map(Service::Task)
        .ok_or_else(|| ParseServiceError::Task(text.into()))
}

impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Service {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Service".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Level at which an application can run code.",
            "pattern": "^(irq|softirq|worker|other|deadline|kthread|mmcss|dpc|(fifo|pi):[1-9][0-9]?|realtime:(1[6-9]|2[0-9]|3[01])|kthread:(1[6-9]|[2-9][0-9])|nice:-?[1-9][0-9]?|slice:[1-9][0-9]*(ns|us|ms)|task:.*/[a-z]+(-[0-9]+)?|(isr|dpc):.+|ready:[0-9]+|hardfault)$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;

    #[test]
    fn services_are_read_back_from_their_names_and_are_in_the_schema() {
        let schema = serde_json::to_value(schemars::schema_for!(Service)).unwrap();
        let pattern = regex::Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
        for service in [
            Service::Irq,
            Service::Softirq,
            Service::Worker,
            Service::Fifo(90),
            Service::Lent(50),
            Service::Realtime(31),
            Service::Mmcss,
            Service::Dpc,
            Service::SystemThread(28),
            Service::Other,
            Service::Nice(-20),
            Service::Nice(19),
            Service::Slice(Nanos::from_us(100)),
            Service::Slice(Nanos::from_us(1_500)),
            Service::Deadline,
            Service::KTHREAD,
            Service::Kthread(50),
            Service::Task("kworker/0:1#3/timer".parse().unwrap()),
            Service::Traced("dpc:ndis.sys".parse().unwrap()),
            Service::Traced("ready:24".parse().unwrap()),
            Service::Traced("hardfault".parse().unwrap()),
        ] {
            assert_eq!(service.to_string().parse(), Ok(service));
            assert!(pattern.is_match(&service.to_string()), "{service}");
        }
    }

    #[test]
    fn watched_thread_is_read_as_reports_show_it() {
        let service = Service::Task("kworker/0:1#3/timer".parse().unwrap());

        assert_eq!("thread kworker/0:1#3, by timer".parse(), Ok(service));
        for text in ["thread a", "thread a, by nothing"] {
            let error = text.parse::<Service>().unwrap_err();
            assert_eq!(error, ParseServiceError::Task(text.into()));
        }
    }

    #[test]
    fn invalid_nice_value_is_refused() {
        for text in ["nice", "nice:0", "nice:20", "nice:-21", "nice:x"] {
            let error = text.parse::<Service>().unwrap_err().to_string();

            assert!(error.contains("is not -20 to 19 (0 is `other`)"), "{error}");
        }
    }

    #[test]
    fn invalid_slice_is_refused() {
        for text in ["slice", "slice:99us", "slice:101ms", "slice:100", "slice:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("the slice of `{text}` is not 100us to 100ms; write it as `slice:100us`")
            );
        }
    }

    #[test]
    fn invalid_lent_priority_is_refused() {
        for text in ["pi", "pi:0", "pi:100", "pi:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("the priority of `{text}` is not 1 to 99; write it as `pi:50`")
            );
        }
    }

    #[test]
    fn invalid_windows_priority_is_refused() {
        for text in ["realtime", "realtime:15", "realtime:32", "realtime:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("the priority of `{text}` is not 16 to 31; write it as `realtime:31`")
            );
        }
    }

    #[test]
    fn invalid_priority_is_refused() {
        for text in ["fifo", "fifo:0", "fifo:100", "fifo:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("the priority of `{text}` is not 1 to 99; write it as `fifo:90`")
            );
        }
    }
}
