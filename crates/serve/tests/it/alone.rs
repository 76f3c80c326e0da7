//! Tests of the program `laggard-serve`.

use std::process::Command;

fn ended(args: &[&str]) -> (Option<i32>, String, String) {
    let program = env!("CARGO_BIN_EXE_laggard-serve");
    let output = Command::new(program).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn help_fits_80_columns_and_names_this_program() {
    let (code, help, _) = ended(&["--help"]);

    assert_eq!(code, Some(0));
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(
        help.contains("laggard-serve --store /var/lib/laggard"),
        "{help}"
    );
    assert!(help.contains("--listen <ADDRESS>"), "{help}");
}

#[test]
fn wrong_arguments_are_reported_with_the_exit_code_of_an_error() {
    let (code, _, message) = ended(&["--listen=0.0.0.0:0"]);

    assert_eq!(code, Some(2), "{message}");
    assert!(message.starts_with("laggard: "), "{message}");
    assert!(message.contains("--expose"), "{message}");
}

#[test]
fn store_in_a_bucket_is_refused_with_a_remedy() {
    let (code, _, message) = ended(&["--store", "s3://latency/fleet", "--listen=127.0.0.1:0"]);

    assert_eq!(code, Some(2), "{message}");
    assert!(
        message.contains("`laggard-ship DIR s3://latency/fleet --follow`"),
        "{message}"
    );
}
