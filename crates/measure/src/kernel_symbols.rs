//! Names of the running kernel's functions from `/proc/kallsyms`, in little memory, because a
//! program that runs for months keeps them.
//!
//! `blazesym` reads the same file and keeps a separate text for each symbol: for 122,000 symbols
//! 14 MB while it sorts them, and 11 MB after that. Here it is 5 MB.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use laggard_model::{Address, Symbol};

const FILE: &str = "/proc/kallsyms";

/// Symbols of the running kernel. An image on disk may be a different kernel.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// Symbols in the order of their addresses.
    symbols: Vec<PlacedName>,
    /// Names in the order of the file, one after the other.
    names: String,
    /// Reason why the symbols are missing.
    lacks: Option<String>,
}

/// Start of a function, and the position of its name.
#[derive(Clone, Copy, Debug)]
struct PlacedName {
    start: u64,
    from: u32,
    bytes: u32,
}

impl KernelSymbols {
    /// Reads all symbols. If that fails, every address has the reason.
    pub(crate) fn read() -> Self {
        let read = File::open(FILE).and_then(|file| Self::parse(BufReader::new(file)));
        read.unwrap_or_else(|err| Self {
            lacks: Some(format!("cannot read the kernel's symbols: {err}")),
            ..Self::default()
        })
    }

    /// Parses lines of an address, a letter and a name. Without the right to see them, all
    /// addresses are zero, and the result is empty.
    fn parse(mut lines: impl BufRead) -> io::Result<Self> {
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
        // If several symbols have the same address, the first is kept.
        symbols.sort_by_key(|symbol| symbol.start);
        symbols.dedup_by_key(|symbol| symbol.start);
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

    /// Returns the function that contains an address: the last one that starts before it.
    pub(crate) fn at(&self, address: Address) -> Symbol {
        let behind = self
            .symbols
            .partition_point(|symbol| symbol.start <= address.0);
        let Some(place) = behind.checked_sub(1) else {
            let reason = self.lacks.clone();
            let unknown = reason.unwrap_or_else(|| "it is before the first function".into());
            return Symbol {
                unknown: Some(unknown),
                ..Symbol::default()
            };
        };
        let PlacedName { from, bytes, .. } = self.symbols[place];
        let name = &self.names[from as usize..][..bytes as usize];
        let plain = rustc_demangle::try_demangle(name).map(|symbol| format!("{symbol:#}"));
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
        let symbols = KernelSymbols::parse(text.as_bytes()).unwrap();
        let name = |&address: &u64| symbols.at(Address(address)).name;
        addresses.iter().map(name).collect()
    }

    #[test]
    fn address_belongs_to_the_last_function_that_starts_before_it() {
        // Symbols of modules come last, at any address.
        let text = "00000200 T schedule\n00000100 t first\n00000200 T alias\n\
                    00000300 t last\n00000180 t of_module\t[nvme]\n";

        let symbol_names = names(text, &[0x100, 0x17f, 0x180, 0x200, 0x2ff, u64::MAX, 0xff]);

        let named = [
            "first",
            "first",
            "of_module",
            "schedule",
            "schedule",
            "last",
        ];
        assert_eq!(symbol_names[..6], named.map(|name| Some(name.to_owned())));
        assert_eq!(symbol_names[6], None);
    }

    /// Checks one address in every 300 of the running kernel.
    #[test]
    fn names_match_those_of_another_reader() {
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

        // Several functions may start at one address; any of them is correct.
        let begins = |address: u64, name: &str| {
            let line = |kind: &str| format!("{address:016x} {kind} {name}");
            let is_it = |line_text: &str| {
                ["T", "t", "W", "w"]
                    .iter()
                    .any(|kind| line_text == line(kind))
            };
            std::fs::read_to_string(FILE).unwrap().lines().any(is_it)
        };
        let differing: Vec<_> = inside
            .iter()
            .zip(&theirs)
            .filter_map(|(&address, theirs)| {
                let name = ours.at(Address(address)).name?;
                let theirs = theirs.as_sym()?;
                let is_it = name == theirs.name || begins(theirs.addr, &name);
                (!is_it).then(|| (address, name, theirs.name.clone()))
            })
            .collect();
        let named = theirs
            .iter()
            .filter(|line_text| line_text.as_sym().is_some())
            .count();
        assert!(named * 10 > inside.len() * 9, "{named} of {}", inside.len());
        assert!(differing.is_empty(), "{differing:?}");
    }

    #[test]
    fn rust_function_names_are_demangled() {
        let text = "00000100 t _RNvCs1234_7mycrate3foo\n";

        assert_eq!(names(text, &[0x100]), [Some("mycrate::foo".to_owned())]);
    }

    #[test]
    fn hidden_addresses_give_a_reason_instead_of_symbols() {
        let hidden = "0000000000000000 T schedule\n0000000000000000 t other\nnonsense\n\n";
        let symbols = KernelSymbols::parse(hidden.as_bytes()).unwrap();

        let symbol = symbols.at(Address(0x100));

        assert_eq!(symbol.name, None);
        assert!(symbol.unknown.unwrap().contains("CAP_SYSLOG"));
    }
}
