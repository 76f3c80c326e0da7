//! `laggard-ship`: sends the finished recordings of a machine to a bucket.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use laggard_model::{Nanos, printable_lines};
use laggard_ship::{Bucket, ship};

/// Send the finished recordings of this machine to an object store
#[derive(Debug, Parser)]
#[command(
    name = "laggard-ship",
    version,
    max_term_width = 80,
    after_help = "\
Sends the recordings in DIR that have ended, such as those of `laggard serve
--store DIR`, to s3://BUCKET/PREFIX/MACHINE/NAME. What is there already is not
sent again; nothing is removed, here or there. Credentials are those of
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or of the machine's role; AWS_REGION
and, for other stores than Amazon's, AWS_ENDPOINT_URL say where.

Exit codes:
  0  all that has ended is there
  2  error: wrong arguments, no such folder
  3  some recordings were not sent: they are named

Examples:
  laggard-ship /var/lib/laggard s3://latency/fleet
  laggard-ship /var/lib/laggard s3://latency/fleet --follow --every 10min"
)]
struct Args {
    /// Folder of recordings
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where they are sent
    #[arg(value_name = "s3://BUCKET/PREFIX")]
    bucket: String,
    /// Go on, and send what ends from now on too
    #[arg(long)]
    follow: bool,
    /// How often to look for them, at least 1s; after failures up to 15 min pass
    #[arg(long, value_name = "TIME", default_value = "1min", requires = "follow")]
    every: Nanos,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            let said = format!("{error:#}");
            eprintln!("laggard-ship: {}", printable_lines(&said));
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> anyhow::Result<bool> {
    let bucket = Bucket::open(&args.bucket)?;
    if args.follow {
        let every = Duration::from(args.every);
        anyhow::ensure!(
            every >= Duration::from_secs(1),
            "--every must be at least 1s"
        );
        match ship::follow(&bucket, &args.dir, every, say)? {}
    }
    let round = ship::round(&bucket, &args.dir, &mut BTreeSet::new())?;
    say(&round);
    Ok(round.is_whole())
}

fn say(round: &ship::Round) {
    // What is sent counts, and goes on when nobody reads this any more.
    let _ = std::io::stdout().write_all(round.text().as_bytes());
}
