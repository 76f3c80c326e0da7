//! Malicious recordings: every reader ends soon, with an error or a shortfall that
//! names file, row and limit.

use std::fs;
use std::path::Path;

use laggard_model::{
    Activation, Activity, Batch, Cpu, Episode, EpisodeNotes, FlightEvent, Happening, Keep, LineId,
    Nanos, STAGES, Stage, State,
};
use laggard_record::{Columns, OpenError, Recorder, Recording, Shortfall};

use crate::fixture::{Rows, START, manifest};

/// Writes a recording with one segment that was killed with ten rows in its journal.
fn killed(dir: &Path) {
    let mut recorder = Recorder::create(dir, manifest(Keep::All)).unwrap();
    recorder.append(&Rows::new(5).batch(65_536)).unwrap();
    recorder.append(&Rows::new(7).batch(10)).unwrap();
}

/// Returns a journal frame of one row with a valid checksum.
fn frame(line: u16, seq: u64, expiry_ns: u64, user_ns: u64) -> Vec<u8> {
    let number = |out: &mut Vec<u8>, mut number: u64| {
        while number >= 0x80 {
            out.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        out.push((number & 0x7f) as u8);
    };
    let mut payload = Vec::new();
    // With stages irq and user.
    for value in [1 | 1 << 7, u64::from(line), seq] {
        number(&mut payload, value);
    }
    let ahead = expiry_ns.cast_signed();
    number(&mut payload, ((ahead << 1) ^ (ahead >> 63)).cast_unsigned());
    number(&mut payload, user_ns);
    number(&mut payload, user_ns);
    let mut frame = b"LGJ1".to_vec();
    frame.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
    frame.extend(crc32fast::hash(&payload).to_le_bytes());
    frame.extend(payload);
    frame
}

/// Returns the rows and the shortfalls that a reader gets.
fn read(dir: &Path) -> (Vec<Activation>, Vec<String>) {
    let recording = Recording::open(dir).unwrap();
    let mut rows = Vec::new();
    let mut shortfalls = recording.shortfalls().to_vec();
    shortfalls.extend(recording.scan(Columns::all(), |batch| rows.extend(batch.iter())));
    shortfalls.retain(|shortfall| !matches!(shortfall, Shortfall::NoEnd { .. }));
    (rows, shortfalls.iter().map(ToString::to_string).collect())
}

#[test]
fn journal_is_read_up_to_the_first_invalid_row() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    let file = dir.path().join("open-000002.journal");
    let mut content = fs::read(&file).unwrap();
    let late = START.ns() + 1_000_000_000;
    content.extend(frame(2, 5, late, 5));
    content.extend(frame(1, 3, late, u64::MAX - 1));
    content.extend(frame(1, u64::MAX, late, 5));
    content.extend(frame(1, 4, late, 1 << 52));
    fs::write(&file, content).unwrap();

    let (rows, messages) = read(dir.path());

    assert_eq!(rows.len(), 65_547);
    let [message] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert!(
        message.contains("`open-000002.journal` is damaged: it holds a stage's time 18446744073709551614 in row 11 (line 1), above the 9007199254740992 that can be recorded")
            && message.contains("3 rows from there on are left out"),
        "{message}"
    );
}

#[test]
fn rows_up_to_ten_years_can_be_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let mut batch = Batch::default();
    let mut activation = Activation::new(
        LineId(0),
        0,
        START + Nanos::from_secs(9 * 366 * 86_400),
        [None; STAGES.len()],
    );
    activation.steps[Stage::User.index()] = Some(Nanos::from_us(1));
    batch.push(&activation);
    recorder.append(&batch).unwrap();
    activation.expiry = START + Nanos::from_secs(11 * 366 * 86_400);
    batch.clear();
    batch.push(&activation);

    let refused = recorder.append(&batch).unwrap_err();

    assert!(refused.to_string().contains("the expiry"), "{refused}");
    recorder.finish(State::Complete).unwrap();
    assert_eq!(read(dir.path()).0.len(), 1);
}

/// Replaces a file with one that is not a regular file.
#[cfg(unix)]
fn instead(file: &Path, what: &str) {
    fs::remove_file(file).unwrap();
    match what {
        "a pipe" => {
            let made = std::process::Command::new("mkfifo").arg(file).status();
            assert!(made.unwrap().success());
        }
        "a link to a device" => std::os::unix::fs::symlink("/dev/zero", file).unwrap(),
        "a sparse file" => {
            let sparse = fs::File::create(file).unwrap();
            sparse.set_len(10 << 30).unwrap();
        }
        _ => fs::create_dir(file).unwrap(),
    }
}

#[cfg(unix)]
#[test]
fn special_or_too_large_file_is_reported_and_not_read() {
    for (what, why) in [
        ("a pipe", "not a regular file"),
        ("a link to a device", "not a regular file"),
        ("a folder", "not a regular file"),
        (
            "a sparse file",
            "10737418240 bytes are more than such a file can have",
        ),
    ] {
        for name in ["samples/000001.parquet", "open-000002.journal"] {
            let dir = tempfile::tempdir().unwrap();
            killed(dir.path());
            instead(&dir.path().join(name), what);

            let (_, messages) = read(dir.path());

            let is_reported = messages
                .iter()
                .any(|message| message.contains(name) && message.contains(why));
            assert!(is_reported, "{what} for {name}: {messages:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        killed(dir.path());
        instead(&dir.path().join("manifest.json"), what);

        let (rows, messages) = read(dir.path());

        assert_eq!(rows.len(), 65_546, "{what}");
        assert!(messages[0].contains(why), "{what}: {messages:?}");
    }
}

#[test]
fn manifest_with_impossible_numbers_is_damaged() {
    for (from, to) in [
        ("\"ring_full\": 0", "\"ring_full\": 18446744073709551615"),
        ("\"served\": 16380", "\"served\": 18446744073709551615"),
        ("\"end_ns\": null", "\"end_ns\": 18446744073709551615"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        killed(dir.path());
        for name in ["manifest.json", "manifest-start.json"] {
            let file = dir.path().join(name);
            let text = fs::read_to_string(&file).unwrap();
            let changed = text.replacen(from, to, 1);
            if name == "manifest.json" {
                assert!(changed != text, "{from}");
            }
            let changed = changed.replace("\"schema\": 2", "\"schema\": \"\"");
            let changed = match name {
                "manifest.json" => changed.replace("\"schema\": \"\"", "\"schema\": 2"),
                _ => changed,
            };
            fs::write(&file, changed).unwrap();
        }

        let refused = Recording::open(dir.path()).unwrap_err();

        let OpenError::ManifestDamaged { source, .. } = &refused else {
            panic!("{from}: {refused}");
        };
        assert!(
            source.to_string().contains("18446744073709551615"),
            "{source}"
        );
    }
}

#[test]
fn episodes_line_that_expands_to_gigabytes_is_skipped_at_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    let bomb = zstd::stream::encode_all(std::io::repeat(b'x').take_bytes(40 << 20), 1).unwrap();
    assert!(bomb.len() < 1 << 14, "{}", bomb.len());
    fs::write(dir.path().join("episodes-000001.jsonl.zst"), bomb).unwrap();
    let many = zstd::stream::encode_all(std::io::repeat(b'\n').take_bytes(1 << 20), 1).unwrap();
    fs::write(dir.path().join("episodes-000002.jsonl.zst"), many).unwrap();

    let episodes = Recording::open(dir.path()).unwrap().episodes().unwrap();

    let messages: Vec<String> = episodes
        .shortfalls
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].contains("unpack to more than"), "{messages:?}");
    assert!(
        messages[1].contains("100 lines are not episodes; the rest from line 101 is skipped"),
        "{messages:?}"
    );
    assert!(
        messages[2].contains("99 more are not episodes"),
        "{messages:?}"
    );
}

/// Returns an episode in the format of the writer, with this number of events at times
/// of varying distance, as on a machine.
fn episode(number: u64, events: u64) -> String {
    let activation = Activation::new(
        LineId(0),
        number,
        START + Nanos::from_ms(number),
        [None; STAGES.len()],
    );
    let mut episode = Episode::new(number, Cpu(0), &activation, Nanos::from_us(50));
    let mut time = START;
    let event = |number: u64| {
        time += Nanos::from_ns(number.wrapping_mul(0x9e37_79b9) >> 20 & 0xfff);
        FlightEvent {
            at_ns: time,
            what: Happening::Begin(Activity::PageFault),
        }
    };
    episode.evidence.events = (0..events).map(event).collect();
    let mut text = serde_json::to_string(&episode).unwrap();
    text.push('\n');
    text
}

/// Returns the number of episodes that are read from this text, and the shortfalls.
fn read_episodes(dir: &Path, text: &str) -> (usize, Vec<String>) {
    let packed = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
    fs::write(dir.join("episodes-000001.jsonl.zst"), packed).unwrap();
    let mut read = 0;
    let recording = Recording::open(dir).unwrap();
    let left = recording.each_episode(|_, _| read += 1).unwrap();
    (
        read,
        left.shortfalls.iter().map(ToString::to_string).collect(),
    )
}

/// Without this, a recording whose file of episodes is gone looks like one without late
/// wakeups.
#[test]
fn episodes_that_were_kept_and_are_missing_are_a_shortfall() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    let notes = EpisodeNotes {
        kept: 3,
        ..EpisodeNotes::default()
    };
    let notes = serde_json::to_vec(&notes).unwrap();
    fs::write(dir.path().join("episodes.json"), notes).unwrap();
    let missing = |text: &str| {
        let (_, shortfalls) = read_episodes(dir.path(), text);
        shortfalls
    };

    let complete = [1, 2, 3].map(|number| episode(number, 1)).concat();
    assert_eq!(missing(&complete), [""; 0]);
    assert_eq!(
        missing(&episode(1, 1)),
        ["the trace data of 2 of 3 late wakeups is missing"]
    );
    assert_eq!(
        missing(""),
        ["the trace data of 3 of 3 late wakeups is missing"]
    );
}

/// 18 KB of them took 18 s, and 277 KB did not end.
#[test]
fn invalid_episodes_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    let last = "the rest from";

    let full_ring = read_episodes(dir.path(), &episode(1, 200_000));
    let repeated = read_episodes(dir.path(), &episode(7, 0).repeat(40));
    let many: String = (1..=4_000).map(|number| episode(number, 40)).collect();
    let honest = read_episodes(dir.path(), &many);
    let large = read_episodes(dir.path(), &episode(1, (1 << 18) + 1));
    // Spaces between values are JSON, too.
    let padded = |number| episode(number, 0).replace('\n', &format!("{}\n", " ".repeat(500_000)));
    let bomb: String = (1..=200).map(padded).collect();
    let bomb = read_episodes(dir.path(), &bomb);
    let later = episode(1, 0).replace("\"line\":0", "\"line\":999");
    let unknown = read_episodes(dir.path(), &later);

    assert_eq!(full_ring, (1, Vec::new()));
    assert_eq!(honest, (4_000, Vec::new()));
    assert_eq!(repeated.0, 1);
    assert!(
        repeated.1[0].contains("line 2 is not an episode: its number 7 follows 7; 38 more"),
        "{repeated:?}"
    );
    assert_eq!(large.0, 0);
    assert!(
        large.1[0].contains("262145 events, above the 262144 that are written"),
        "{large:?}"
    );
    assert!(bomb.0 < 200, "{}", bomb.0);
    assert!(
        bomb.1[0].contains("unpack to more than") && bomb.1[0].contains(last),
        "{bomb:?}"
    );
    assert_eq!(unknown.0, 0);
    assert!(unknown.1[0].contains("it is of line 999"), "{unknown:?}");
}

/// A row takes eight bytes on disk and two hundred in memory.
#[test]
fn journal_of_too_many_rows_is_read_up_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path());
    let file = dir.path().join("open-000002.journal");
    let row = frame(1, 1, START.ns(), 5);
    fs::write(&file, row.repeat(8 * 65_536 + 2)).unwrap();

    let (rows, messages) = read(dir.path());

    assert_eq!(rows.len(), 65_536 + 8 * 65_536);
    assert!(
        messages[0].contains(
            "more than the 524288 rows that can wait for a segment; the rest is left out"
        ),
        "{messages:?}"
    );
}

/// `Read::take` under another name, because the trait is not imported elsewhere.
trait TakeBytes: std::io::Read + Sized {
    fn take_bytes(self, bytes: u64) -> std::io::Take<Self> {
        self.take(bytes)
    }
}

impl TakeBytes for std::io::Repeat {}
