//! Compiles the BPF programs; each `.bpf.c` becomes an object of its own.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

/// The oldest clang that is known to build the programs.
const CLANG_VERSION: &str = "19";

/// Where the probes' programs keep the kernel's types.
const KERNEL_TYPES: &str = "../measure/src/linux/bpf";

/// Where the programs are. All names must differ: their objects go to one folder.
const SOURCES: [&str; 2] = ["src/disturb/kernel/bpf", "src/task/kernel/bpf"];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={KERNEL_TYPES}/kernel.h");
    println!("cargo::rerun-if-changed={KERNEL_TYPES}/workqueue.h");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = clang()?;
    let headers = kernel_headers()?;
    let mut files = Vec::new();
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={folder}");
        files.extend(Path::new(folder).read_dir()?);
    }
    for entry in files {
        let source = entry?.path();
        let Some(name) = source
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".bpf.c"))
        else {
            continue;
        };
        SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{name}.bpf.o")))
            .clang(&clang)
            .clang_args([
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-unused-parameter",
                "-I",
                KERNEL_TYPES,
                "-idirafter",
                &headers,
            ])
            .build()?;
    }
    Ok(())
}

/// Debian keeps `asm/` of `linux/bpf.h` in a folder of the architecture, where
/// a compiler for BPF does not look.
fn kernel_headers() -> Result<String, env::VarError> {
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
