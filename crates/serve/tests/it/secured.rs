//! `--web-config`: TLS and passwords, as clients of others meet them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(120);
const SCRIPT: &str = r#"period_ns = 10000000
[[line]]
service = "fifo:90"
route = "direct"
steps = [[["irq", 14000], ["expire", 400], ["waking", 240], ["running", 3008], ["user", 1203]]]
"#;
const TLS: &str = "tls_server_config:\n  cert_file: own.crt\n  key_file: own.key\n";

/// Whether all of these can be run here; where not, says so.
fn has(tools: &[&str]) -> bool {
    for tool in tools {
        let how = if *tool == "openssl" {
            "version"
        } else {
            "--version"
        };
        let found = Command::new(tool).arg(how).output();
        if !found.is_ok_and(|output| output.status.success()) {
            println!("skipped: {tool} is not installed");
            return false;
        }
    }
    true
}

/// A key and a certificate of `localhost` that it signs itself, as `NAME.key`, `NAME.crt`.
fn certificate(dir: &Path, name: &str) {
    openssl(
        dir,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {name}.key -out {name}.crt"
        ),
    );
}

fn openssl(dir: &Path, words: &str) {
    let output = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Users, of whom `prometheus` has the password `geheim`.
fn users() -> String {
    let hash = bcrypt::hash("geheim", 4).unwrap();
    format!("basic_auth_users:\n  prometheus: {hash}\n")
}

/// A running program; ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `laggard-serve` with this file: it, and what it says of its address.
fn serve(dir: &Path, web: &str) -> (Running, String) {
    fs::write(dir.join("script.toml"), SCRIPT).unwrap();
    fs::write(dir.join("web.yml"), web).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_laggard-serve"))
        .args(["--listen=127.0.0.1:0", "--backend=fake:script.toml"])
        .arg("--web-config=web.yml")
        .current_dir(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let running = Running(child);
    let told = lines.nth(1).unwrap().unwrap();
    let (_, rest) = told.split_once("Answers at ").unwrap();
    let address = rest.split(": ").next().unwrap().to_owned();
    (running, address)
}

/// What curl has of `/healthz`: the status, 0 where there is no answer.
fn status(dir: &Path, address: &str, options: &[&str]) -> u32 {
    let Output { stdout, .. } = Command::new("curl")
        .args(["--silent", "--max-time", "60", "--cacert", "own.crt"])
        .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
        .args(options)
        .arg(format!("{address}/healthz"))
        .current_dir(dir)
        .output()
        .unwrap();
    String::from_utf8(stdout).unwrap().parse().unwrap()
}

#[test]
fn who_has_the_password_is_answered_by_tls_and_nobody_else() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), "own");
    let (_running, address) = serve(dir.path(), &format!("{TLS}{}", users()));
    let status = |options: &[&str]| status(dir.path(), &address, options);

    assert!(address.starts_with("https://"), "{address}");
    assert_eq!(status(&["--user", "prometheus:geheim"]), 200);
    assert_eq!(status(&[]), 401);
    let wrong = status(&["--user", "prometheus:falsch"]);
    assert!([401, 429].contains(&wrong), "{wrong}");
    // Whoever guesses keeps nobody out who is known.
    for _ in 0..5 {
        status(&["--user", "root:geheim"]);
        assert_eq!(status(&["--user", "prometheus:geheim"]), 200);
    }
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        assert_eq!(
            status(&["--user", "prometheus:geheim", version]),
            200,
            "{version}"
        );
    }
    let clear = address.replace("https", "http");
    let code = self::status(dir.path(), &clear, &["--user", "prometheus:geheim"]);
    assert_eq!(code, 0, "in the clear");
}

#[test]
fn handshakes_that_never_end_keep_nobody_from_an_answer() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), "own");
    let (_running, address) = serve(dir.path(), TLS);
    let socket = address.strip_prefix("https://").unwrap();
    let slow: Vec<TcpStream> = (0..80)
        .map(|_| TcpStream::connect(socket).unwrap())
        .collect();

    assert_eq!(status(dir.path(), &address, &[]), 200);

    // The first had to leave for the last.
    let mut first = &slow[0];
    first.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(matches!(first.read(&mut [0; 8]), Ok(0) | Err(_)));
}

#[test]
fn who_needs_a_certificate_is_answered_with_one_alone() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    for name in ["own", "authority", "other"] {
        certificate(dir.path(), name);
    }
    for (name, authority) in [("client", "authority"), ("stranger", "other")] {
        openssl(
            dir.path(),
            &format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
                 -subj /CN={name} -addext basicConstraints=CA:FALSE -CA {authority}.crt \
                 -CAkey {authority}.key -keyout {name}.key -out {name}.crt"
            ),
        );
    }
    let web = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: authority.crt\n";
    let (_running, address) = serve(dir.path(), &format!("{TLS}{web}"));
    let by = |name: &str| {
        let (key, own) = (format!("{name}.key"), format!("{name}.crt"));
        status(dir.path(), &address, &["--key", &key, "--cert", &own])
    };

    assert_eq!(by("client"), 200);
    assert_eq!(by("stranger"), 0);
    assert_eq!(status(dir.path(), &address, &[]), 0);
}

#[test]
fn a_certificate_that_is_replaced_is_shown_without_a_restart() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), "own");
    let (_running, address) = serve(dir.path(), TLS);
    assert_eq!(status(dir.path(), &address, &[]), 200);

    // curl trusts the new one alone from now on.
    certificate(dir.path(), "own");

    let begin = Instant::now();
    while status(dir.path(), &address, &[]) != 200 {
        assert!(begin.elapsed() < DEADLINE, "the old one is still shown");
        sleep(Duration::from_secs(1));
    }
}

#[test]
fn prometheus_scrapes_by_tls_with_a_password() {
    if !has(&["openssl", "curl", "prometheus"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), "own");
    let (_running, address) = serve(dir.path(), &format!("{TLS}{}", users()));
    let target = address.strip_prefix("https://").unwrap();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: laggard\n    \
         scheme: https\n    tls_config: {{ca_file: own.crt}}\n    \
         basic_auth: {{username: prometheus, password: geheim}}\n    \
         static_configs: [{{targets: [\"{target}\"]}}]\n"
    );
    fs::write(dir.path().join("prometheus.yml"), config).unwrap();
    // Free now; nobody else asks for it in the next instant.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap().to_string();
    drop(free);
    let prometheus = Command::new("prometheus")
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
        .arg(format!("--web.listen-address={listen}"))
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _prometheus = Running(prometheus.unwrap());

    let begin = Instant::now();
    loop {
        let asked = format!("http://{listen}/api/v1/query?query=laggard_measuring");
        let output = Command::new("curl").args(["--silent", &asked]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        if text.contains("\"__name__\":\"laggard_measuring\"") {
            break;
        }
        assert!(begin.elapsed() < DEADLINE, "{text}");
        sleep(Duration::from_millis(300));
    }
}

/// Makes a pipe to which nobody writes, in place of a file.
fn make_pipe(path: &Path) {
    let _ = fs::remove_file(path);
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// To open such a pipe waits for ever, and with it every client.
#[test]
fn files_of_tls_that_are_pipes_or_devices_are_refused() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let web =
        format!("{TLS}  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.crt\n");
    let made = || {
        let dir = TempDir::new().unwrap();
        certificate(dir.path(), "own");
        certificate(dir.path(), "ca");
        dir
    };
    for file in ["own.crt", "own.key", "ca.crt"] {
        for device in [None, Some("/dev/zero")] {
            let dir = made();
            match device {
                None => make_pipe(&dir.path().join(file)),
                Some(device) => {
                    fs::remove_file(dir.path().join(file)).unwrap();
                    std::os::unix::fs::symlink(device, dir.path().join(file)).unwrap();
                }
            }
            fs::write(dir.path().join("script.toml"), SCRIPT).unwrap();
            fs::write(dir.path().join("web.yml"), &web).unwrap();
            let child = Command::new(env!("CARGO_BIN_EXE_laggard-serve"))
                .args(["--listen=127.0.0.1:0", "--backend=fake:script.toml"])
                .arg("--web-config=web.yml")
                .current_dir(dir.path())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            let mut running = Running(child.unwrap());
            let begin = Instant::now();
            let status = loop {
                if let Some(status) = running.0.try_wait().unwrap() {
                    break status;
                }
                assert!(begin.elapsed() < DEADLINE, "{file} is waited for");
                sleep(Duration::from_millis(20));
            };
            let mut said = String::new();
            let mut stderr = running.0.stderr.take().unwrap();
            stderr.read_to_string(&mut said).unwrap();

            assert_eq!(status.code(), Some(2), "{file}: {said}");
            let is_named = said.contains(file) && said.contains("not a regular file");
            assert!(is_named, "{file}: {said}");
        }
    }

    let dir = made();
    let (_running, address) = serve(dir.path(), &web);
    fs::copy(dir.path().join("own.crt"), dir.path().join("known.crt")).unwrap();
    let status = || status(dir.path(), &address, &["--cacert", "known.crt"]);
    assert_eq!(status(), 200);
    make_pipe(&dir.path().join("own.crt"));
    // Looked at again, and answered as before.
    sleep(Duration::from_secs(11));
    assert_eq!(status(), 200);
}

#[test]
fn other_machines_are_answered_where_strangers_are_turned_away() {
    if !has(&["openssl"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), "own");
    for (web, is_closed) in [
        (TLS.to_owned(), false),
        (users(), false),
        (format!("{TLS}{}", users()), true),
    ] {
        fs::write(dir.path().join("script.toml"), SCRIPT).unwrap();
        fs::write(dir.path().join("web.yml"), &web).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_laggard-serve"))
            .args(["--listen=0.0.0.0:0", "--backend=fake:script.toml"])
            .arg("--web-config=web.yml")
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines().nth(1);
        let _ = child.kill();
        let said = child.wait_with_output().unwrap().stderr;
        let said = String::from_utf8(said).unwrap();

        assert_eq!(told.is_some(), is_closed, "for {web}: {said}");
        assert_eq!(said.contains("--expose"), !is_closed, "for {web}: {said}");
    }
}
