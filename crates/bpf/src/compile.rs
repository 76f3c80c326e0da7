//! Compiler of BPF programs for build scripts.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use libbpf_cargo::SkeletonBuilder;

/// Oldest clang that is known to build the programs.
const CLANG_VERSION: &str = "19";

/// Root of all sources. It is removed from paths, so that a build contains no information about
/// its machine and is reproducible.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Headers that the programs of all crates share.
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Compiles each `.bpf.c` file of `directory` to an object, and compresses it for the macro
/// `sources` of the module `object`. Returns the paths of the uncompressed objects.
///
/// # Errors
///
/// Returns an error if clang is missing, if a program does not compile, or if an object cannot be
/// written.
pub fn compile(directory: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={directory}");
    println!("cargo::rerun-if-changed={HEADERS}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = clang()?;
    let system = system_headers()?;
    let unrooted = format!(
        "-ffile-prefix-map={}/=",
        Path::new(ROOT).canonicalize()?.display()
    );
    let mut objects = Vec::new();
    for entry in Path::new(directory).read_dir()? {
        let source = entry?.path();
        let Some(name) = source
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".bpf.c"))
        else {
            continue;
        };
        let object = out.join(format!("{name}.bpf.o"));
        SkeletonBuilder::new()
            .source(&source)
            .obj(&object)
            .clang(&clang)
            .clang_args([
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-unused-parameter",
                &unrooted,
                "-I",
                HEADERS,
                "-idirafter",
                &system,
            ])
            .build()?;
        let compressed = File::create(object.with_extension("zlib"))?;
        let mut encoder = ZlibEncoder::new(compressed, Compression::best());
        encoder.write_all(&fs::read(&object)?)?;
        encoder.finish()?;
        objects.push(object);
    }
    objects.sort();
    Ok(objects)
}

/// Returns Debian's directory of `asm/`, which `linux/bpf.h` needs and which a compiler for BPF
/// does not search: the target's headers on a machine of that architecture, or the headers of its
/// cross compiler (`linux-libc-dev-arm64-cross`).
fn system_headers() -> Result<String, String> {
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").map_err(|err| err.to_string())?;
    let directories = [
        format!("/usr/include/{architecture}-linux-gnu"),
        format!("/usr/{architecture}-linux-gnu/include"),
    ];
    let include = directories
        .iter()
        .find(|directory| Path::new(directory).join("asm/types.h").exists());
    include.cloned().ok_or_else(|| {
        format!(
            "no kernel headers for {architecture}: neither {} has asm/types.h; install \
             linux-libc-dev, or the cross compiler of the target",
            directories.join(" nor ")
        )
    })
}

/// Returns `$CLANG`, or the versioned clang, or a plain one.
fn clang() -> Result<PathBuf, String> {
    if let Some(clang) = env::var_os("CLANG") {
        return Ok(clang.into());
    }
    for name in [format!("clang-{CLANG_VERSION}"), "clang".into()] {
        if Command::new(&name).arg("--version").output().is_ok() {
            return Ok(name.into());
        }
    }
    Err(format!(
        "no clang to build the BPF programs; install clang-{CLANG_VERSION} or set CLANG"
    ))
}
