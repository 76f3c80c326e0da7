//! Arguments of the exporter.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_console::args::{
    BackendArg, EpisodesArg, OnLateArgs, SizeLimitArg, StagesArg, some_time,
};
use laggard_model::{CpuList, Nanos, Service};

/// What follows the options in the help.
pub const SERVE_EXAMPLES: &str = "\
Examples:
  laggard serve                                 metrics at http://127.0.0.1:9477
  laggard serve --store /var/lib/laggard        and a recording of each hour
  laggard serve --services irq,fifo:90,other --period 100ms
  laggard serve --listen unix:/run/laggard/metrics.sock
  laggard serve --listen 10.0.0.7:9477 --web-config /etc/laggard/web.yml
  laggard serve --otlp http://localhost:4318     and to a collector
Prometheus scrapes it as job `laggard`. docs/how-to/always-on.md has alert
rules, a dashboard and a systemd unit.";

/// What is measured, and who is answered.
#[derive(ClapArgs, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Where to answer: an address and port, or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9477")]
    pub listen: ListenArg,
    /// Answer other machines too, without --web-config: everybody who reaches --listen reads how late
    /// this machine is, and names of its processes, devices and kernel functions
    #[arg(long)]
    pub expose: bool,
    /// File of certificate and key, names and passwords, by the convention of
    /// Prometheus' exporters (`tls_server_config`, `basic_auth_users`)
    #[arg(long, value_name = "FILE")]
    pub web_config: Option<PathBuf>,
    /// Keep a recording of each --every in this folder: histograms, the largest
    /// and late activations, for `laggard show`, `why` and the others
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// What the store may take at most; the oldest recordings go first
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "store")]
    pub keep: SizeLimitArg,
    /// How long each recording of the store is; they begin at whole multiples
    /// of it
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "store", value_parser = some_time)]
    pub every: Nanos,
    /// Send series and late activations to this collector of OpenTelemetry too, by
    /// OTLP over HTTP; `OTEL_EXPORTER_OTLP_HEADERS` has passwords
    /// [default: `OTEL_EXPORTER_OTLP_ENDPOINT`, if set]
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// CPUs to measure [default: all online that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Services to measure, as for `record`
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "fifo:90"
    )]
    pub services: Vec<Service>,
    /// Mean time between two activations of a service on a CPU
    #[arg(short, long, value_name = "TIME", default_value = "100ms", value_parser = some_time)]
    pub period: Nanos,
    /// Latency from which on an activation is late, and its causes are counted
    /// [default: 10 times the median of each service's first 3 s, at most their p99.9,
    /// and from 50us to 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub threshold: Option<Nanos>,
    /// Watch who causes late activations: as far as this kernel allows (auto),
    /// surely (on), or not at all (off)
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub episodes: EpisodesArg,
    /// Stack samples a second on each CPU, as evidence; 0 takes none
    #[arg(long, value_name = "HZ", default_value_t = 0)]
    pub stack_rate: u32,
    /// Stages on the way to stamp, as for `record` [default: all]
    #[arg(long, value_name = "LIST")]
    pub stages: Option<StagesArg>,
    /// What to measure with
    #[arg(long, value_name = "WHAT", default_value = "best")]
    pub backend: BackendArg,
    /// Actions on late wakeups.
    #[command(flatten)]
    pub late: OnLateArgs,
}

/// Where to answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListenArg {
    /// An address of this machine, and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl std::str::FromStr for ListenArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("name a socket, as in unix:/run/laggard/metrics.sock".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!(
                    "`{text}` is no address; write it as 127.0.0.1:9477, [::1]:9477 or unix:PATH"
                )
            }),
        }
    }
}

impl std::fmt::Display for ListenArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ListenArg {
    /// Whether only who is on this machine can connect.
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_what_is_none_is_told_how_to_write() {
        let read = |text: &str| text.parse::<ListenArg>();

        assert!(read("127.0.0.1:9477").unwrap().is_local());
        assert!(read("[::1]:9477").unwrap().is_local());
        assert!(!read("0.0.0.0:9477").unwrap().is_local());
        assert!(!read("[::]:9477").unwrap().is_local());
        assert!(read("unix:/run/x").unwrap().is_local());
        assert!(read("unix:").is_err());
        assert!(read("9477").unwrap_err().contains("127.0.0.1:9477"));
    }
}
