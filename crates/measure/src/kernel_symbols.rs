//! Names of the running kernel's functions, as `/proc/kallsyms` has them, in little
//! memory: a program that stays on for months keeps them.
//!
//! `blazesym` reads the same file, and keeps a text of its own for each symbol: of 122,000
//! of them 14 MB while it sorts them, 11 after that. Here it is 5.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use laggard_model::{Address, Symbol};

const FILE: &str = "/proc/kallsyms";

/// The symbols of the kernel that runs; an image on disk need not be its.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// In the order of their addresses.
    symbols: Vec<PlacedName>,
    /// One behind the other, in the order of the file.
    names: String,
    /// Why there are none.
    lacks: Option<String>,
}

/// Where a function begins, and where its name is among the names.
#[derive(Clone, Copy, Debug)]
struct PlacedName {
    start: u64,
    from: u32,
    bytes: u32,
}

impl KernelSymbols {
    /// Reads them all. What cannot be read is told of each address.
    pub(crate) fn read() -> Self {
        let read = File::open(FILE).and_then(|file| Self::of(BufReader::new(file)));
        read.unwrap_or_else(|err| Self {
            lacks: Some(format!("the kernel's symbols cannot be read: {err}")),
            ..Self::default()
        })
    }

    /// Lines of an address, a letter and a name. Without the right to see them all
    /// addresses are zero, and there are none.
    fn of(mut lines: impl BufRead) -> io::Result<Self> {
        let (mut symbols, mut names) = (Vec::new(), String::new());
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            let mut words = line.split_ascii_whitespace();
            let start = words
                .next()
                .and_then(|word| u64::from_str_radix(word, 16).ok());
            if let (Some(start @ 1..), Some(_), Some(name)) = (start, words.next(), words.next()) {
                symbols.push(PlacedName {
                    start,
                    from: small(names.len())?,
                    bytes: small(name.len())?,
                });
                names.push_str(name);
            }
            line.clear();
        }
        // Of several at one address the first.
        symbols.sort_by_key(|one| one.start);
        symbols.dedup_by_key(|one| one.start);
        symbols.shrink_to_fit();
        names.shrink_to_fit();
        let lacks = symbols.is_empty().then(|| {
            "the kernel shows no addresses of its functions (kernel.kptr_restrict, CAP_SYSLOG)"
                .into()
        });
        Ok(Self {
            symbols,
            names,
            lacks,
        })
    }

    /// The function in which an address lies: that which begins next before it.
    pub(crate) fn at(&self, address: Address) -> Symbol {
        let behind = self.symbols.partition_point(|one| one.start <= address.0);
        let Some(place) = behind.checked_sub(1) else {
            let reason = self.lacks.clone();
            let unknown = reason.unwrap_or_else(|| "it lies before all functions".into());
            return Symbol {
                unknown: Some(unknown),
                ..Symbol::default()
            };
        };
        let PlacedName { from, bytes, .. } = self.symbols[place];
        let name = &self.names[from as usize..][..bytes as usize];
        let plain = rustc_demangle::try_demangle(name).map(|one| format!("{one:#}"));
        Symbol {
            name: Some(plain.unwrap_or_else(|_| name.to_owned())),
            ..Symbol::default()
        }
    }
}

fn small(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::other("it has more than 4 GB of names"))
}

#[cfg(test)]
mod tests {
    use blazesym::MaybeDefault;
    use blazesym::symbolize::source::{Kernel, Source};
    use blazesym::symbolize::{Input, Symbolizer};

    use super::*;

    fn names(text: &str, addresses: &[u64]) -> Vec<Option<String>> {
        let symbols = KernelSymbols::of(text.as_bytes()).unwrap();
        let name = |&at: &u64| symbols.at(Address(at)).name;
        addresses.iter().map(name).collect()
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_next_before_it() {
        // Those of modules come last, wherever they lie.
        let text = "00000200 T schedule\n00000100 t first\n00000200 T alias\n\
                    00000300 t last\n00000180 t of_module\t[nvme]\n";

        let found = names(text, &[0x100, 0x17f, 0x180, 0x200, 0x2ff, u64::MAX, 0xff]);

        let named = [
            "first",
            "first",
            "of_module",
            "schedule",
            "schedule",
            "last",
        ];
        assert_eq!(found[..6], named.map(|name| Some(name.to_owned())));
        assert_eq!(found[6], None);
    }

    /// Of one address in every 300 of the kernel that runs here.
    #[test]
    fn names_are_those_that_another_reader_finds() {
        let ours = KernelSymbols::read();
        if let Some(lacks) = &ours.lacks {
            println!("skipped: {lacks}");
            return;
        }
        let source = Source::Kernel(Kernel {
            vmlinux: MaybeDefault::None,
            ..Kernel::default()
        });
        let inside: Vec<u64> = ours
            .symbols
            .windows(2)
            .step_by(300)
            .map(|pair| pair[0].start + (pair[1].start - pair[0].start) / 2)
            .collect();

        let symbolizer = Symbolizer::new();
        let theirs = symbolizer
            .symbolize(&source, Input::AbsAddr(&inside))
            .unwrap();

        // Several functions may begin at one address; any of them is it.
        let begins = |at: u64, name: &str| {
            let line = |kind: &str| format!("{at:016x} {kind} {name}");
            let is_it = |one: &str| ["T", "t", "W", "w"].iter().any(|kind| one == line(kind));
            std::fs::read_to_string(FILE).unwrap().lines().any(is_it)
        };
        let differing: Vec<_> = inside
            .iter()
            .zip(&theirs)
            .filter_map(|(&at, theirs)| {
                let name = ours.at(Address(at)).name?;
                let theirs = theirs.as_sym()?;
                let is_it = name == theirs.name || begins(theirs.addr, &name);
                (!is_it).then(|| (at, name, theirs.name.clone()))
            })
            .collect();
        let named = theirs.iter().filter(|one| one.as_sym().is_some()).count();
        assert!(named * 10 > inside.len() * 9, "{named} of {}", inside.len());
        assert!(differing.is_empty(), "{differing:?}");
    }

    #[test]
    fn functions_of_rust_have_the_names_that_they_were_written_with() {
        let text = "00000100 t _RNvCs1234_7mycrate3foo\n";

        assert_eq!(names(text, &[0x100]), [Some("mycrate::foo".to_owned())]);
    }

    #[test]
    fn addresses_that_are_not_shown_are_no_symbols_and_that_is_told() {
        let hidden = "0000000000000000 T schedule\n0000000000000000 t other\nnonsense\n\n";
        let symbols = KernelSymbols::of(hidden.as_bytes()).unwrap();

        let found = symbols.at(Address(0x100));

        assert_eq!(found.name, None);
        assert!(found.unknown.unwrap().contains("CAP_SYSLOG"));
    }
}
