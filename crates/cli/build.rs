//! Compresses the JSON schemas of `docs/schemas`, which the program contains.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const SCHEMAS: &str = "../../docs/schemas";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SCHEMAS}");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    let mut files: Vec<_> = std::fs::read_dir(SCHEMAS)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut table = String::new();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_suffix(".schema.json")) else {
            continue;
        };
        let mut encoder = ZlibEncoder::new(
            File::create(out.join(format!("{name}.zlib")))?,
            Compression::best(),
        );
        encoder.write_all(&std::fs::read(&file)?)?;
        encoder.finish()?;
        let _ = writeln!(
            table,
            r#"({name:?}, include_bytes!(concat!(env!("OUT_DIR"), "/{name}.zlib"))),"#
        );
    }
    std::fs::write(out.join("schemas.rs"), format!("&[\n{table}]\n"))
}
