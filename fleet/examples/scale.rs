//! Measures time and memory of reports over many machines.
//!
//! Usage: `scale DIR HOSTS HOURS`. Creates a catalogue of simulated recordings in DIR, unless it
//! exists: one hour each, with 356 buckets, 60 minutes and 3 causes. Then answers a question, in
//! this process or on the cluster at HOST:PORT, and prints the time. The directories of the
//! recordings are not created, so that the time does not include finding and reading them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use laggard_fleet::answers::{
    ChangedAsked, Lines, Order, StoreView, causes, changed, host, summary, worst,
};
use laggard_fleet::catalogue::Catalogue;
use laggard_fleet::cluster::Scheduler;
use laggard_fleet::sql::Only;
use laggard_fleet::store::Place;
use laggard_model::{
    CauseClass, DIGEST_SCHEMA, Digest, DigestCause, DigestContent, DigestHour, DigestLine,
    DigestMinute, NamedCause, Nanos, RecordingDigest, Route, Service,
};

/// 2026-11-20T00:00:00Z.
const EPOCH_S: i64 = 1_795_651_200;
/// Buckets of an hour, from 2 us, as in a real recording.
const BUCKETS: usize = 356;
const FIRST_BUCKET: usize = 700;

/// `SplitMix64` (Steele et al. 2014).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the digest of `host` in `hour`: a body that halves every 20 buckets, and a tail whose
/// length differs between machines.
fn digest(host: u64, hour: u64, hours: u64) -> Digest {
    let random = |place: u64| mixed((host << 32) ^ (hour << 20) ^ place);
    let buckets: Vec<(usize, u64)> = (0..BUCKETS)
        .map(|bucket| {
            let body = 30_000_u64 >> (bucket / 20).min(14);
            (
                FIRST_BUCKET + bucket,
                1 + body + random(bucket as u64) % (1 + body / 8),
            )
        })
        .collect();
    let is_bad = mixed(host).is_multiple_of(64);
    let late = if is_bad { 3_000_000 } else { 900_000 };
    let minutes = (0..60).map(|minute| DigestMinute {
        minute,
        max_ns: Nanos::from_ns(late / 2 + random(1_000 + u64::from(minute)) % late),
    });
    let cause = |number: u64| DigestCause {
        service: Service::Fifo(90),
        route: Route::Direct,
        hour: 0,
        cause: NamedCause::new(
            CauseClass::HigherPriority,
            Some(&format!("thread-{}", mixed(host * 3 + number) % 500)),
        ),
        is_ours: false,
        episodes: 1 + random(number) % 50,
        first_in: 1,
        total_ns: Nanos::from_ns(random(number) % 50_000_000),
        largest_ns: Nanos::from_ns(random(number) % 5_000_000),
        period_ns: None,
    };
    let kernel = if hour * 2 < hours { "6.12.9" } else { "6.13.1" };
    let read = RecordingDigest {
        started: format!("{hour}"),
        start_s: Some(EPOCH_S + 3_600 * hour.cast_signed()),
        duration_ns: Nanos::from_secs(3_600),
        settings: (0..60)
            .map(|part| {
                (
                    format!("setting {part}"),
                    format!("{}", mixed(host ^ part) % 3),
                )
            })
            .collect(),
        lines: vec![DigestLine {
            service: Service::Fifo(90),
            route: Route::Direct,
            lost: 0,
            hours: vec![DigestHour {
                hour: 0,
                missed: 0,
                sum_ns: 1 << 32,
                min_ns: Some(Nanos::from_us(1)),
                max_ns: Nanos::from_ns(late),
                buckets,
                waiting: Vec::new(),
            }],
            minutes: minutes.collect(),
        }],
        episodes: Some(100),
        causes: (0..3).map(cause).collect(),
        ..RecordingDigest::of_host(format!("host-{host}"), kernel)
    };
    Digest {
        schema: DIGEST_SCHEMA,
        path: String::new(),
        content: DigestContent::Read(Box::new(read)),
    }
}

/// Returns the peak memory of this process, MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("is Linux");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("is told");
    line.split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<u64>().ok())
        .expect("is a number")
        >> 10
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, hosts, hours, question @ ..] = words.as_slice() else {
        anyhow::bail!("usage: scale DIR HOSTS HOURS [QUESTION [HOST:PORT]]");
    };
    let (hosts, hours): (u64, u64) = (hosts.parse()?, hours.parse()?);
    let catalogue = Catalogue::open(Path::new(dir))?;
    if question.is_empty() {
        let names = (0..hosts).flat_map(|host| (0..hours).map(move |hour| (host, hour)));
        let places: Vec<Place> = names
            .map(|(host, hour)| Place {
                path: PathBuf::from(format!("{host}/{hour}")),
                stamp: String::new(),
            })
            .collect();
        let began = Instant::now();
        catalogue.update(&places, |paths, _| {
            let read = paths.iter().map(|path| {
                let mut parts = path
                    .iter()
                    .map(|part| part.to_string_lossy().parse::<u64>());
                let mut next = || anyhow::Ok(parts.next().expect("has two parts")?);
                Ok(Some(digest(next()?, next()?, hours)))
            });
            read.collect()
        })?;
        println!(
            "made or checked in {:.1} s, {} MiB",
            began.elapsed().as_secs_f64(),
            resident()
        );
        return Ok(());
    }
    let began = Instant::now();
    let scheduler: Option<Scheduler> =
        question.get(1).map(|address| address.parse()).transpose()?;
    let engine = laggard_fleet::open(&catalogue, scheduler.as_ref())?;
    let view = StoreView::read(&engine, dir.clone(), &[], None)?;
    let line = Lines::read(&engine)?.chosen(None)?;
    let (limit, only) = (Nanos::from_us(1_400), Only::default());
    let text = match question[0].as_str() {
        "summary" => summary(&engine, view, &["kernel", "load"], only)?.text(),
        "worst" => worst(&engine, view, line, limit, Order::Rate, 3, only)?.text(),
        "p999" => worst(&engine, view, line, limit, Order::P999, 3, only)?.text(),
        "show" => host(&engine, view, "host-0", 3, only)?.text(),
        "causes" => causes(&engine, view, 3, only)?.text(),
        "changed" => changed(
            &engine,
            view,
            ChangedAsked {
                line,
                limit,
                by: vec!["kernel"],
                top: 3,
                only,
            },
        )?
        .text(3),
        other => anyhow::bail!("`{other}` is no question"),
    };
    println!(
        "{text}\n{} took {:.1} s, {} MiB",
        question[0],
        began.elapsed().as_secs_f64(),
        resident()
    );
    Ok(())
}
