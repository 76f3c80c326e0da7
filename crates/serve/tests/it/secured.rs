//! `--web-config` with TLS and passwords, tested with third-party clients.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Limit that detects a hang, not an expected duration. It is therefore generous.
const DEADLINE: Duration = Duration::from_secs(120);
const SCRIPT: &str = r#"period_ns = 10000000
[[line]]
service = "fifo:90"
route = "direct"
steps = [[["irq", 14000], ["expire", 400], ["waking", 240], ["running", 3008], ["user", 1203]]]
"#;
const TLS: &str = "tls_server_config:\n  cert_file: own.crt\n  key_file: own.key\n";

/// Returns true if all these tools can run here. Otherwise prints the missing one.
fn has(tools: &[&str]) -> bool {
    for tool in tools {
        let how = if *tool == "openssl" {
            "version"
        } else {
            "--version"
        };
        let output = Command::new(tool).arg(how).output();
        if !output.is_ok_and(|output| output.status.success()) {
            println!("skipped: {tool} is not installed");
            return false;
        }
    }
    true
}

/// Creates a key and a self-signed certificate of `localhost`, as `NAME.key` and `NAME.crt`.
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

/// Users. `prometheus` has the password `geheim`.
fn users() -> String {
    let hash = bcrypt::hash("geheim", 4).unwrap();
    format!("basic_auth_users:\n  prometheus: {hash}\n")
}

/// Running program. It is ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `laggard-serve` with this file. Returns the program and its printed address.
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
    let printed = lines.nth(1).unwrap().unwrap();
    let (_, rest) = printed.split_once("Answers at ").unwrap();
    let address = rest.split(": ").next().unwrap().to_owned();
    (running, address)
}

/// Returns the status that curl receives for `/healthz`; 0 without a response.
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
fn only_clients_with_the_password_get_a_response_over_tls() {
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
    // Wrong passwords do not lock out a known user.
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
    assert_eq!(code, 0, "without encryption");
}

#[test]
fn incomplete_handshakes_do_not_block_other_clients() {
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

    // The first connection was closed to make room for the last.
    let mut first = &slow[0];
    first.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(matches!(first.read(&mut [0; 8]), Ok(0) | Err(_)));
}

#[test]
fn client_certificate_is_required() {
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
fn replaced_certificate_is_used_without_a_restart() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), "own");
    let (_running, address) = serve(dir.path(), TLS);
    assert_eq!(status(dir.path(), &address, &[]), 200);

    // curl trusts only the new certificate from now.
    certificate(dir.path(), "own");

    let begin = Instant::now();
    while status(dir.path(), &address, &[]) != 200 {
        assert!(begin.elapsed() < DEADLINE, "the old one is still shown");
        sleep(Duration::from_secs(1));
    }
}

#[test]
fn prometheus_scrapes_over_tls_with_a_password() {
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
    // The port is free, and no other program is expected to take it at once.
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
        let url = format!("http://{listen}/api/v1/query?query=laggard_measuring");
        let output = Command::new("curl").args(["--silent", &url]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        if text.contains("\"__name__\":\"laggard_measuring\"") {
            break;
        }
        assert!(begin.elapsed() < DEADLINE, "{text}");
        sleep(Duration::from_millis(300));
    }
}

/// Replaces a file by a pipe without a writer.
fn make_pipe(path: &Path) {
    let _ = fs::remove_file(path);
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Opening a pipe without a writer blocks forever, and with it every client.
#[test]
fn tls_files_that_are_pipes_or_devices_are_refused() {
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
            let mut messages = String::new();
            let mut stderr = running.0.stderr.take().unwrap();
            stderr.read_to_string(&mut messages).unwrap();

            assert_eq!(status.code(), Some(2), "{file}: {messages}");
            let is_named = messages.contains(file) && messages.contains("not a regular file");
            assert!(is_named, "{file}: {messages}");
        }
    }

    let dir = made();
    let (_running, address) = serve(dir.path(), &web);
    fs::copy(dir.path().join("own.crt"), dir.path().join("known.crt")).unwrap();
    let status = || status(dir.path(), &address, &["--cacert", "known.crt"]);
    assert_eq!(status(), 200);
    make_pipe(&dir.path().join("own.crt"));
    // The files were checked again, and the response is the same.
    sleep(Duration::from_secs(11));
    assert_eq!(status(), 200);
}

#[test]
fn other_machines_get_a_response_if_credentials_are_required() {
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
        let printed = BufReader::new(child.stdout.take().unwrap()).lines().nth(1);
        let _ = child.kill();
        let stderr = child.wait_with_output().unwrap().stderr;
        let stderr = String::from_utf8(stderr).unwrap();

        assert_eq!(printed.is_some(), is_closed, "for {web}: {stderr}");
        assert_eq!(
            stderr.contains("--expose"),
            !is_closed,
            "for {web}: {stderr}"
        );
    }
}
