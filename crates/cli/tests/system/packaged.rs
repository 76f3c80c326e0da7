//! Tests of the Debian package of `make deb`: its content, and that the content runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::scripted::{Printed as _, Texts as _};
use tempfile::TempDir;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the reason why no package can be made here.
fn lacks(programs: &Path) -> Option<String> {
    if !programs.join("laggard-serve").exists() {
        return Some("laggard-serve is not built (cargo build -p laggard-serve)".into());
    }
    let tools = ["dpkg-deb", "dpkg-shlibdeps", "strip"];
    let missing = tools.into_iter().find(|tool| {
        let version = Command::new(tool).arg("--version").output();
        !version.is_ok_and(|output| output.status.success())
    });
    missing.map(|tool| format!("{tool} is not installed (Debian: apt install binutils dpkg-dev)"))
}

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let wrong = output.errors();
    assert!(output.status.success(), "{command:?}: {wrong}");
    output
}

fn text(command: &mut Command) -> String {
    String::from_utf8(output(command).stdout).unwrap()
}

#[test]
fn the_package_has_the_program_its_unit_and_its_manual_and_belongs_to_root() {
    let program = assert_cmd::cargo::cargo_bin("laggard");
    let programs = program.parent().unwrap();
    if let Some(why) = lacks(programs) {
        println!("skipped: {why}");
        return;
    }
    let dir = TempDir::new().unwrap();

    let message = text(
        Command::new(project().join("scripts/deb"))
            .arg(programs)
            .arg(dir.path())
            .env("COMPRESS", "gzip")
            .env("SOURCE_DATE_EPOCH", "1700000000"),
    );

    let package = PathBuf::from(message.trim());
    let field = |name: &str| {
        let mut command = Command::new("dpkg-deb");
        text(command.arg("--field").arg(&package).arg(name))
    };
    assert_eq!(field("Version").trim(), env!("CARGO_PKG_VERSION"));
    let needs = field("Depends");
    assert!(
        needs.contains("libc6 (>= ") && needs.contains("libelf1"),
        "{needs}"
    );
    let list = text(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for line in list.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1], "root/root", "{line}");
        // Permissions must not depend on the umask of the builder.
        assert!(
            words[0].ends_with("r-x") || words[0].ends_with("r--"),
            "{line}"
        );
        let path = words[5];
        assert!(path == "./" || path.starts_with("./usr/"), "{line}");
    }
    let root = dir.path().join("root");
    output(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(&package)
            .arg(&root),
    );
    for name in ["laggard", "laggard-serve"] {
        let installed = root.join("usr/bin").join(name);
        let mode = fs::metadata(&installed).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{name}");
        let version = text(Command::new(&installed).arg("--version"));
        assert_eq!(
            version,
            text(Command::new(programs.join(name)).arg("--version"))
        );
    }
    let unit = "usr/lib/systemd/system/laggard.service";
    assert_eq!(
        fs::read_to_string(root.join(unit)).unwrap(),
        fs::read_to_string(project().join("packaging/systemd/laggard.service")).unwrap()
    );
    // The package contains the program and the manual that the unit names.
    let unit = fs::read_to_string(root.join(unit)).unwrap();
    unit.assert_has("ExecStart=/usr/bin/laggard-serve ");
    for file in [
        "usr/share/man/man1/laggard.1.gz",
        "usr/share/man/man1/laggard-serve.1.gz",
        "usr/share/bash-completion/completions/laggard",
        "usr/share/zsh/vendor-completions/_laggard",
        "usr/share/fish/vendor_completions.d/laggard.fish",
        "usr/share/doc/laggard/changelog.gz",
        "usr/share/doc/laggard/copyright",
        "usr/share/doc/laggard/third-party.txt.gz",
        "usr/share/doc/laggard/examples/laggard.rules.yml",
        "usr/share/doc/laggard/examples/laggard.json",
    ] {
        let bytes = fs::metadata(root.join(file)).unwrap().len();
        assert!(bytes > 100, "{file} has {bytes} bytes");
    }
}

#[test]
fn rpm_package_has_the_programs_their_manual_and_completions() {
    let program = assert_cmd::cargo::cargo_bin("laggard");
    let programs = program.parent().unwrap();
    let has_rpm = Command::new("rpmbuild").arg("--version").output().is_ok();
    if !has_rpm || !programs.join("laggard-serve").exists() {
        println!(
            "skipped: rpmbuild is not installed (Debian: apt install rpm), or laggard-serve is not built"
        );
        return;
    }
    let dir = TempDir::new().unwrap();

    let path = text(
        Command::new(project().join("scripts/rpm"))
            .arg(programs)
            .arg(dir.path())
            .env("PAYLOAD", "w1.gzdio"),
    );

    let query = |what: &str| text(Command::new("rpm").args(["-qp", what]).arg(path.trim()));
    let files = query("--list");
    for file in [
        "/usr/bin/laggard",
        "/usr/bin/laggard-serve",
        "/usr/lib/systemd/system/laggard.service",
        "/usr/share/man/man1/laggard.1.gz",
        "/usr/share/bash-completion/completions/laggard",
        "/usr/share/zsh/site-functions/_laggard",
        "/usr/share/fish/vendor_completions.d/laggard.fish",
        "/usr/share/doc/laggard/third-party.txt",
    ] {
        assert!(files.lines().any(|line| line == file), "{file}: {files}");
    }
    let info = query("--info");
    info.assert_has(env!("CARGO_PKG_VERSION"));
    let needs = query("--requires");
    needs.assert_has("libelf.so.1");
}
