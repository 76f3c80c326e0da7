//! Arguments of the exporter.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_console::args::{OnLateArgs, StagesArg, episodes, size_limit, some_time};
use laggard_model::{CpuList, Nanos, Service};
use laggard_session::{EpisodesChoice, ProbeChoice};

/// Examples after the options in the help.
pub const SERVE_EXAMPLES: &str = "\
Examples:
  laggard serve                                 metrics at http://127.0.0.1:9477
  laggard serve --store /var/lib/laggard        also store hourly recordings
  laggard serve --services irq,fifo:90,other --period 100ms
  laggard serve --listen unix:/run/laggard/metrics.sock
  laggard serve --listen 10.0.0.7:9477 --web-config /etc/laggard/web.yml
  laggard serve --otlp http://localhost:4318    also send to a collector
Name the Prometheus job `laggard`. docs/how-to/always-on.md has alert rules, a
dashboard and a systemd unit.";

/// Scope of the measurement and address of the server.
#[derive(ClapArgs, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Listen on this address and port, or on unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9477")]
    pub listen: ListenArg,
    /// Answer other machines without --web-config. Everyone who can connect to --listen can
    /// read the latencies of this machine and the names of its processes, devices and kernel
    /// functions
    #[arg(long)]
    pub expose: bool,
    /// File with certificate, key, user names and passwords, in the format of the Prometheus
    /// exporters (`tls_server_config`, `basic_auth_users`)
    #[arg(long, value_name = "FILE")]
    pub web_config: Option<PathBuf>,
    /// Store recordings in this directory, one for each interval of --every: histograms, the
    /// largest latencies and late wakeups, for `laggard show`, `why` and others
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Maximum size of the store; the oldest recordings are removed first
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "store", value_parser = size_limit)]
    pub keep: u64,
    /// Length of the recordings in the store, which start at whole multiples of it
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "store", value_parser = some_time)]
    pub every: Nanos,
    /// Also send metrics and late wakeups to this OpenTelemetry collector, with OTLP over HTTP.
    /// Put passwords into `OTEL_EXPORTER_OTLP_HEADERS` [default: `OTEL_EXPORTER_OTLP_ENDPOINT`,
    /// if set]
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// CPUs to measure [default: all online CPUs that this process may use]
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
    /// Mean time between two wakeups of a service on a CPU
    #[arg(short, long, value_name = "TIME", default_value = "100ms", value_parser = some_time)]
    pub period: Nanos,
    /// Latency threshold: laggard counts the causes of wakeups above it [default: 10 times the
    /// median of each service's first 3 s, at most their p99.9, between 50us and 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub threshold: Option<Nanos>,
    /// Find the causes of late wakeups: if this kernel supports it (auto), always, or fail (on),
    /// never (off)
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = episodes())]
    pub episodes: EpisodesChoice,
    /// Stack samples per second on each CPU; 0 for none
    #[arg(long, value_name = "HZ", default_value_t = 0)]
    pub stack_rate: u32,
    /// Stages of the wakeup path to record, as for `record` [default: all]
    #[arg(long, value_name = "LIST")]
    pub stages: Option<StagesArg>,
    /// Source of the stages: bpf, perf (tracepoints, for kernels without BTF), user
    /// (neither, without root), or the best available of them (best)
    #[arg(long, value_name = "WHAT", default_value = "best")]
    pub backend: ProbeChoice,
    /// Actions on late wakeups.
    #[command(flatten)]
    pub late: OnLateArgs,
}

/// Address of the server.
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
                    "`{text}` is not an address; write it as 127.0.0.1:9477, [::1]:9477 or unix:PATH"
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
    /// Returns true if only users of this machine can connect.
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
    fn address_is_parsed_and_an_invalid_one_gets_a_hint() {
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
