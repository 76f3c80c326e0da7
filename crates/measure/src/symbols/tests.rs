use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use laggard_model::{Nanos, StackSample, Tid};

use super::*;

mod fuse;

/// Limit against hanging, not an expectation.
const DEADLINE: Duration = Duration::from_secs(60);

/// Uses the C library, which exports its functions. Functions of this program have names only in
/// a build with debug information.
#[test]
fn function_of_a_running_program_is_named_after_the_run() {
    let address = Address(libc::getpid as *const () as u64);
    let nowhere = Address(8);
    let mut book = SymbolBook::default();
    let process = std::process::id();
    book.note(&Evidence {
        samples: vec![StackSample {
            at_ns: Nanos::ZERO,
            tid: Tid(process),
            process,
            priority: None,
            kernel: Vec::new(),
            user: vec![address, nowhere],
        }],
        ..Evidence::default()
    });

    let symbols = book.resolve(&AtomicBool::new(false));

    let user = &symbols.user[&process];
    let named = &user[&address];
    let name = named.name.as_deref().unwrap_or_default();
    assert!(name.contains("getpid"), "{named:?}");
    assert!(user[&nowhere].name.is_none() && user[&nowhere].unknown.is_some());
}

#[test]
fn code_of_a_process_that_is_gone_has_a_reason_instead_of_a_name() {
    let mut book = SymbolBook::default();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    book.note_user(child.id(), &[Address(4096)].into());

    let symbols = book.resolve(&AtomicBool::new(false));

    let reason = symbols.user[&child.id()][&Address(4096)].unknown.clone();
    assert!(
        reason.unwrap().contains("cannot examine the process"),
        "{symbols:?}"
    );
}

/// Process with its own copy of the C library. All pages that it needs are in memory.
struct Victim {
    child: Child,
    library: PathBuf,
    /// Address of `getpid`.
    address: Address,
}

impl Victim {
    /// Starts a process whose copy is in `dir`. `command` runs a shell command in its place.
    /// Returns `None` if the C library of this machine is not suitable.
    fn start(dir: &Path, command: &str) -> Option<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let (start, path) = libc_in(&maps, "libc.so")?;
        let library = dir.join("libc.so.6");
        if !library.exists() {
            std::fs::copy(path, &library).unwrap();
        }
        let mut child = Command::new("/bin/sh")
            .args(["-c", command, "sh"])
            .arg(dir)
            .env("LD_LIBRARY_PATH", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        let mapped = libc_in(&maps, "libc.so.6").map(|(start, _)| start);
        let within = libc::getpid as *const () as u64 - start;
        match mapped.filter(|_| line == "ready\n") {
            Some(start) => Some(Self {
                address: Address(start + within),
                child,
                library,
            }),
            None => {
                println!("skipped: no process with its own C library: {line}{maps}");
                child.kill().unwrap();
                child.wait().unwrap();
                None
            }
        }
    }

    fn note(&self, book: &mut SymbolBook) {
        book.note_user(self.child.id(), &[self.address].into());
    }

    fn symbol(&self, book: &SymbolBook) -> Symbol {
        let symbols = book.resolve(&AtomicBool::new(false));
        symbols.user[&self.child.id()][&self.address].clone()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the start and path of the C library in a list of mappings.
fn libc_in<'a>(maps: &'a str, name: &str) -> Option<(u64, &'a str)> {
    maps.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, _, "00000000", _, _, path, ..] = words[..] else {
            return None;
        };
        let (start, _) = range.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        path.contains(name).then_some((start, path))
    })
}

const WAITS: &str = "echo ready; read _";

/// Returns whether the kernel lets this process open the files of mappings.
fn has_map_files() -> bool {
    let entries = std::fs::read_dir("/proc/self/map_files").into_iter();
    let mut links = entries.flatten().flatten();
    links.any(|link| std::fs::metadata(link.path()).is_ok())
}

#[test]
fn name_comes_from_the_mapped_file_if_its_path_is_replaced() {
    type Replace = fn(&Path);
    let replacements: [(&str, Replace); 6] = [
        ("nothing", |_| {}),
        ("a FIFO", |path| {
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }),
        ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
        ("a directory", |path| std::fs::create_dir(path).unwrap()),
        ("a link", |path| symlink("/etc/shadow", path).unwrap()),
        ("another file", |path| std::fs::write(path, "x").unwrap()),
    ];
    for (what, replace) in replacements {
        let dir = tempfile::tempdir().unwrap();
        let Some(victim) = Victim::start(dir.path(), WAITS) else {
            return;
        };
        std::fs::remove_file(&victim.library).unwrap();
        replace(&victim.library);
        let mut book = SymbolBook::default();

        victim.note(&mut book);
        let symbol = victim.symbol(&book);

        if has_map_files() {
            let name = symbol.name.as_deref().unwrap_or_default();
            assert!(name.contains("getpid"), "{what}: {symbol:?}");
            assert_eq!(symbol.module.as_deref(), Some("libc.so.6"), "{what}");
        } else {
            assert!(symbol.unknown.is_some(), "{what}: {symbol:?}");
        }
    }
}

#[test]
fn name_comes_from_the_mapped_file_if_a_mount_hides_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("other"), "other").unwrap();
    // The shell maps its library before it hides the file.
    let hides = "mount --bind \"$1/other\" \"$1/libc.so.6\" && echo ready; read _";
    let command = format!("exec unshare --mount sh -c '{hides}' sh \"$1\"");
    let Some(victim) = Victim::start(dir.path(), &command) else {
        return;
    };
    let mut book = SymbolBook::default();

    victim.note(&mut book);
    let symbol = victim.symbol(&book);

    assert!(
        has_map_files(),
        "a user who may mount may see files of mappings"
    );
    let name = symbol.name.as_deref().unwrap_or_default();
    assert!(name.contains("getpid"), "{symbol:?}");
}

#[test]
fn truncated_file_has_no_names_and_others_have() {
    let dir = tempfile::tempdir().unwrap();
    let Some(victim) = Victim::start(dir.path(), WAITS) else {
        return;
    };
    let own = Address(libc::getpid as *const () as u64);
    let mut book = SymbolBook::default();
    victim.note(&mut book);
    book.note_user(std::process::id(), &[own].into());

    let file = File::options().write(true).open(&victim.library).unwrap();
    file.set_len(100).unwrap();
    let symbol = victim.symbol(&book);

    let reason = symbol.unknown.as_deref();
    assert_eq!(reason, Some("the file changed during the measurement"));
    let symbols = book.resolve(&AtomicBool::new(false));
    let own = &symbols.user[&std::process::id()][&own];
    assert!(own.name.as_deref().unwrap().contains("getpid"), "{own:?}");
}

#[test]
fn user_with_many_files_leaves_room_for_other_users() {
    let mut book = SymbolBook {
        max_files: 100,
        ..SymbolBook::default()
    };
    let held = || {
        let file = tempfile::tempfile().unwrap();
        let state = crate::linux::file_state::file_state(&file).unwrap();
        let mapped = mappings::MappedInode {
            major: 0,
            minor: 0,
            inode: 1,
        };
        HeldFile {
            held: file.into(),
            mapped,
            state,
        }
    };

    let kept =
        |book: &mut SymbolBook, user| (0..90).filter(|_| book.keep(held(), user).is_ok()).count();

    assert_eq!(kept(&mut book, Some(1000)), MAX_FILES_PER_USER);
    assert_eq!(kept(&mut book, Some(0)), 100 - MAX_FILES_PER_USER);
    let refused = book.keep(held(), Some(1001)).unwrap_err();
    assert_eq!(refused, "its file was not held: laggard holds 100 others");
}

/// Environment variable with the directory, which makes the test below run its part as an
/// ordinary user.
const AS_USER: &str = "LAGGARD_TEST_SYMBOLS_AS_USER";

/// Runs as an ordinary user on several file systems, without the capability that gives access to
/// the files of mappings, as after `setcap`.
#[test]
fn name_needs_no_rights_on_any_file_system() {
    if let Some(dir) = std::env::var_os(AS_USER) {
        return name_as_user(Path::new(&dir));
    }
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: only root mounts file systems");
    }
    let dir = tempfile::tempdir().unwrap();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(dir.path(), 0o777);
    let program = dir.path().join("program");
    std::fs::copy("/proc/self/exe", &program).unwrap();
    set_mode(&program, 0o755);
    for (system, mount) in [
        ("the usual file system", "true"),
        ("tmpfs", "mount -t tmpfs tmpfs \"$1/files\""),
        (
            "overlayfs on one file system",
            "mount -t tmpfs tmpfs \"$1/layers\" && cd \"$1/layers\" && mkdir l u w && cp \"$2\" l/libc.so.6 &&
             mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w \"$1/files\"",
        ),
        (
            "overlayfs on two file systems",
            "mount -t tmpfs tmpfs \"$1/layers\" && cd \"$1/layers\" && mkdir l other && cp \"$2\" l/libc.so.6 &&
             mount -t tmpfs tmpfs other && mkdir other/u other/w &&
             mount -t overlay overlay -o lowerdir=l,upperdir=other/u,workdir=other/w \"$1/files\"",
        ),
        (
            "a subvolume of btrfs",
            "mount -t tmpfs tmpfs \"$1/layers\" && cd \"$1/layers\" && truncate -s 256M disk &&
             mkfs.btrfs -q disk && mkdir disk.d && mount -o loop disk disk.d &&
             btrfs -q subvolume create disk.d/one && mount --bind disk.d/one \"$1/files\"",
        ),
    ] {
        let files = dir.path().join("files");
        std::fs::create_dir_all(&files).unwrap();
        std::fs::create_dir_all(dir.path().join("layers")).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let (_, library) = libc_in(&maps, "libc.so").unwrap();
        let test = "symbols::tests::name_needs_no_rights_on_any_file_system";
        let script = format!(
            "({mount}) >&2 && chmod 777 \"$1/files\" || exit 77
             exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \
                 \"$1/program\" --exact {test} --nocapture"
        );
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, "sh"])
            .arg(dir.path())
            .arg(library)
            .env(AS_USER, &files)
            .output()
            .unwrap();

        let stdout = String::from_utf8_lossy(&output.stdout);
        if output.status.code() == Some(77) {
            let why = String::from_utf8_lossy(&output.stderr);
            println!("skipped: {system}: {}", why.lines().last().unwrap_or_default());
            continue;
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{system}: {stdout}{errors}");
        assert!(stdout.contains("named as user"), "{system}: {stdout}{errors}");
        std::fs::remove_dir_all(files).unwrap();
    }
}

/// Runs the part of the ordinary user, whose library is in `dir`.
fn name_as_user(dir: &Path) {
    assert!(!has_map_files(), "an ordinary user sees files of mappings");
    let victim = Victim::start(dir, WAITS).unwrap();
    let mut book = SymbolBook::default();

    victim.note(&mut book);
    let symbol = victim.symbol(&book);

    let name = symbol.name.as_deref().unwrap_or_default();
    assert!(name.contains("getpid"), "{symbol:?}");
    // A different file at its path is not mistaken for it.
    let other = dir.join("other");
    std::fs::copy(&victim.library, &other).unwrap();
    let mut book = SymbolBook::default();
    std::fs::rename(&other, &victim.library).unwrap();
    victim.note(&mut book);
    let symbol = victim.symbol(&book);
    let reason = symbol.unknown.as_deref().unwrap_or_default();
    assert!(
        reason.contains("a different file is at its path"),
        "{symbol:?}"
    );
    println!("named as user");
}

/// Checks a user's file server that stops answering: the files of other users have names, and
/// laggard ends on request.
#[test]
fn laggard_does_not_wait_for_a_file_server_that_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some((_, library)) = libc_in(&maps, "libc.so") else {
        return println!("skipped: no C library to copy");
    };
    let content = std::fs::read(library).unwrap();
    let server = match fuse::FileServer::mount(dir.path(), "libc.so.6", content) {
        Ok(server) => server,
        Err(err) => return println!("skipped: no FUSE here ({err})"),
    };
    let as_user =
        format!("exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{WAITS}'");
    let Some(victim) = Victim::start(dir.path(), &as_user) else {
        return;
    };
    let own = Address(libc::getpid as *const () as u64);
    let named = |symbols: &Symbols, process: u32, address: Address| {
        let symbol = &symbols.user[&process][&address];
        (
            symbol.name.is_some(),
            symbol.unknown.clone().unwrap_or_default(),
        )
    };
    let mut book = SymbolBook::default();

    server.hangs.store(true, Ordering::Relaxed);
    victim.note(&mut book);
    book.note_user(std::process::id(), &[own].into());
    let symbols = book.resolve(&AtomicBool::new(false));

    let (_, reason) = named(&symbols, victim.child.id(), victim.address);
    assert_eq!(reason, "reading its symbols took longer than 5 s");
    assert!(named(&symbols, std::process::id(), own).0, "{symbols:?}");
    let interrupted = AtomicBool::new(false);
    let symbols = std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_millis(100));
            interrupted.store(true, Ordering::Relaxed);
        });
        book.resolve(&interrupted)
    });
    let (_, reason) = named(&symbols, victim.child.id(), victim.address);
    assert!(reason.contains("laggard was stopped"), "{reason}");
    // Lets all waiting processes continue.
    drop(server);
    let begun = Instant::now();
    while reader::not_ended() > 0 {
        assert!(begun.elapsed() < DEADLINE, "a process does not end");
        sleep(Duration::from_millis(10));
    }
}
