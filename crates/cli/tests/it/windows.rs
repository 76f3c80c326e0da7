//! The program for Windows says of recordings what the one for Linux says: byte by
//! byte, and with its exit codes. It runs under Wine: `make test-windows`.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use laggard_model::{Keep, TimerApi};
use tempfile::TempDir;

use crate::whole;

use crate::scripted::{Printed as _, Texts as _, every, manifest, must_record};

/// Variable with the path of the program, set by `make test-windows`.
const PROGRAM: &str = "LAGGARD_WINDOWS";

/// A limit against hanging, not an expectation.
const DEADLINE: Duration = Duration::from_secs(300);

/// Returns the command line of the program for Windows. If it is missing, prints the reason.
fn windows() -> Option<PathBuf> {
    let program = std::env::var_os(PROGRAM);
    if program.is_none() {
        println!(
            "skipped: the program for Windows, which `make test-windows` builds and runs under Wine"
        );
    }
    program.map(PathBuf::from)
}

/// Runs a program in `dir` with the same arguments.
fn ask(program: &OsStr, before: &[&OsStr], dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(before).args(words).current_dir(dir);
    // Widths and times as wherever it runs.
    command.env("COLUMNS", "80").env("TZ", "UTC");
    command.env_remove("TERM").output().unwrap()
}

fn on_linux(dir: &Path, words: &[&str]) -> Output {
    ask(env!("CARGO_BIN_EXE_laggard").as_ref(), &[], dir, words)
}

fn on_windows(program: &Path, dir: &Path, words: &[&str]) -> Output {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/windows");
    let before = [OsStr::new("run"), program.as_os_str()];
    ask(run.as_os_str(), &before, dir, words)
}

/// Two recordings of four rounds each, and one with late wakeups that somebody
/// caused.
fn recordings() -> TempDir {
    let dir = TempDir::new().unwrap();
    for (letter, one_in) in [("a", 2_000), ("b", 250)] {
        let script = every(one_in);
        for number in 1..=4 {
            let name = dir.path().join(format!("{letter}{number}"));
            must_record(&name, &script, &["--duration=20s", "--no-dither"]);
        }
    }
    whole::record_late(&dir.path().join("late"), Keep::All, false);
    fs::write(dir.path().join("file"), "no recording").unwrap();
    // Windows editors write these line ends.
    let lines = [
        "service = \"fifo:90\"",
        "[[task]]",
        "name = \"mixer\"",
        "period = \"5ms\"",
        "compute = \"1ms\"",
        "",
    ];
    fs::write(dir.path().join("tasks.toml"), lines.join("\r\n")).unwrap();
    let lines = [
        "[[require]]",
        "service = \"fifo:90\"",
        "at_most = \"1ms\"",
        "share = 1e-2",
        "longest = \"20ms\"",
        "",
    ];
    fs::write(dir.path().join("limits.toml"), lines.join("\r\n")).unwrap();
    dir
}

/// Commands for both programs, and the written file; `None` for standard output.
const ASKED: [(&str, Option<&str>); 29] = [
    ("show a1", None),
    ("show a1 --all", None),
    ("show a1 b1", None),
    ("show a1 --json", None),
    ("show a1 --stages", None),
    ("show a1 --intervals", None),
    ("show late --all", None),
    ("why late", None),
    ("why late --all", None),
    ("why late --json", None),
    ("why late --episode 1", None),
    ("why late --bug 1 --redact", None),
    ("why late --flame out.svg", Some("out.svg")),
    ("why late --perfetto out.pftrace", Some("out.pftrace")),
    ("qos b1 --app modem", None),
    ("qos b1 --app modem --json", None),
    ("qos --list", None),
    ("forecast b1", None),
    ("forecast b1 --json", None),
    ("sched b1 --tasks tasks.toml", None),
    ("check b1 --require limits.toml", None),
    ("compare a1 a2 a3 a4 --with b1 b2 b3 b4", None),
    ("compare --over a1 a2 b1 b2 --at 1ms", None),
    ("export a1 --format csv", None),
    ("export a1 --format openmetrics", None),
    (
        "report b1 --figure distribution -o out.svg",
        Some("out.svg"),
    ),
    ("report b1 --markdown", None),
    ("report late -o out.html", Some("out.html")),
    ("report late --redact --markdown", None),
];

/// Rounds numbers with more than 12 digits: the mathematical functions of two systems differ in the
/// last of 17 digits.
fn rounded(text: &str) -> String {
    let is_of_number = |part: char| part.is_ascii_digit() || "+-.e".contains(part);
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|first: char| first.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|part| !is_of_number(part)).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        out.push_str(before);
        match number.parse::<f64>() {
            Ok(value) if number.contains('.') && number.len() > 13 => {
                out.push_str(&format!("{value:.11e}"));
            }
            _ => out.push_str(number),
        }
        rest = after;
    }
    out + rest
}

/// Says what is first different.
fn difference(linux: &[u8], windows: &[u8]) -> Option<String> {
    if linux == windows {
        return None;
    }
    let texts = [linux, windows].map(|bytes| rounded(&String::from_utf8_lossy(bytes)));
    let [of_linux, of_windows] = &texts;
    if of_linux == of_windows {
        return None;
    }
    let pairs = of_linux.lines().zip(of_windows.lines());
    let first = pairs
        .into_iter()
        .find(|(linux_line, windows_line)| linux_line != windows_line);
    Some(match first {
        Some((linux_line, windows_line)) => {
            format!("\n  Linux:   {linux_line:.300}\n  Windows: {windows_line:.300}")
        }
        None => format!("{} bytes, {} bytes", linux.len(), windows.len()),
    })
}

#[test]
fn answers_equal_those_of_the_program_for_linux() {
    let Some(program) = windows() else { return };
    let dir = recordings();
    let dir = dir.path();
    let mut differences = Vec::new();

    for (command, file) in ASKED {
        let words: Vec<&str> = command.split(' ').collect();
        let both = [on_linux(dir, &words), {
            let made = file.map(|file| fs::rename(dir.join(file), dir.join("of-linux")));
            made.transpose().unwrap();
            on_windows(&program, dir, &words)
        }];
        let [linux, windows] = &both;
        if linux.status.code() != windows.status.code() {
            let codes = [linux.status, windows.status];
            differences.push(format!("{command}: {codes:?}: {}", windows.errors()));
            continue;
        }
        let parts = [
            ("stdout", linux.stdout.clone(), windows.stdout.clone()),
            ("stderr", linux.stderr.clone(), windows.stderr.clone()),
        ];
        let written = file.map(|file| {
            let read = |name: &str| fs::read(dir.join(name)).unwrap();
            ("file", read("of-linux"), read(file))
        });
        for (what, linux, windows) in parts.into_iter().chain(written) {
            if let Some(how) = difference(&linux, &windows) {
                differences.push(format!("{command}: {what}: {how}"));
            }
        }
    }

    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn errors_have_a_remedy() {
    let Some(program) = windows() else { return };
    let dir = recordings();
    let ended = |words: &[&str], code| {
        let output = on_windows(&program, dir.path(), words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        output.errors()
    };
    let refusal = |words: &[&str]| ended(words, 2);

    let of_file = refusal(&["show", "file"]);
    let of_none = refusal(&["show", "none"]);
    let of_top = refusal(&["top"]);
    let of_service = ended(&["record", "--services", "fifo:90"], 1);
    let of_both = ended(&["record", "--services", "other,realtime:31"], 1);
    let of_again = refusal(&["record", "-o", "a1"]);
    let of_device = refusal(&["record", "-o", "NUL.laggard"]);
    let of_dot = refusal(&["record", "-o", "new."]);
    let of_run = refusal(&["compare", "--run", "a", "--run", "b"]);

    of_file.assert_has("give the directory that `record` wrote");
    of_none.assert_has("check the name");
    of_top.assert_has("it needs Linux");
    of_service.assert_has("use realtime:17 to realtime:31, mmcss, other, or with the driver dpc");
    of_both.assert_has("record it separately");
    of_again.assert_has("exists and is not empty");
    of_device.assert_has("the name of a device");
    of_dot.assert_has("at the end of a name");
    assert!(!dir.path().join("new").exists());
    of_run.assert_has("this program needs Linux");
}

/// Makes a recording of `services` with the program for Windows and further arguments. Returns its
/// manifest.
fn recorded(program: &Path, dir: &Path, services: &str) -> serde_json::Value {
    let mut words = vec!["record", "-o", "own", "-d", "1s", "--services"];
    words.extend(services.split(' '));
    let output = on_windows(program, dir, &words);
    assert!(output.status.success(), "{services}: {output:?}");
    manifest(&dir.join("own"))
}

/// Checks that every planned expiry of each line was served, missed or lost.
fn assert_adds_up(manifest: &serde_json::Value) {
    for count in manifest["counts"].as_array().unwrap() {
        let figure = |name: &str| count[name].as_u64().unwrap_or(0);
        assert!(figure("served") > 0, "{count}");
        assert_eq!(
            figure("served") + figure("missed") + figure("lost"),
            figure("planned"),
            "{count}"
        );
    }
}

/// Under Wine no latency says anything: order, counts, losses and words do.
#[test]
fn recordings_add_up_and_answers_are_equal_on_both_systems() {
    let Some(program) = windows() else { return };
    for services in ["other", "mmcss,other", "realtime:31,realtime:24"] {
        let dir = TempDir::new().unwrap();

        let manifest = recorded(&program, dir.path(), services);

        assert_adds_up(&manifest);
        assert_eq!(manifest["state"], "complete", "{manifest}");
        assert_eq!(manifest["clock"]["name"], "QueryPerformanceCounter");
        let caveats = manifest["caveats"].as_array().unwrap();
        assert!(
            caveats.iter().any(|caveat| caveat["kind"] == "wine"),
            "{caveats:?}"
        );
        for words in [
            &["show", "own"][..],
            &["show", "own", "--all"],
            &["show", "own", "--json"],
            &["why", "own"],
            &["qos", "own"],
            &["forecast", "own"],
        ] {
            let linux = on_linux(dir.path(), words);
            let windows = on_windows(&program, dir.path(), words);
            assert_eq!(linux.status.code(), windows.status.code(), "{words:?}");
            let stdout = difference(&linux.stdout, &windows.stdout);
            assert_eq!(stdout, None, "{words:?}");
        }
        let why = on_windows(&program, dir.path(), &["why", "own"]);
        assert_eq!(why.status.code(), Some(2), "{why:?}");
    }
}

#[test]
fn threads_with_another_timer_are_measured_and_the_timer_is_stated() {
    let Some(program) = windows() else { return };
    for source in ["WaitableTimer", "timeSetEvent", "SetThreadpoolTimer"] {
        let dir = TempDir::new().unwrap();

        let manifest = recorded(&program, dir.path(), &format!("other --source {source}"));

        assert_adds_up(&manifest);
        let caveats = manifest["caveats"].as_array().unwrap();
        let is_told = |caveat: &serde_json::Value| {
            let what = caveat["what"].as_str().unwrap();
            what.starts_with(&format!("threads wait by {source},"))
        };
        assert!(caveats.iter().any(is_told), "{source}: {caveats:?}");
    }
}

#[test]
fn a_recording_that_ctrl_c_ends_is_whole() {
    let Some(program) = windows() else { return };
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("own");

    let mut laggard = in_terminal(&program, dir.path(), "record -o own -d 1h --services other");
    let since = Instant::now();
    while !folder.join("manifest.json").exists() && laggard.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < DEADLINE, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Leaves time to measure something.
    std::thread::sleep(Duration::from_secs(3));
    laggard.stdin.take().unwrap().write_all(b"\x03").unwrap();
    let status = laggard.wait().unwrap();

    let manifest = manifest(&folder);
    assert!(status.success(), "{status:?}");
    assert_eq!(manifest["state"], "interrupted", "{manifest}");
    assert_adds_up(&manifest);
}

/// Exit code and JSON of `laggard bench timers`.
fn timers(program: &Path, options: &[&str]) -> (Option<i32>, serde_json::Value) {
    let dir = TempDir::new().unwrap();
    let words = [&["bench", "timers", "--json"][..], options].concat();
    let output = on_windows(program, dir.path(), &words);
    (output.status.code(), output.json())
}

/// Latencies under Wine are meaningless.
#[test]
fn every_timer_of_windows_is_measured_with_a_warning_about_wine() {
    let Some(program) = windows() else { return };

    let (code, report) = timers(&program, &["--duration=800ms", "--period=2ms"]);

    assert_eq!(code, Some(0), "{report}");
    let rows = |name: &str| report[name].as_array().unwrap().iter();
    let tried: Vec<_> = rows("rows")
        .map(|row| row["api"].as_str().unwrap())
        .collect();
    let of_linux = TimerApi::HERE;
    let others = TimerApi::ALL.iter().filter(|api| !of_linux.contains(api));
    assert_eq!(tried, others.map(|api| api.name()).collect::<Vec<_>>());
    for row in rows("rows") {
        assert_ne!(row["class"], "unavailable", "{row}");
        assert!(row["periodic"].as_u64() > Some(0), "{row}");
        assert!(row["single"].as_u64() > Some(0), "{row}");
    }
    let system = report["host"]["kernel"].as_str().unwrap();
    assert!(system.starts_with("Windows "), "{system}");
    assert!(
        rows("warnings").any(|warning| warning["kind"] == "wine"),
        "{report}"
    );
    let goes_on = |name: &str| {
        let mut clocks = rows("clocks").filter(|clock| clock["name"] == name);
        clocks.any(|clock| clock["step_ns"].as_u64() > Some(0))
    };
    assert!(goes_on("QueryPerformanceCounter"), "{}", report["clocks"]);
    assert!(goes_on("GetTickCount64"), "{}", report["clocks"]);
}

/// Context switches, the criteria and loads, as on Linux. Latencies under Wine are meaningless.
#[test]
fn switches_criteria_and_loads_are_measured() {
    let Some(program) = windows() else { return };
    let dir = TempDir::new().unwrap();
    let run = |words: &str, code| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = on_windows(&program, dir.path(), &words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        output
    };

    let switches = run(
        "bench switch --json -d 1s --threads 2,10 --via yield,futex,pipe",
        0,
    );
    let criteria = run("bench rtos --json -d 1s --loads idle,fp", 1).json();
    let unknown = run("record --load office -o none -d 1s", 2).errors();
    run("record --services other --load fp -o fp -d 1s", 0);

    let switches = switches.json();
    for row in switches["rows"].as_array().unwrap() {
        assert!(row["count"].as_u64() > Some(100), "{row}");
    }
    let verdict = |name: &str| {
        let rows = criteria["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["criterion"] == name);
        row.unwrap()["verdict"].clone()
    };
    // POSIX requires 32 priorities, and the real-time class has 16.
    assert_eq!(verdict("priorities"), "fail", "{criteria}");
    for other in ["locked", "interrupts", "deferred"] {
        assert_eq!(verdict(other), "unknown", "{other}");
    }
    unknown.assert_has("use idle, draw, fp or fileio");
    let load = &manifest(&dir.path().join("fp"))["load"];
    assert_eq!(load["name"], "fp");
    assert!(load["throughput"]["count"].as_u64() > Some(0), "{load}");
}

#[test]
fn doctor_reports_that_events_of_wine_are_unreadable() {
    let Some(program) = windows() else { return };
    let dir = TempDir::new().unwrap();

    let json = on_windows(&program, dir.path(), &["doctor", "--json"]);
    let text = on_windows(&program, dir.path(), &["doctor"]);

    assert_eq!(json.status.code(), Some(1), "{json:?}");
    let report: serde_json::Value = json.json();
    let abilities = report["abilities"].as_array().unwrap();
    let reason = |name: &str| {
        let mut named = abilities.iter().filter(|ability| ability["name"] == name);
        named.next().unwrap()["absence"]["reason"].as_str()
    };
    assert_eq!(reason("timers"), None);
    assert_eq!(reason("recordings"), None);
    let of_events = reason("kernel events").unwrap();
    of_events.assert_has("cannot be read (error ");
    assert_eq!(reason("wdmlat.sys"), Some("it is not installed"));
    let text = text.text();
    assert!(
        text.starts_with("LIMITED  1 ability is missing; `laggard record`"),
        "{text}"
    );
    text.assert_has("Windows ");
}

#[test]
fn options_that_no_timer_of_windows_has_are_refused() {
    let Some(program) = windows() else { return };
    let dir = TempDir::new().unwrap();
    let refused = |option: &str| {
        let output = on_windows(&program, dir.path(), &["bench", "timers", option]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        output.errors()
    };

    let of_api = refused("--api=timerfd");
    let of_policy = refused("--policy=fifo:90");
    let options = ["--api=WaitableTimer-periodic", "--period=1500us"];
    let (code, report) = timers(&program, &options);

    of_api.assert_has("is a timer of another system; choose from Sleep, ");
    of_policy.assert_has("--policy fifo:90 does not exist on Windows");
    assert_eq!(code, Some(1), "{report}");
    let reason = report["rows"][0]["absence"]["reason"].as_str().unwrap();
    reason.assert_has("multiples of 1ms");
}

#[test]
fn long_names_and_those_of_other_alphabets_are_read_and_written() {
    let Some(program) = windows() else { return };
    let dir = TempDir::new().unwrap();
    let deep = [
        "ä".repeat(60),
        "日本語".into(),
        "x".repeat(120),
        "y".repeat(120),
    ]
    .join("/");
    let folder = dir.path().join(&deep);
    fs::create_dir_all(&folder).unwrap();
    whole::record_late(&folder.join("späť"), Keep::All, false);
    let recording = format!("{deep}/späť");
    let page = format!("{deep}/página.html");

    let shown = on_windows(&program, dir.path(), &["show", &recording, "--json"]);
    let made = on_windows(&program, dir.path(), &["report", &recording, "-o", &page]);

    assert_eq!(
        shown.stdout,
        on_linux(dir.path(), &["show", &recording, "--json"]).stdout
    );
    assert!(made.status.success(), "{made:?}");
    assert!(
        fs::read_to_string(dir.path().join(&page))
            .unwrap()
            .contains("</html>")
    );
    let left = fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, 2, "no half file is left");
}

#[test]
fn a_file_is_replaced_despite_incomplete_files() {
    let Some(program) = windows() else { return };
    let dir = TempDir::new().unwrap();
    whole::record_late(&dir.path().join("late"), Keep::All, false);
    fs::write(dir.path().join("out.md"), "before").unwrap();
    fs::write(dir.path().join("out.md.part"), "half of a killed program").unwrap();

    let words = ["report", "late", "--markdown", "-o", "out.md"];
    let made = on_windows(&program, dir.path(), &words);

    assert!(made.status.success(), "{made:?}");
    let text = fs::read_to_string(dir.path().join("out.md")).unwrap();
    text.assert_has("fifo:90");
    assert!(!dir.path().join("out.md.part").exists());
}

/// Starts the program for Windows in a new terminal. The test types into it.
fn in_terminal(program: &Path, dir: &Path, words: &str) -> Child {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/windows");
    let command = format!("'{}' run '{}' {words}", run.display(), program.display());
    let mut script = Command::new("script");
    script
        .args(["-qec", &command, "/dev/null"])
        .current_dir(dir);
    let script = script.stdin(Stdio::piped()).stdout(Stdio::null());
    script.spawn().expect("util-linux has `script`")
}

#[test]
fn ctrl_c_leaves_neither_a_file_nor_half_of_one() {
    let Some(program) = windows() else { return };
    let dir = TempDir::new().unwrap();
    let script = every(250);
    let options = ["--duration=300s", "--no-dither"];
    must_record(&dir.path().join("long"), &script, &options);
    let [whole, half] = ["all.csv", "all.csv.part"].map(|name| dir.path().join(name));

    // It can be done before Ctrl-C is typed.
    for _ in 0..5 {
        let mut program = in_terminal(&program, dir.path(), "export long --format csv -o all.csv");
        let since = Instant::now();
        while !half.exists() && program.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < DEADLINE, "nothing is written");
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut terminal = program.stdin.take().unwrap();
        let _ = terminal.write_all(b"\x03");
        let code = program.wait().unwrap().code();
        if fs::remove_file(&whole).is_err() {
            assert!(!half.exists(), "half a file is left; exit code {code:?}");
            assert_ne!(code, Some(0));
            return;
        }
    }
    panic!("it was done before Ctrl-C was typed, each time");
}
