//! `laggard-ship`: sends the finished recordings of a machine to a bucket, and fetches the
//! recordings of all machines from one.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use laggard_model::Nanos;
use laggard_ship::{Bucket, console, fetch, ship};

/// Send the finished recordings of this machine to an object store, or fetch the recordings of all
/// machines from one
#[derive(Debug, Parser)]
#[command(
    name = "laggard-ship",
    version,
    max_term_width = 80,
    after_help = "\
laggard-ship DIR s3://BUCKET/PREFIX sends the finished recordings in DIR, such
as the store of `laggard serve --store DIR`, to s3://BUCKET/PREFIX/MACHINE/NAME.
laggard-ship s3://BUCKET/PREFIX DIR fetches the complete recordings to
DIR/MACHINE/NAME, for `laggard-fleet DIR`. Existing recordings are not replaced,
and nothing is removed on either side. Credentials come from AWS_ACCESS_KEY_ID
and AWS_SECRET_ACCESS_KEY, or from the machine's role. AWS_REGION and, for
object stores other than Amazon's, AWS_ENDPOINT_URL set the address.

Exit codes:
  0  all finished recordings are at the destination
  2  error: wrong arguments, no such directory, a bucket that cannot be listed
  3  some recordings were not sent or not fetched; they are listed

Examples:
  laggard-ship /var/lib/laggard s3://latency/fleet
  laggard-ship /var/lib/laggard s3://latency/fleet --follow --every 10min
  laggard-ship s3://latency/fleet /srv/latency"
)]
struct Args {
    /// Source: directory of recordings, or place in an object store
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Destination: place in an object store, or directory
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Keep running, and transfer later recordings too
    #[arg(long)]
    follow: bool,
    /// Time between two passes, at least 1s; up to 15 min after failures
    #[arg(long, value_name = "TIME", default_value = "1min", requires = "follow")]
    every: Nanos,
}

fn main() -> ExitCode {
    let args = match console::parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => console::fail("laggard-ship", &error),
    }
}

fn run(args: &Args) -> anyhow::Result<bool> {
    let every = Duration::from(args.every);
    anyhow::ensure!(
        every >= Duration::from_secs(1),
        "--every must be at least 1s"
    );
    match (Bucket::named(&args.from), Bucket::named(&args.to)) {
        (None, Some(to)) => send(&args.from, &Bucket::open(to)?, args.follow, every),
        (Some(from), None) => fetched(&Bucket::open(from)?, &args.to, args.follow, every),
        _ => anyhow::bail!(
            "give a directory and s3://BUCKET/PREFIX, in either order, instead of `{}` and `{}`",
            args.from.display(),
            args.to.display()
        ),
    }
}

fn send(dir: &Path, bucket: &Bucket, follow: bool, every: Duration) -> anyhow::Result<bool> {
    if follow {
        match ship::follow(bucket, dir, every, |round| say(&round.text()))? {}
    }
    console::check_output()?;
    let round = ship::round(bucket, dir, &mut BTreeSet::new())?;
    console::print(&round.text())?;
    Ok(round.is_whole())
}

fn fetched(bucket: &Bucket, dir: &Path, follow: bool, every: Duration) -> anyhow::Result<bool> {
    if follow {
        fetch::follow(bucket, dir, every, |round| say(&round.text()));
    }
    console::check_output()?;
    let round = fetch::fetch(bucket, dir)?;
    console::print(&round.text())?;
    Ok(round.is_whole())
}

fn say(text: &str) {
    // Sending is more important than this output, and continues without a reader.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
