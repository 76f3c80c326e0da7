//! Names for the addresses in episodes.
//!
//! Looked up when the run has ended, because reading symbol tables takes CPU
//! time. Only where an address of a process lies is noted while it runs, since
//! the process may be gone later.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use blazesym::helper::is_procmap_query_supported;
use blazesym::normalize::{Normalizer, UserMeta};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use laggard_model::{Activity, Address, Evidence, HandlerCounts, Happening, Symbol, Symbols};

use crate::kernel_symbols::KernelSymbols;
use crate::linux::Identity;
use crate::own::OwnThreads;

/// More addresses than this of one kind are not looked up; the count of those
/// is bounded by the episodes, which are.
const MOST: usize = 200_000;

/// Where a user address lies. Thousands of addresses share a file or a reason.
#[derive(Clone, Debug)]
enum Place {
    File { path: Arc<Path>, offset: u64 },
    Unknown(Arc<str>),
}

/// Every text of a run once.
#[derive(Debug, Default)]
struct Shared {
    paths: BTreeSet<Arc<Path>>,
    reasons: BTreeSet<Arc<str>>,
}

impl Shared {
    fn file(&mut self, path: &Path, offset: u64) -> Place {
        let path = one_of(&mut self.paths, path);
        Place::File { path, offset }
    }

    fn unknown(&mut self, reason: &str) -> Place {
        Place::Unknown(one_of(&mut self.reasons, reason))
    }
}

/// Why code of another process is not named in a container.
const OUT_OF_SIGHT: &str =
    "in a PID namespace (a container) only laggard's own process can be looked at";

/// The one copy of `text`.
fn one_of<T: ?Sized + Ord>(known: &mut BTreeSet<Arc<T>>, text: &T) -> Arc<T>
where
    for<'a> Arc<T>: From<&'a T> + Borrow<T>,
{
    if let Some(known) = known.get(text) {
        return known.clone();
    }
    let new: Arc<T> = text.into();
    known.insert(new.clone());
    new
}

/// The addresses of a run.
#[derive(Debug)]
pub struct SymbolBook {
    normalizer: Normalizer,
    kernel: BTreeSet<Address>,
    user: BTreeMap<u32, BTreeMap<Address, Place>>,
    shared: Shared,
    interrupts: BTreeSet<u32>,
    /// Known where the kernel takes BPF programs, without which there are no
    /// stacks either.
    own: Option<Identity>,
    threads: OwnThreads,
}

impl Default for SymbolBook {
    fn default() -> Self {
        // From Linux 6.11 on one mapping can be asked for. Before, all of a process
        // are written out, in pieces of 4 KiB in which a kernel without preemption
        // lets nobody else run.
        let asks_for_one = is_procmap_query_supported().unwrap_or(false);
        Self {
            normalizer: Normalizer::builder()
                .enable_build_ids(false)
                .enable_procmap_query(asks_for_one)
                .build(),
            kernel: BTreeSet::new(),
            user: BTreeMap::new(),
            shared: Shared::default(),
            interrupts: BTreeSet::new(),
            own: Identity::own().ok(),
            threads: OwnThreads::default(),
        }
    }
}

impl SymbolBook {
    /// Notes every address of an episode. Call it while the processes live.
    pub fn note(&mut self, evidence: &Evidence) {
        // Each once: there are thousands of switches, between few threads.
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
        let mut unknown: BTreeMap<u32, BTreeSet<Address>> = BTreeMap::new();
        for sample in &evidence.samples {
            sample.kernel.iter().for_each(|&at| self.note_kernel(at));
            let known = self.user.get(&sample.process);
            let new = sample
                .user
                .iter()
                .filter(|at| known.is_none_or(|known| !known.contains_key(at)));
            unknown.entry(sample.process).or_default().extend(new);
        }
        for (process, addresses) in unknown {
            self.note_user(process, &addresses);
        }
    }

    /// Notes the address or the number of every sort of handler.
    pub fn note_handlers(&mut self, counts: &HandlerCounts) {
        for one in &counts.handlers {
            self.note_activity(one.activity);
        }
    }

    fn note_activity(&mut self, activity: Activity) {
        match activity {
            Activity::Hrtimer(function) | Activity::Timer(function) | Activity::Work(function) => {
                self.note_kernel(function);
            }
            Activity::Irq(number) => {
                self.interrupts.insert(number);
            }
            // These have no function of their own, a name that is known, or are Windows'.
            Activity::Isr(_)
            | Activity::Dpc(_)
            | Activity::Vector(_)
            | Activity::Softirq(_)
            | Activity::Idle(_)
            | Activity::PageFault => {}
        }
    }

    fn note_kernel(&mut self, address: Address) {
        if self.kernel.len() < MOST {
            self.kernel.insert(address);
        }
    }

    fn note_user(&mut self, process: u32, addresses: &BTreeSet<Address>) {
        let noted = self.user.values().map(BTreeMap::len).sum::<usize>();
        if addresses.is_empty() || noted + addresses.len() > MOST {
            return;
        }
        let plain: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let shared = &mut self.shared;
        let found = match self.own.map_or(Some(process), |own| own.in_proc(process)) {
            Some(process) => self
                .normalizer
                .normalize_user_addrs(process.into(), &plain)
                .map_err(|err| format!("the process could not be looked at: {err}")),
            None => Err(OUT_OF_SIGHT.into()),
        };
        let places: Vec<Place> = match found {
            Ok(found) => found
                .outputs
                .iter()
                .map(|(offset, meta)| match found.meta.get(*meta) {
                    Some(UserMeta::Elf(elf)) => shared.file(&elf.path, *offset),
                    Some(UserMeta::Unknown(unknown)) => shared.unknown(&unknown.reason.to_string()),
                    _ => shared.unknown("it is in no file"),
                })
                .collect(),
            Err(reason) => vec![shared.unknown(&reason); plain.len()],
        };
        let known = self.user.entry(process).or_default();
        known.extend(addresses.iter().copied().zip(places));
    }

    /// Looks up all names. Takes a while: call it when the run has ended.
    pub fn resolve(&self) -> Symbols {
        Symbols {
            kernel: self.resolve_kernel(),
            user: self.resolve_users(),
            interrupts: self.name_interrupts(),
            own_threads: self.threads.threads().clone(),
        }
    }

    /// File by file, so that the symbols of one at a time are in memory.
    fn resolve_users(&self) -> BTreeMap<u32, BTreeMap<Address, Symbol>> {
        let mut named: BTreeMap<u32, BTreeMap<Address, Symbol>> = BTreeMap::new();
        let mut files: BTreeMap<&Path, Vec<(u32, Address, u64)>> = BTreeMap::new();
        for (&process, places) in &self.user {
            let own = named.entry(process).or_default();
            for (&address, place) in places {
                match place {
                    Place::File { path, offset } => {
                        let wanted = files.entry(path).or_default();
                        wanted.push((process, address, *offset));
                    }
                    Place::Unknown(reason) => {
                        own.insert(address, unknown(reason.to_string(), None));
                    }
                }
            }
        }
        for (path, wanted) in files {
            let symbolizer = symbolizer();
            for (process, address, offset) in wanted {
                let symbol = resolve_in_file(&symbolizer, path, offset);
                named.entry(process).or_default().insert(address, symbol);
            }
        }
        named
    }

    fn resolve_kernel(&self) -> BTreeMap<Address, Symbol> {
        if self.kernel.is_empty() {
            return BTreeMap::new();
        }
        let symbols = KernelSymbols::read();
        let named = |&address: &Address| (address, symbols.at(address));
        self.kernel.iter().map(named).collect()
    }

    /// The devices of the interrupts that were seen.
    fn name_interrupts(&self) -> BTreeMap<u32, String> {
        let named = self
            .interrupts
            .iter()
            .filter_map(|&number| Some((number, devices_of(number)?)));
        named.collect()
    }
}

/// The devices of an interrupt, where it has any.
pub(crate) fn devices_of(interrupt: u32) -> Option<String> {
    let devices = fs::read_to_string(format!("/sys/kernel/irq/{interrupt}/actions")).ok()?;
    let devices = devices.trim();
    (!devices.is_empty()).then(|| devices.to_owned())
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_code_info(false).build()
}

fn resolve_in_file(symbolizer: &Symbolizer, path: &Path, offset: u64) -> Symbol {
    let module = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let source = Source::Elf(Elf::new(path));
    match symbolizer.symbolize_single(&source, Input::FileOffset(offset)) {
        Ok(found) => symbol(&found, module),
        Err(err) => unknown(format!("{}: {err}", path.display()), module),
    }
}

fn symbol(found: &Symbolized<'_>, module: Option<String>) -> Symbol {
    match found {
        Symbolized::Sym(sym) => Symbol {
            name: Some(sym.name.to_string()),
            module: module.or_else(|| {
                sym.module
                    .as_ref()
                    .map(|module| module.to_string_lossy().trim_matches(['[', ']']).into())
            }),
            unknown: None,
        },
        Symbolized::Unknown(reason) => unknown(reason.to_string(), module),
    }
}

fn unknown(reason: String, module: Option<String>) -> Symbol {
    Symbol {
        name: None,
        module,
        unknown: Some(reason),
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Nanos, StackSample, Tid};

    use super::*;

    /// One of the C library, which exports its functions: those of this program
    /// have names in a build with debug information only.
    #[test]
    fn a_function_of_a_running_program_is_named_after_the_run() {
        let at = Address(libc::getpid as *const () as u64);
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
                user: vec![at, nowhere],
            }],
            ..Evidence::default()
        });

        let symbols = book.resolve();

        let user = &symbols.user[&process];
        let named = &user[&at];
        let name = named.name.as_deref().unwrap_or_default();
        assert!(name.contains("getpid"), "{named:?}");
        assert!(user[&nowhere].name.is_none() && user[&nowhere].unknown.is_some());
    }

    #[test]
    fn code_of_a_process_that_is_gone_is_unknown_and_says_why() {
        let mut book = SymbolBook::default();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        book.note_user(child.id(), &[Address(4096)].into());

        let symbols = book.resolve();

        let reason = symbols.user[&child.id()][&Address(4096)].unknown.clone();
        assert!(
            reason.unwrap().contains("could not be looked at"),
            "{symbols:?}"
        );
    }
}
