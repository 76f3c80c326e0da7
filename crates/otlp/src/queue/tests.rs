use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

fn open(dir: &Path, limits: QueueLimits) -> (SpanQueue, OtlpSeries) {
    let series = OtlpSeries::default();
    (
        SpanQueue::open(Some(dir), limits, series.clone()).unwrap(),
        series,
    )
}

fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("queue");
    (dir, path)
}

fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|entry| entry.into_string().unwrap()).collect();
    names.retain(|entry| entry != ".lock");
    names.sort();
    names
}

fn drain(queue: &mut SpanQueue) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    while let Some(due) = queue.first(SystemTime::now()) {
        bodies.push(due.body);
        queue.done();
    }
    bodies
}

#[test]
fn requests_survive_a_kill_in_order_and_sent_ones_are_gone() {
    let (_keep, dir) = place();
    let (mut queue, _) = open(&dir, QueueLimits::default());
    for body in [b"one", b"two", b"six"] {
        queue.push(body.to_vec(), 2, SystemTime::now());
    }
    assert_eq!(queue.first(SystemTime::now()).unwrap().body, b"one");
    queue.done();
    // Simulates a kill in the middle of a write.
    drop(queue);
    fs::write(dir.join("part"), b"LAGOTLP1 and half").unwrap();

    let (mut queue, series) = open(&dir, QueueLimits::default());
    queue.push(b"new".to_vec(), 1, SystemTime::now());

    assert_eq!(drain(&mut queue), [b"two", b"six", b"new"]);
    assert_eq!(files(&dir), Vec::<String>::new());
    assert_eq!(series.files_lost(), 0);
    assert_eq!(series.queue_bytes.get(), 0);
}

/// Regression: the directory was never created again, so all requests stayed in memory.
#[test]
fn directory_removed_during_the_run_is_created_again() {
    let (_keep, dir) = place();
    let (mut queue, series) = open(&dir, QueueLimits::default());
    queue.push(b"lost".to_vec(), 1, SystemTime::now());
    fs::remove_dir_all(&dir).unwrap();

    queue.push(b"kept".to_vec(), 1, SystemTime::now());

    assert_eq!(queue.unwritten, None);
    assert_eq!(files(&dir).len(), 1);
    let second = SpanQueue::open(Some(&dir), QueueLimits::default(), OtlpSeries::default());
    assert!(
        matches!(second, Err(OpenQueueError::Taken(_))),
        "{second:?}"
    );
    assert_eq!(drain(&mut queue), [b"kept"]);
    assert_eq!(series.files_lost(), 1);
}

#[test]
fn requests_without_room_are_dropped_oldest_first_and_counted() {
    let (_keep, dir) = place();
    let limits = QueueLimits {
        bytes: 3 * (32 + 100),
        ..QueueLimits::default()
    };
    let (mut queue, series) = open(&dir, limits);
    for number in 0..10_u8 {
        queue.push(vec![number; 100], 5, SystemTime::now());
    }

    assert_eq!(series.lost(Loss::full), 7 * 5);
    assert_eq!(files(&dir).len(), 3);
    let left: Vec<u8> = drain(&mut queue).iter().map(|body| body[0]).collect();
    assert_eq!(left, [7, 8, 9]);
}

#[test]
fn expired_requests_are_counted_and_a_clock_set_back_drops_none() {
    let (_keep, dir) = place();
    let (mut queue, series) = open(&dir, QueueLimits::default());
    let day = QueueLimits::default().age;
    let now = SystemTime::now();
    queue.push(b"old".to_vec(), 4, now - day - Duration::from_secs(1));
    queue.push(b"new".to_vec(), 1, now);
    queue.push(b"of tomorrow".to_vec(), 1, now + day);

    assert_eq!(drain(&mut queue).len(), 2);
    assert_eq!(series.lost(Loss::old), 4);
}

#[test]
fn damaged_files_are_counted_and_skipped() {
    let (_keep, dir) = place();
    let (mut queue, _) = open(&dir, QueueLimits::default());
    for body in [b"first", b"flips", b"short", b"empty", b"whole"] {
        queue.push(body.to_vec(), 3, SystemTime::now());
    }
    drop(queue);
    let names = files(&dir);
    let change = |index: usize, change: fn(&mut Vec<u8>)| {
        let path = dir.join(&names[index]);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    };
    change(1, |bytes| bytes[34] ^= 1);
    change(2, |bytes| bytes.truncate(33));
    change(3, Vec::clear);

    let (mut queue, series) = open(&dir, QueueLimits::default());

    assert_eq!(drain(&mut queue), [b"first", b"whole"]);
    assert_eq!(series.files_lost(), 3);
    assert_eq!(
        series.lost(Loss::damaged),
        3,
        "of the one whose head is whole"
    );
    assert_eq!(files(&dir), Vec::<String>::new());
}

#[test]
fn links_are_not_followed_and_foreign_files_are_not_touched() {
    let (keep, dir) = place();
    drop(open(&dir, QueueLimits::default()));
    // This would be sent if the link were followed.
    file::write(keep.path(), 5, b"secret", 1, SystemTime::now()).unwrap();
    let secret = keep.path().join(file::name(5));
    let before = fs::read(&secret).unwrap();
    symlink(&secret, dir.join(file::name(1))).unwrap();
    symlink(&secret, dir.join("part")).unwrap();
    fs::write(dir.join("1.traces"), b"not ours").unwrap();
    fs::write(dir.join("notes.txt"), b"not ours").unwrap();

    let (mut queue, series) = open(&dir, QueueLimits::default());
    queue.push(b"body".to_vec(), 1, SystemTime::now());

    assert_eq!(drain(&mut queue), [b"body"]);
    assert_eq!(series.files_lost(), 1);
    assert_eq!(fs::read(&secret).unwrap(), before);
    assert_eq!(files(&dir), ["1.traces", "notes.txt"]);
}

#[test]
fn files_are_private_and_a_foreign_directory_is_refused() {
    let (keep, dir) = place();
    let (mut queue, _) = open(&dir, QueueLimits::default());
    queue.push(b"body".to_vec(), 1, SystemTime::now());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join(&files(&dir)[0])), 0o600);
    let series = OtlpSeries::default();
    let again = SpanQueue::open(Some(&dir), QueueLimits::default(), series.clone());
    assert!(matches!(again, Err(OpenQueueError::Taken(_))));
    let link = keep.path().join("link");
    symlink(&dir, &link).unwrap();
    let linked = SpanQueue::open(Some(&link), QueueLimits::default(), series.clone());
    assert!(matches!(linked, Err(OpenQueueError::Foreign(_))));
    drop(queue);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let open_to_all = SpanQueue::open(Some(&dir), QueueLimits::default(), series);
    assert!(matches!(open_to_all, Err(OpenQueueError::Foreign(_))));
}

#[test]
fn unwritable_disk_keeps_a_little_in_memory_and_counts_the_rest() {
    let (_keep, dir) = place();
    let (mut queue, series) = open(&dir, QueueLimits::default());
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "no directory").unwrap();
    for number in 0..5_u8 {
        queue.push(vec![number; 300 << 10], 2, SystemTime::now());
    }

    assert!(queue.unwritten.is_some());
    assert_eq!(series.lost(Loss::full), 2 * 2);
    let left: Vec<u8> = drain(&mut queue).iter().map(|body| body[0]).collect();
    assert_eq!(left, [2, 3, 4]);
}
