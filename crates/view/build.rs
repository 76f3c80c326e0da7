//! Takes the built page into the program, where there is one.
//!
//! The page needs Node to be built, the program does not: without it
//! everything but `laggard report` to HTML works.

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the page is built to. The folder is in the repository, so that
/// building the page is noticed.
const BUILT: &str = "../../web/dist";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    if Path::new(BUILT).is_dir() {
        println!("cargo::rerun-if-changed={BUILT}");
    }
    let page = match fs::read_to_string(Path::new(BUILT).join("index.html")) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => String::new(),
        page => page?,
    };
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("page.html"), page)?;
    Ok(())
}
