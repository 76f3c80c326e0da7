//! The last lines of `make test`: what could not run is not taken for passed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const LOG: &str = "    Finished `test` profile in 2.00s
     Running unittests src/lib.rs (target/debug/deps/laggard_measure-0123456789abcdef)

running 3 tests
test own::pages ... ok
test host::is_read ... ok
test longest ... ignored, takes an hour

successes:

---- own::pages stdout ----
skipped: this is not the first PID namespace

---- host::is_read stdout ----
it was read


successes:
    host::is_read
    own::pages

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/limited.rs (target/debug/deps/limited-fedcba9876543210)

running 2 tests
test a_quota ... FAILED
test a_limit ... ok

successes:

successes:
    a_limit

failures:

---- a_quota stdout ----
thread 'a_quota' panicked

failures:
    a_quota

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

ok 1 - the verdict is drawn # SKIP there is no chromium; name one in CHROMIUM
ok 2 - a replay is that of Rust
# pass 1
# fail 0
";

/// What is made of [`LOG`] where `LAGGARD_TESTS` is this.
fn summed_up(required: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tested.awk");
    let mut awk = Command::new("awk")
        .arg("-f")
        .arg(script)
        .env("LAGGARD_TESTS", required)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = awk.stdin.take().unwrap();
    input.write_all(LOG.as_bytes()).unwrap();
    drop(input);
    awk.wait_with_output().unwrap()
}

#[test]
fn the_last_lines_say_what_could_not_run_and_why() {
    let output = summed_up("");

    let said = String::from_utf8(output.stdout).unwrap();
    let (log, last) = said.split_at(said.rfind("\n4 tests passed").unwrap());
    assert_eq!(
        last,
        "\n4 tests passed, 1 failed.\n\
         Run only when asked for: 1\n  \
         laggard_measure: longest: takes an hour\n\
         Could not run here, or not all of it, and did not fail: 2\n  \
         laggard_measure: own::pages: this is not the first PID namespace\n  \
         page: the verdict is drawn: there is no chromium; name one in CHROMIUM\n"
    );
    assert!(output.status.success());
    // What failed is told at its place, and what passed only by its name.
    assert!(log.contains("thread 'a_quota' panicked"), "{log}");
    assert!(log.contains("test host::is_read ... ok"), "{log}");
    assert!(!log.contains("it was read"), "{log}");
}

#[test]
fn where_all_tests_are_required_one_that_could_not_run_is_a_failure() {
    let output = summed_up("required");

    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("own::pages"), "{said}");
}
