//! Compiling BPF programs in a build script.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

/// The oldest clang that is known to build the programs.
const CLANG_VERSION: &str = "19";

/// Where all sources are: what is built tells nothing of who built it, and is the
/// same wherever that was.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Headers that the programs of all crates share.
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Makes an object of each `.bpf.c` file of `folder`, for the macro
/// `sources` of the module `object`. Returns where they are.
///
/// # Errors
/// When there is no clang, or a program does not compile.
pub fn compile(folder: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={folder}");
    println!("cargo::rerun-if-changed={HEADERS}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = clang()?;
    let system = system_headers()?;
    let unrooted = format!(
        "-ffile-prefix-map={}/=",
        Path::new(ROOT).canonicalize()?.display()
    );
    let mut objects = Vec::new();
    for entry in Path::new(folder).read_dir()? {
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
        objects.push(object);
    }
    objects.sort();
    Ok(objects)
}

/// Debian keeps `asm/` of `linux/bpf.h` in a folder of the architecture, where
/// a compiler for BPF does not look.
fn system_headers() -> Result<String, env::VarError> {
    Ok(format!(
        "/usr/include/{}-linux-gnu",
        env::var("CARGO_CFG_TARGET_ARCH")?
    ))
}

/// `$CLANG`, or the versioned clang, or a plain one.
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
