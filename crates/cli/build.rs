//! Compresses the JSON schemas of `docs/schemas`, which the program contains. Definitions that
//! several schemas share are stored once.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const SCHEMAS: &str = "../../docs/schemas";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SCHEMAS}");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    let mut files: Vec<_> = fs::read_dir(SCHEMAS)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut parts = String::new();
    let mut starts = HashMap::new();
    let mut table = String::new();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_suffix(".schema.json")) else {
            continue;
        };
        let text = fs::read_to_string(&file)?;
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for part in definitions(&text) {
            let start = *starts.entry(part.to_owned()).or_insert_with(|| {
                let start = parts.len();
                parts.push_str(part);
                start
            });
            match ranges.last_mut() {
                Some((_, end)) if *end == start => *end += part.len(),
                _ => ranges.push((start, start + part.len())),
            }
        }
        let _ = writeln!(table, "({name:?}, &{ranges:?}),");
    }
    let compressed = File::create(out.join("schemas.zlib"))?;
    let mut encoder = ZlibEncoder::new(compressed, Compression::best());
    encoder.write_all(parts.as_bytes())?;
    encoder.finish()?;
    fs::write(out.join("schemas.rs"), format!("&[\n{table}]\n"))
}

/// Splits a schema at the start of each definition or property, which has four spaces.
fn definitions(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find("\n    \"").map_or(rest.len(), |at| at + 1);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}
