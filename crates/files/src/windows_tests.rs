//! Files named by a user, on Windows.

use std::fs::{self, File};
use std::os::windows::fs::OpenOptionsExt as _;

#[test]
fn file_that_another_program_has_open_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    fs::write(&page, "before").unwrap();
    let open = File::options().read(true).share_mode(1).open(&page);
    let open = open.unwrap();

    let refused = crate::write(&page, "report", b"after").unwrap_err();
    let message = format!("{refused:#}");
    drop(open);
    let before = fs::read_to_string(&page).unwrap();
    crate::write(&page, "report", b"after").unwrap();

    assert!(message.contains("close what has it open"), "{message}");
    assert_eq!(before, "before");
    assert_eq!(fs::read_to_string(&page).unwrap(), "after");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn part_of_a_killed_program_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    fs::write(dir.path().join("page.html.part"), "half").unwrap();

    crate::write(&page, "report", b"whole").unwrap();

    assert_eq!(fs::read_to_string(&page).unwrap(), "whole");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}
