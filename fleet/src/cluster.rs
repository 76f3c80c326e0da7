//! Ballista cluster that runs the queries in place of this process.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;

use crate::catalogue::TABLES;
use crate::engine::Engine;
use crate::sql;

/// Time limit of a call to the scheduler.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of a first small query. Without executors, it would wait forever.
const FIRST_QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Address of a cluster's scheduler.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scheduler {
    host: String,
    port: u16,
}

/// Text that is not the address of a scheduler.
#[derive(Debug, Eq, PartialEq)]
pub struct NoScheduler(String);

impl fmt::Display for NoScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a scheduler; write HOST:PORT, such as localhost:50050",
            self.0
        )
    }
}

impl std::error::Error for NoScheduler {}

impl FromStr for Scheduler {
    type Err = NoScheduler;

    fn from_str(text: &str) -> Result<Self, NoScheduler> {
        let is_host = |host: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let name = host
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            match name {
                Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
                None => !host.is_empty() && host.chars().all(is_part),
            }
        };
        text.rsplit_once(':')
            .filter(|(host, _)| is_host(host))
            .and_then(|(host, port)| {
                Some(Self {
                    host: host.into(),
                    port: port.parse().ok().filter(|&port| port > 0)?,
                })
            })
            .ok_or_else(|| NoScheduler(text.into()))
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Scheduler {
    /// Checks that the scheduler accepts connections. Ballista's client would retry for minutes.
    ///
    /// # Errors
    /// If it does not.
    pub fn reach(&self) -> anyhow::Result<()> {
        let reach = || -> std::io::Result<()> {
            let mut last = std::io::ErrorKind::AddrNotAvailable.into();
            for address in self.to_string().to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CALL_TIMEOUT) {
                    Ok(_) => return Ok(()),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        reach().with_context(|| {
            format!("cannot connect to the scheduler at `{self}`; check that it runs with this --bind-port")
        })
    }
}

/// Checks that the cluster has the same catalogue.
///
/// # Errors
/// If it does not respond, or has other tables at that path.
pub fn hold(there: &Engine, here: &Engine) -> anyhow::Result<()> {
    for table in TABLES {
        let fingerprint = |engine: &Engine| -> anyhow::Result<_> {
            let rows = engine.query_within(&sql::fingerprint(table), FIRST_QUERY_TIMEOUT)?;
            let rows =
                rows.context("no answer for a minute; check that the cluster has executors")?;
            Ok((rows.whole("rows_seen")?, rows.whole("sum_seen")?))
        };
        let own = fingerprint(here)?;
        let theirs = fingerprint(there).with_context(|| {
            format!("cannot read the table `{table}` on the cluster; every executor must see the catalogue at the same path as this machine")
        })?;
        anyhow::ensure!(
            own == theirs,
            "the cluster sees a different table `{table}`; every executor must see this catalogue, not a copy, at the same path as this machine"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_address_is_host_and_port() {
        for text in [
            "localhost:50050",
            "10.0.0.1:1",
            "[::1]:50050",
            "ballista.example.org:65535",
        ] {
            assert_eq!(text.parse::<Scheduler>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "localhost",
            "localhost:",
            ":50050",
            "a:0",
            "a:70000",
            "http://a:1",
            "a b:1",
            "[x]:1",
        ] {
            let refused = text.parse::<Scheduler>().unwrap_err().to_string();
            assert!(refused.contains("HOST:PORT"), "{text}: {refused}");
        }
    }
}
