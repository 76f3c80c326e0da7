//! The reader against any bytes: an error or a shortfall, never a panic.
//!
//! The first byte chooses a file of a good recording, the second whether the
//! rest replaces it or is changes to it. Checksums are made right, because a
//! reader that only ever sees wrong ones is not tested behind them.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use laggard_model::{Activation, Batch, LineId, Nanos, STAGES, State};
use laggard_record::{Recorder, Recording, Columns};
use libfuzzer_sys::fuzz_target;

const FILES: [&str; 6] = [
    "manifest.json",
    "manifest-start.json",
    "samples/000001.parquet",
    "open-000003.journal",
    "histograms-000000.parquet",
    "largest-000000.parquet",
];
const MANIFEST: &str = include_str!("../manifest.json");

static GOOD: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    // The harness ends the process at any panic; the reader catches those of
    // the Parquet decoder. Panics that it does not catch still end it.
    std::panic::set_hook(Box::new(|_| {}));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let recording = dir.path().join("good");
    let manifest = serde_json::from_str(MANIFEST).expect("a manifest");
    let mut recorder = Recorder::create(&recording, manifest).expect("a new folder");
    let mut batch = Batch::default();
    for seq in 0..50 {
        let mut steps = [None; STAGES.len()];
        steps[usize::from(seq % 9 == 0)] = Some(Nanos::from_us(seq));
        batch.push(&Activation {
            line: LineId(0),
            seq,
            expiry: Nanos::from_ms(seq),
            missed: seq % 7 == 0,
            steps,
        });
    }
    recorder.append(&batch).expect("room");
    recorder.finish(State::Complete).expect("room");
    dir
});

fuzz_target!(|data: &[u8]| {
    let [choice, how, rest @ ..] = data else {
        return;
    };
    let good = GOOD.path().join("good");
    let dir = tempfile::tempdir().expect("a temporary folder");
    for folder in ["", "samples"] {
        let to = dir.path().join(folder);
        fs::create_dir_all(&to).expect("room");
        let files = fs::read_dir(good.join(folder)).expect("made above").flatten();
        for file in files.filter(|file| file.path().is_file()) {
            fs::copy(file.path(), to.join(file.file_name())).expect("room");
        }
    }
    let file = dir.path().join(FILES[usize::from(*choice) % FILES.len()]);
    let mut content = match how % 2 {
        0 => rest.to_vec(),
        _ => changed(fs::read(&file).unwrap_or_default(), rest),
    };
    if file.extension().is_some_and(|kind| kind == "parquet") {
        make_checksum_right(&mut content);
    }
    fs::write(file, content).expect("room");
    read(dir.path());
});

/// Each three bytes are a place and what to flip there.
fn changed(mut content: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(byte) = content.get_mut(place) {
            *byte ^= change[2];
        }
    }
    content
}

fn read(dir: &Path) {
    let Ok(recording) = Recording::open(dir) else {
        return;
    };
    let lines = recording.manifest().lines.len();
    recording.scan(Columns::all(), |batch| {
        for row in batch.iter() {
            assert!(usize::from(row.line.0) < lines);
            std::hint::black_box(row.latency());
        }
    });
    std::hint::black_box(recording.summaries());
}

fn make_checksum_right(content: &mut [u8]) {
    let key = b"laggard.crc32";
    let Some(at) = content.windows(key.len()).rposition(|window| window == key) else {
        return;
    };
    let digits = at + key.len() + 2..at + key.len() + 10;
    if digits.end > content.len() {
        return;
    }
    content[digits.clone()].fill(b'0');
    let crc = format!("{:08x}", crc32fast::hash(content));
    content[digits].copy_from_slice(crc.as_bytes());
}
