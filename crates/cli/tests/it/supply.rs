//! The dependencies of the program are listed, and match the policy.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scripted::{Printed as _, Texts as _};
use serde_json::Value;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the output of `scripts/supply`, and true if it found no fault; `None` without Python.
fn supply(script: &Path, words: &[&str]) -> Option<(bool, String)> {
    let ran = Command::new("python3").arg(script).args(words).output();
    let Ok(output) = ran else {
        println!("skipped: no python3, which scripts/supply needs");
        return None;
    };
    let stderr = [output.stdout, output.stderr].concat();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Some((output.status.success(), stderr))
}

/// The tag of a release is compared with the program's version.
#[test]
fn python_package_and_changelog_have_the_version_of_the_program() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let version = env!("CARGO_PKG_VERSION");

    let package = read("marks/pyproject.toml");
    assert!(package.contains(&format!("\nversion = \"{version}\"\n")));
    assert!(read("CHANGELOG.md").contains(&format!("\n## {version} (")));
}

#[test]
fn page_has_the_listed_packages_and_licences() {
    let script = root().join("scripts/supply");
    let Some((is_content, message)) = supply(&script, &["check"]) else {
        return;
    };

    assert!(is_content, "{message}");
}

#[test]
fn unlisted_licence_and_second_version_of_a_crate_are_refused() {
    let deny = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.arg("deny").args(words).current_dir(root());
        command.output().unwrap()
    };
    if !deny(&["--version"]).status.success() {
        println!("skipped: cargo-deny is not installed");
        return;
    }
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("deny.toml");
    let policy = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    for (without, check, fault) in [
        ("", "licenses", None),
        ("", "bans", None),
        (
            "\"CDDL-1.0\", ",
            "licenses",
            Some("license is not explicitly allowed"),
        ),
        (
            "\"syn\", ",
            "bans",
            Some("duplicate entries for crate 'syn'"),
        ),
    ] {
        std::fs::write(&config, policy.replacen(without, "", 1)).unwrap();

        let words = [
            "--offline",
            "--locked",
            "--config",
            config.to_str().unwrap(),
        ];
        let output = deny(&[&words[..], &["check", check]].concat());

        let message = output.errors();
        match fault {
            Some(fault) => assert!(message.contains(fault), "{message}"),
            None => assert!(output.status.success(), "{message}"),
        }
    }
}

#[test]
fn checks_without_their_tool_are_skipped() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = TempDir::new().unwrap();
    let cargo = dir.path().join("cargo");
    std::fs::write(&cargo, "#!/bin/sh\nexit 101\n").unwrap();
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(root().join("scripts/dependencies"))
        .env("PATH", format!("{}:{}", dir.path().display(), env!("PATH")))
        .output()
        .unwrap();

    let stdout = output.text();
    assert!(output.status.success(), "{output:?}");
    for tool in ["cargo-deny", "cargo-shear"] {
        stdout.assert_has(&format!("{tool} is not installed"));
    }
}

#[test]
fn every_part_is_in_the_notices_and_in_the_bill_of_materials() {
    let dir = TempDir::new().unwrap();
    let script = root().join("scripts/supply");
    let has_libelf = Path::new("/usr/share/doc/libelf-dev/copyright").exists();
    let links: &[&[&str]] = if has_libelf {
        &[&[], &["static"]]
    } else {
        &[&[]]
    };
    for link in links {
        let [notices, bill] = ["notices", "bill"].map(|name| dir.path().join(name));
        for (what, file) in [("notices", &notices), ("sbom", &bill)] {
            let words = [&[what, file.to_str().unwrap()], *link].concat();
            let Some((is_content, message)) = supply(&script, &words) else {
                return;
            };
            assert!(is_content, "{message}");
        }

        let notices = std::fs::read_to_string(notices).unwrap();
        let bill: Value = serde_json::from_slice(&std::fs::read(bill).unwrap()).unwrap();

        let parts = bill["components"].as_array().unwrap();
        assert!(parts.len() > 100);
        for part in parts {
            let (name, version) = (part["name"].as_str(), part["version"].as_str());
            let head = format!("\n{} {}: ", name.unwrap(), version.unwrap());
            assert!(notices.contains(&head), "{head}");
        }
        // Whose terms ask that they be passed on.
        assert!(notices.contains("COMMON DEVELOPMENT AND DISTRIBUTION LICENSE"));
        assert!(notices.contains("Bitstream Vera is a trademark"));
        // Only a static program contains the C library.
        assert_eq!(notices.contains("\nelfutils "), !link.is_empty());
        // It does not contain `laggard serve`.
        assert_eq!(notices.contains("\nrustls "), link.is_empty());
    }
}

#[test]
fn old_cargo_is_refused_with_both_versions_and_the_remedy() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = TempDir::new().unwrap();
    let cargo = dir.path().join("cargo");
    let packages = |version: &str| {
        std::fs::write(&cargo, format!("#!/bin/sh\necho 'cargo {version} (0 0)'\n")).unwrap();
        std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", dir.path().display(), env!("PATH"));
        // No purpose: no package is installed.
        let output = Command::new(root().join("scripts/packages"))
            .env("PATH", path)
            .output()
            .unwrap();
        let message = output.errors();
        (output.status.code(), message)
    };
    let needed = env!("CARGO_PKG_RUST_VERSION");

    for old in ["0.66.0", "1.9.0", "1.85.1"] {
        let (code, message) = packages(old);

        assert_eq!(code, Some(1), "{message}");
        let versions = format!("is version {old}, and laggard needs {needed} or later; ");
        message.assert_has(&versions);
        message.assert_has("install Rust with rustup");
    }
    for enough in [needed, "1.95.0", "1.100.0", "2.0.0"] {
        assert_eq!(packages(enough), (Some(0), String::new()), "{enough}");
    }
}

/// The one crate that is published.
#[test]
fn marks_are_packaged_without_a_warning() {
    let dir = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["package", "--package", "laggard-marks", "--no-verify"])
        .args(["--allow-dirty", "--offline", "--target-dir"])
        .arg(dir.path())
        .current_dir(root())
        .output()
        .unwrap();

    let message = output.errors();
    assert!(output.status.success(), "{message}");
    message.assert_lacks("warning");
    message.assert_has("Packaged ");
}
