//! Marks of cycles, against a C program that knows what it marked.
//!
//! Needs root, a kernel with BTF and a C compiler; without them it says that it is
//! skipped, and why.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::scripted::{Texts as _, attach_report as report, number};
use laggard_marks::layout;
use tempfile::TempDir;

/// Program with cycles of 1 ms that sleeps in the middle of each. Prints the number of cycles that
/// it marked while a reader was attached, and the offsets of the fields of a ring.
const PROGRAM: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include "laggard_marks.h"

static void sleep_until(struct timespec *due, long more)
{
    due->tv_nsec += more;
    if (due->tv_nsec >= 1000000000) {
        due->tv_nsec -= 1000000000;
        due->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, due, NULL);
}

int main(int count, char **arguments)
{
    struct timespec due, middle;
    int cycle, heard = 0;
    FILE *out = fopen(arguments[count - 1], "w");

    if (!out || laggard_marks_open() != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (cycle = 0; cycle < 300; cycle++) {
        int is_heard;

        sleep_until(&due, 5000000);
        is_heard = laggard_marks_ring->listening;
        laggard_begin(cycle);
        /* Not from when it was due: it may have come late. */
        clock_gettime(CLOCK_MONOTONIC, &middle);
        sleep_until(&middle, 1000000);
        laggard_end(cycle);
        heard += is_heard;
    }
    /* Lets laggard read the last marks. */
    sleep_until(&due, 400000000);
    fprintf(out, "%d %zu %zu %zu %zu %zu %zu %zu\n", heard, sizeof(struct laggard_marks),
            sizeof(struct laggard_mark), offsetof(struct laggard_marks, version),
            offsetof(struct laggard_marks, slots), offsetof(struct laggard_marks, listening),
            offsetof(struct laggard_marks, next), offsetof(struct laggard_marks, marks));
    return fclose(out);
}
"#;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../marks")
}

fn attach(deadline: &str, command: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["attach", "--json", "--episodes=off", deadline, "--"])
        .args(command)
        .output()
        .unwrap()
}

#[test]
fn marked_cycle_is_reported_from_wake_to_end() {
    let dir = TempDir::new().unwrap();
    let [source, program, result] =
        ["cycles.c", "cycles", "result"].map(|name| dir.path().join(name));
    fs::write(&source, PROGRAM).unwrap();
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(sources())
        .arg("-o")
        .args([&program, &source])
        .output();
    let Ok(compiled) = compiled else {
        return println!("skipped: there is no C compiler");
    };
    let stderr = compiled.errors();
    assert!(compiled.status.success(), "{stderr}");

    let command = [&program, &result].map(|path| path.to_str().unwrap());
    let output = attach("--deadline=500us", &command);

    let Some(report) = report(&output) else {
        return;
    };
    let result_text = fs::read_to_string(&result).unwrap();
    let result_text: Vec<usize> = result_text
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let layout = [
        layout::bytes(layout::SLOTS),
        layout::MARK_BYTES,
        layout::VERSION_AT,
        layout::SLOTS_AT,
        layout::LISTENING_AT,
        layout::NEXT_AT,
        layout::RING_AT,
    ];
    assert_eq!(
        result_text[1..],
        layout,
        "the header is another than the crate's"
    );
    let heard = result_text[0] as u64;
    assert!(heard > 0, "{report:#}");
    let row = &report["cycles"][0];
    assert_eq!(row["name"], "cycles", "{report:#}");
    // Perhaps only the end of the first cycle was recorded.
    let (cycles, without_wake) = (number(row, "cycles"), number(row, "without_wake"));
    assert!((heard..=heard + 1).contains(&cycles), "{heard}: {row:#}");
    assert!(
        number(row, "unpaired") == 0 && number(row, "cut") <= 2 && number(row, "skipped") == 0,
        "{row:#}"
    );
    assert_eq!(number(&report["lost"], "marks"), 0, "{report:#}");
    // It sleeps for 1 ms in the middle.
    assert!(number(&row["takes"], "median_ns") >= 900_000, "{row:#}");
    assert!(
        number(&row["response"], "median_ns") >= 1_000_000,
        "{row:#}"
    );
    assert_eq!(number(row, "misses"), cycles - without_wake, "{row:#}");
    // Cycles with an observed wakeup.
    assert!(2 * without_wake < cycles, "{row:#}");
}

#[test]
fn python_marks_cycles_too() {
    let module = sources();
    let script = format!(
        "import sys, time\nsys.path.insert(0, {:?})\nimport laggard_marks\n\
         marks = laggard_marks.Marks()\n\
         for number in range(100):\n    time.sleep(0.005)\n    marks.begin(number)\n    \
         time.sleep(0.001)\n    marks.end(number)\ntime.sleep(0.4)\n",
        module.display().to_string()
    );
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: there is no python3");
    }

    let output = attach("--deadline=1s", &["python3", "-B", "-c", &script]);

    let Some(report) = report(&output) else {
        return;
    };
    let row = &report["cycles"][0];
    assert!(number(row, "cycles") > 0, "{report:#}");
    assert!(
        number(row, "unpaired") == 0 && number(row, "cut") <= 2 && number(row, "skipped") == 0,
        "{row:#}"
    );
    assert!(number(&row["takes"], "median_ns") >= 1_000_000, "{row:#}");
}
