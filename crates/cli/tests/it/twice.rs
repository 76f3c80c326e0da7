//! A recording that is given twice would look like twice the evidence.

use std::fs;

use tempfile::TempDir;

use crate::scripted::{LINE, Texts as _, must_record, run};

#[test]
fn a_recording_that_is_given_twice_or_as_a_copy_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let script = format!("period_ns = 1000000\n{LINE}");
    for name in ["r", "other"] {
        must_record(&path(name), &script, &["--duration=2s"]);
    }
    for folder in ["", "samples"] {
        let (from, to) = (path("r").join(folder), path("copy").join(folder));
        fs::create_dir(&to).unwrap();
        let files = fs::read_dir(from).unwrap().map(|file| file.unwrap());
        for file in files.filter(|file| file.path().is_file()) {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    for command in [
        "show",
        "qos --app modem",
        "forecast",
        "report --markdown",
        "report --figure distribution -o out.svg",
        "report --figure mttf -o out.svg",
    ] {
        for (two, is_refused) in [("copy", true), ("../r", true), ("other", false)] {
            let (name, options) = command.split_once(' ').unwrap_or((command, ""));
            let second = match two {
                "../r" => format!("{}/r", dir.path().display()),
                two => two.to_owned(),
            };
            let output = run(&dir, format!("{name} r {second} {options}").trim());
            let stderr = output.errors();

            assert_eq!(
                stderr.contains("are the same recording"),
                is_refused,
                "{command} with {two}: {stderr}"
            );
            assert_eq!(
                output.status.code() == Some(2),
                is_refused,
                "{command}: {stderr}"
            );
        }
    }
}
