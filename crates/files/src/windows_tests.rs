//! Files that a user named, on Windows.

use std::fs::{self, File};
use std::os::windows::fs::OpenOptionsExt as _;

#[test]
fn a_file_that_somebody_has_open_stays_whole_and_no_half_one_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    fs::write(&page, "before").unwrap();
    let open = File::options().read(true).share_mode(1).open(&page);
    let open = open.unwrap();

    let refused = crate::write(&page, "report", b"after").unwrap_err();
    let told = format!("{refused:#}");
    drop(open);
    let before = fs::read_to_string(&page).unwrap();
    crate::write(&page, "report", b"after").unwrap();

    assert!(told.contains("close what has it open"), "{told}");
    assert_eq!(before, "before");
    assert_eq!(fs::read_to_string(&page).unwrap(), "after");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn what_a_killed_program_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    fs::write(dir.path().join("page.html.part"), "half").unwrap();

    crate::write(&page, "report", b"whole").unwrap();

    assert_eq!(fs::read_to_string(&page).unwrap(), "whole");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}
