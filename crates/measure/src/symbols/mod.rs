//! Names for the addresses in episodes.
//!
//! laggard looks up names after the run, because reading symbol tables takes CPU time. During the
//! run laggard records the file of each address and holds that file, because the process and its
//! file may be gone later.

mod elf;
mod file;
mod finder;
mod label;
mod mappings;
mod patience;
mod reader;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use laggard_model::{Activity, Address, Evidence, HandlerCounts, Happening, Symbol, Symbols, Tid};
use nix::sys::resource::{Resource, getrlimit};

use crate::groups::SchedGroups;
use crate::kernel_symbols::KernelSymbols;
use crate::linux::Identity;
use crate::own::OwnThreads;
use file::HeldFile;
use finder::{AddressPlace, Finder};
use patience::Patience;
use reader::{FileQuery, MAX_FILES, SymbolReader};

pub use reader::read_symbols_as;

/// Maximum number of addresses of one kind. The number of addresses is also bounded by the number
/// of episodes.
const MAX_ADDRESSES: usize = reader::MAX_OFFSETS;
/// Maximum number of files held for processes of one user other than root, so that a user with
/// many programs leaves room for other users.
const MAX_FILES_PER_USER: usize = 64;

/// Place of a user address. Thousands of addresses share a file or a reason.
#[derive(Clone, Debug)]
enum Place {
    File {
        /// Index into [`SymbolBook::files`].
        file: usize,
        module: Arc<str>,
        offset: u64,
    },
    Unknown(Arc<str>),
}

/// Reason why code of another process is not named in a container.
const FOREIGN_PROCESS_IN_CONTAINER: &str =
    "in a PID namespace (a container) laggard can examine only its own process";

/// Returns the shared copy of `text`.
fn shared<T: ?Sized + Ord>(texts: &mut BTreeSet<Arc<T>>, text: &T) -> Arc<T>
where
    for<'a> Arc<T>: From<&'a T> + Borrow<T>,
{
    if let Some(texts) = texts.get(text) {
        return texts.clone();
    }
    let new: Arc<T> = text.into();
    texts.insert(new.clone());
    new
}

/// Addresses of a run.
#[derive(Debug)]
pub struct SymbolBook {
    finder: Finder,
    kernel: BTreeSet<Address>,
    user: BTreeMap<u32, BTreeMap<Address, Place>>,
    files: Vec<BookFile>,
    /// Index of each file, keyed by device and inode.
    indices: BTreeMap<FileKey, usize>,
    max_files: usize,
    /// Names of modules and reasons, one copy each.
    texts: BTreeSet<Arc<str>>,
    interrupts: BTreeSet<u32>,
    /// Identity of this process; known if the kernel accepts BPF programs, which record the stacks.
    own: Option<Identity>,
    threads: OwnThreads,
    groups: SchedGroups,
    /// Set when the user interrupts laggard.
    hurry: Arc<AtomicBool>,
    patience: Patience,
}

/// Device (major and minor) and inode.
type FileKey = ((u32, u32), u64);

/// Index of a file and its module, or the reason why it is not kept.
type KeptFile = Result<(usize, Arc<str>), Arc<str>>;

#[derive(Debug)]
struct BookFile {
    file: HeldFile,
    /// User whose process mapped it first; `None` if unknown.
    user: Option<u32>,
}

impl BookFile {
    const fn is_of_root(&self) -> bool {
        matches!(self.user, Some(0))
    }
}

impl Default for SymbolBook {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl SymbolBook {
    /// Creates an empty book. `hurry` is set when laggard is interrupted; then laggard gives up
    /// waiting for other users' processes within a second.
    pub fn new(hurry: Arc<AtomicBool>) -> Self {
        // Reserves most of the open files for the measurement.
        let (open, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        let quarter = usize::try_from(open / 4).unwrap_or(MAX_FILES);
        Self {
            finder: Finder::default(),
            kernel: BTreeSet::new(),
            user: BTreeMap::new(),
            files: Vec::new(),
            indices: BTreeMap::new(),
            max_files: quarter.min(MAX_FILES),
            texts: BTreeSet::new(),
            interrupts: BTreeSet::new(),
            own: Identity::own().ok(),
            threads: OwnThreads::default(),
            groups: SchedGroups::default(),
            hurry,
            patience: Patience::default(),
        }
    }

    /// Records every address of an episode. Call it while the processes live.
    pub fn note(&mut self, evidence: &Evidence) {
        // Once per thread: there are thousands of switches between few threads.
        let mut switched_to = BTreeSet::new();
        for event in &evidence.events {
            match event.what {
                Happening::Begin(activity) => self.note_activity(activity),
                Happening::Switch { tid, .. } => {
                    switched_to.insert(tid);
                }
                Happening::End(_) => {}
            }
        }
        for tid in switched_to {
            self.threads.note(tid);
        }
        for group in evidence
            .throttles
            .iter()
            .filter_map(|throttle| throttle.group)
        {
            self.groups.note_quota(group);
        }
        let mut unknown: BTreeMap<u32, BTreeSet<Address>> = BTreeMap::new();
        for sample in &evidence.samples {
            sample
                .kernel
                .iter()
                .for_each(|&address| self.note_kernel(address));
            let places = self.user.get(&sample.process);
            let new = sample
                .user
                .iter()
                .filter(|address| places.is_none_or(|places| !places.contains_key(address)));
            unknown.entry(sample.process).or_default().extend(new);
        }
        for (process, addresses) in unknown {
            self.note_user(process, &addresses);
        }
    }

    /// Records the groups of a `SCHED_OTHER` thread that waited, and of the threads that ran. Call
    /// it while the threads live.
    pub fn note_competitors(&mut self, waiter: Tid, evidence: &Evidence) {
        self.groups.note_competitors(waiter, evidence);
    }

    /// Records the address or the number of every handler.
    pub fn note_handlers(&mut self, counts: &HandlerCounts) {
        for counts in &counts.handlers {
            self.note_activity(counts.activity);
        }
    }

    fn note_activity(&mut self, activity: Activity) {
        match activity {
            Activity::Hrtimer(function)
            | Activity::Timer(function)
            | Activity::Work(function)
            | Activity::Poll(function)
            | Activity::Function(function) => {
                self.note_kernel(function);
            }
            Activity::Irq(number) => {
                self.interrupts.insert(number);
            }
            // These do not have a function, have a known name, or exist on Windows only.
            Activity::Isr(_)
            | Activity::Dpc(_)
            | Activity::Vector(_)
            | Activity::Softirq(_)
            | Activity::Idle(_)
            | Activity::PageFault => {}
        }
    }

    fn note_kernel(&mut self, address: Address) {
        if self.kernel.len() < MAX_ADDRESSES {
            self.kernel.insert(address);
        }
    }

    fn note_user(&mut self, process: u32, addresses: &BTreeSet<Address>) {
        let noted = self.user.values().map(BTreeMap::len).sum::<usize>();
        if addresses.is_empty() || noted + addresses.len() > MAX_ADDRESSES {
            return;
        }
        let located = match self.own.map_or(Some(process), |own| own.in_proc(process)) {
            Some(process) => {
                self.finder
                    .locate(process, addresses, &mut self.patience, &self.hurry)
            }
            None => Err(FOREIGN_PROCESS_IN_CONTAINER.into()),
        };
        let places: Vec<(Address, Place)> = match located {
            Ok(located) => {
                let user = located.user;
                let files: Vec<KeptFile> = located
                    .files
                    .into_iter()
                    .map(|file| {
                        let module = shared(&mut self.texts, &*file.module);
                        match self.keep(file.file, user) {
                            Ok(file) => Ok((file, module)),
                            Err(reason) => Err(shared(&mut self.texts, &*reason)),
                        }
                    })
                    .collect();
                let places = located.places.into_iter();
                let mut place = |address_place: AddressPlace| match address_place {
                    Ok((file, offset)) => place_in(&files[file], offset),
                    Err(reason) => Place::Unknown(shared(&mut self.texts, &*reason)),
                };
                places
                    .map(|(address, address_place)| (address, place(address_place)))
                    .collect()
            }
            Err(reason) => {
                let place = Place::Unknown(shared(&mut self.texts, &*reason));
                let addresses = addresses.iter();
                addresses.map(|&address| (address, place.clone())).collect()
            }
        };
        self.user.entry(process).or_default().extend(places);
    }

    /// Keeps a file for later. Returns its index, or an error if the list is full.
    fn keep(&mut self, file: HeldFile, user: Option<u32>) -> Result<usize, String> {
        let key = (file.state.device, file.state.inode);
        if let Some(&index) = self.indices.get(&key) {
            return Ok(index);
        }
        let file = BookFile { file, user };
        let of_user = self.files.iter().filter(|other| other.user == user).count();
        if self.files.len() >= self.max_files {
            return Err(format!(
                "its file was not held: laggard holds {} others",
                self.max_files
            ));
        }
        if !file.is_of_root() && of_user >= MAX_FILES_PER_USER {
            return Err(format!(
                "its file was not held: laggard holds {MAX_FILES_PER_USER} others of the user's processes"
            ));
        }
        self.files.push(file);
        self.indices.insert(key, self.files.len() - 1);
        Ok(self.files.len() - 1)
    }

    /// Looks up all names, which takes up to 20 s. Call it after the run. Once `interrupted` is
    /// set, it takes at most a second.
    pub fn resolve(&self, interrupted: &AtomicBool) -> Symbols {
        Symbols {
            kernel: self.resolve_kernel(),
            user: self.resolve_users(interrupted),
            interrupts: self.name_interrupts(),
            own_threads: self.threads.threads().clone(),
            quotas: self.groups.quotas(),
            entities: self.groups.entities(),
        }
    }

    fn resolve_users(&self, interrupted: &AtomicBool) -> BTreeMap<u32, BTreeMap<Address, Symbol>> {
        let mut wanted: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for place in self.user.values().flat_map(BTreeMap::values) {
            if let Place::File { file, offset, .. } = place {
                wanted.entry(*file).or_default().insert(*offset);
            }
        }
        // Grouped by user, so that files of one user do not use up the time of other users. Root
        // comes first.
        let mut users: BTreeMap<(bool, Option<u32>), Vec<usize>> = BTreeMap::new();
        for &file in wanted.keys() {
            let owner = &self.files[file];
            let files = users.entry((!owner.is_of_root(), owner.user)).or_default();
            files.push(file);
        }
        let mut reading = SymbolReader::new(self.patience, interrupted);
        let mut names = BTreeMap::new();
        for ((is_of_other, _), files) in users {
            let asks: Vec<FileQuery<'_>> = files
                .iter()
                .map(|file| FileQuery {
                    file: &self.files[*file].file,
                    offsets: wanted[file].iter().copied().collect(),
                })
                .collect();
            let answers = reading.read(&asks, !is_of_other);
            for ((file, ask), answer) in files.iter().zip(&asks).zip(answers) {
                let offsets = ask.offsets.iter().map(|&offset| (*file, offset));
                names.extend(offsets.zip(answer));
            }
        }
        let symbol = |place: &Place| match place {
            Place::File {
                file,
                module,
                offset,
            } => {
                let name = names.get(&(*file, *offset)).cloned();
                symbol(name, module)
            }
            Place::Unknown(reason) => Symbol {
                unknown: Some(reason.to_string()),
                ..Symbol::default()
            },
        };
        let users = self.user.iter();
        users
            .map(|(&process, places)| {
                let places = places.iter();
                let symbols = places.map(|(&address, place)| (address, symbol(place)));
                (process, symbols.collect())
            })
            .collect()
    }

    fn resolve_kernel(&self) -> BTreeMap<Address, Symbol> {
        if self.kernel.is_empty() {
            return BTreeMap::new();
        }
        let symbols = KernelSymbols::read();
        let named = |&address: &Address| (address, symbols.at(address));
        self.kernel.iter().map(named).collect()
    }

    /// Returns the devices of the recorded interrupts.
    fn name_interrupts(&self) -> BTreeMap<u32, String> {
        let named = self
            .interrupts
            .iter()
            .filter_map(|&number| Some((number, devices_of(number)?)));
        named.collect()
    }
}

/// Returns the devices of an interrupt, or `None` without a device.
pub(crate) fn devices_of(interrupt: u32) -> Option<String> {
    let devices = fs::read_to_string(format!("/sys/kernel/irq/{interrupt}/actions")).ok()?;
    let devices = devices.trim();
    (!devices.is_empty()).then(|| devices.to_owned())
}

fn place_in(file: &KeptFile, offset: u64) -> Place {
    match file {
        Ok((file, module)) => Place::File {
            file: *file,
            module: Arc::clone(module),
            offset,
        },
        Err(reason) => Place::Unknown(Arc::clone(reason)),
    }
}

fn symbol(name: Option<reader::Name>, module: &str) -> Symbol {
    let (name, unknown) = match name {
        Some(Ok(name)) => (Some(name), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, Some("it was not looked up".into())),
    };
    Symbol {
        name,
        module: Some(module.to_owned()),
        unknown,
    }
}

#[cfg(test)]
mod tests;
