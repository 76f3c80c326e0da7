//! Compresses the page of the report, which is in the program.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const PAGE: &str = "../../web/dist/index.html";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={PAGE}");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let file = File::create(Path::new(&out).join("page.zlib"))?;
    let mut encoder = ZlibEncoder::new(file, Compression::best());
    encoder.write_all(&std::fs::read(PAGE)?)?;
    encoder.finish()?;
    Ok(())
}
