//! Binary trace files, which trace-cmd and `KernelShark` read: version 6 of the format in
//! `trace-cmd.dat(5)`. Numbers have the byte order of this machine.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use laggard_model::Nanos;

use super::super::tracefs::named;

/// Magic number and version.
const START: &[u8] = b"\x17\x08\x44tracing6\0";
/// Size of a read. Larger than any description in tracefs.
const READ_BYTES: usize = 64 << 10;
/// Type letters of functions in `/proc/kallsyms`.
const FUNCTIONS: [&str; 4] = ["t", "T", "w", "W"];

/// Files that describe a trace.
pub(super) struct TraceFiles<'a> {
    /// Main directory of tracefs.
    pub(super) root: &'a Path,
    /// Directory of the instance.
    pub(super) instance: &'a Path,
    /// Events, as directories below `events`.
    pub(super) events: &'a [&'a str],
}

impl TraceFiles<'_> {
    /// Writes the pages of the ring buffers that have events since `from`, with the data needed to
    /// read them. This empties the buffers. The table of the pages is written last, because only
    /// the pages of one CPU are in memory at a time.
    pub(super) fn write_since(
        &self,
        from: Nanos,
        into: &mut (impl Write + Seek),
    ) -> io::Result<()> {
        let page_bytes = laggard_files::page_bytes();
        let mut file = self.head(page_bytes)?;
        let buffers = self.buffers()?;
        file.extend((u32::try_from(buffers.len()).map_err(io::Error::other)?).to_ne_bytes());
        file.extend(b"flyrecord\0");
        let table_at = file.len() as u64;
        let table_bytes = buffers.len() * 2 * size_of::<u64>();
        let mut offset = (file.len() + table_bytes).next_multiple_of(page_bytes);
        file.resize(offset, 0);
        into.write_all(&file)?;
        let mut table = Vec::with_capacity(table_bytes);
        for buffer in &buffers {
            let pages = pages(buffer, page_bytes, from)?;
            into.write_all(&pages)?;
            table.extend((offset as u64).to_ne_bytes());
            table.extend((pages.len() as u64).to_ne_bytes());
            offset += pages.len();
        }
        into.seek(SeekFrom::Start(table_at))?;
        into.write_all(&table)
    }

    /// Returns the part of the file up to the number of CPUs.
    fn head(&self, page_bytes: usize) -> io::Result<Vec<u8>> {
        let mut file = START.to_vec();
        file.push(u8::from(cfg!(target_endian = "big")));
        file.push(u8::try_from(size_of::<usize>()).map_err(io::Error::other)?);
        file.extend((u32::try_from(page_bytes).map_err(io::Error::other)?).to_ne_bytes());
        for name in ["header_page", "header_event"] {
            file.extend(name.as_bytes());
            file.push(0);
            add_long(&mut file, &read(&self.root.join("events").join(name))?);
        }
        add_formats(&mut file, &formats(&self.root.join("events/ftrace"))?)?;
        let mut systems: Vec<(&str, Vec<Vec<u8>>)> = Vec::new();
        for event in self.events {
            let path = self.root.join("events").join(event);
            if !path.is_dir() {
                continue;
            }
            let (system, formats) = match event.split_once('/') {
                Some((system, _)) => (system, vec![read(&path.join("format"))?]),
                None => (*event, formats(&path)?),
            };
            match systems.iter_mut().find(|(name, _)| *name == system) {
                Some((_, known_formats)) => known_formats.extend(formats),
                None => systems.push((system, formats)),
            }
        }
        file.extend((u32::try_from(systems.len()).map_err(io::Error::other)?).to_ne_bytes());
        for (system, formats) in &systems {
            file.extend(system.as_bytes());
            file.push(0);
            add_formats(&mut file, formats)?;
        }
        add_short(&mut file, functions()?.as_bytes())?;
        add_short(&mut file, &read(&self.root.join("printk_formats"))?)?;
        add_long(&mut file, &read(&self.root.join("saved_cmdlines"))?);
        Ok(file)
    }

    /// Returns the directories of the CPUs' ring buffers, by CPU.
    fn buffers(&self) -> io::Result<Vec<PathBuf>> {
        let directory = self.instance.join("per_cpu");
        let entries = fs::read_dir(&directory).map_err(named(&directory))?;
        let number = |path: &PathBuf| -> Option<u32> {
            path.file_name()?
                .to_str()?
                .strip_prefix("cpu")?
                .parse()
                .ok()
        };
        let mut buffers: Vec<(u32, PathBuf)> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                Some((number(&path)?, path))
            })
            .collect();
        buffers.sort();
        Ok(buffers.into_iter().map(|(_, path)| path).collect())
    }
}

/// Returns the pages of a ring buffer that may have events since `from`. A page starts with the
/// time of its first event.
fn pages(cpu: &Path, page_bytes: usize, from: Nanos) -> io::Result<Vec<u8>> {
    let path = cpu.join("trace_pipe_raw");
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .map_err(named(&path))?;
    let mut kept = Vec::new();
    let mut page = vec![0; page_bytes];
    loop {
        match file.read(&mut page) {
            Ok(0) => return Ok(kept),
            Ok(length) => page[length..].fill(0),
            Err(err) if err.kind() == ErrorKind::WouldBlock => return Ok(kept),
            Err(err) => return Err(named(&path)(err)),
        }
        let start = page.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        if start <= from.ns() {
            // All events of the page before it are older than this page.
            kept.clear();
        }
        kept.extend_from_slice(&page);
    }
}

/// Returns the symbols of functions, which names the functions of timers.
fn functions() -> io::Result<String> {
    let path = Path::new("/proc/kallsyms");
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    let mut kept = String::new();
    for line in text.lines() {
        let kind = line.split(' ').nth(1);
        if kind.is_some_and(|kind| FUNCTIONS.contains(&kind)) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    Ok(kept)
}

/// Returns the formats of the events in a directory, in the order of their names.
fn formats(directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(directory).map_err(named(directory))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join("format")))
        .filter(|path| path.exists())
        .collect();
    files.sort();
    files.iter().map(|path| read(path)).collect()
}

fn add_formats(file: &mut Vec<u8>, formats: &[Vec<u8>]) -> io::Result<()> {
    file.extend((u32::try_from(formats.len()).map_err(io::Error::other)?).to_ne_bytes());
    for format in formats {
        add_long(file, format);
    }
    Ok(())
}

/// Adds data after their length in 8 bytes.
fn add_long(file: &mut Vec<u8>, data: &[u8]) {
    file.extend((data.len() as u64).to_ne_bytes());
    file.extend(data);
}

/// Adds data after their length in 4 bytes.
fn add_short(file: &mut Vec<u8>, data: &[u8]) -> io::Result<()> {
    file.extend((u32::try_from(data.len()).map_err(io::Error::other)?).to_ne_bytes());
    file.extend(data);
    Ok(())
}

/// Reads a file with large reads: some files of tracefs have only one.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path).map_err(named(path))?;
    let mut part = vec![0; READ_BYTES];
    let mut bytes = Vec::new();
    loop {
        match file.read(&mut part).map_err(named(path))? {
            0 => return Ok(bytes),
            length => bytes.extend_from_slice(&part[..length]),
        }
    }
}
