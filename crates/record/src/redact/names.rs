//! Replacements of names.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::{Address, AskedApplication};

use super::known;

/// Kind of a name; each kind has separate numbers.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NameSort {
    /// Machine.
    Host,
    /// Rare distribution.
    Distribution,
    /// Word in the version of a custom kernel.
    Build,
    /// Option of the kernel's command line that does not affect latency.
    Option,
    /// Thread.
    Thread,
    /// Program or library.
    Program,
    /// Function of a program or library.
    Function,
    /// File.
    File,
    /// Device.
    Device,
    /// Control group.
    Group,
    /// Load.
    Load,
    /// Unit of a load.
    Unit,
    /// Application.
    Application,
    /// Argument of a command.
    Argument,
    /// Word in a sentence.
    Word,
}

impl NameSort {
    /// Returns the word in the replacements: `host` for `host-1` and so on.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Distribution => "distribution",
            Self::Build => "build",
            Self::Option => "option",
            Self::Thread => "thread",
            Self::Program => "program",
            Self::Function => "function",
            Self::File => "file",
            Self::Device => "device",
            Self::Group => "group",
            Self::Load => "load",
            Self::Unit => "unit",
            Self::Application => "application",
            Self::Argument => "argument",
            Self::Word => "word",
        }
    }
}

/// Names of laggard, which are public.
#[derive(Clone, Debug, Default)]
pub struct PublicNames {
    /// Names of loads.
    pub loads: BTreeSet<String>,
    /// Applications with their figures: a private application can have the same name.
    pub applications: Vec<AskedApplication>,
}

/// Consistent replacement of names.
///
/// Unknown names are replaced: an unknown kernel thread name is replaced unnecessarily,
/// but a private name is never kept.
#[derive(Debug, Default)]
pub struct Redactor {
    pub(super) public: PublicNames,
    names: BTreeMap<(NameSort, String), u64>,
    numbered: BTreeMap<NameSort, u64>,
    addresses: BTreeMap<(Option<u32>, Address), Address>,
    in_space: BTreeMap<Option<u32>, u64>,
    kept: BTreeSet<String>,
    /// BPF programs of laggard.
    pub(super) programs: BTreeSet<String>,
}

/// Start of the kernel's addresses in the copy, and of a process's.
const KERNEL: u64 = 0xffff_ffff_8000_0000;
const USER: u64 = 0x1000;
/// Distance of the addresses.
const APART: u64 = 16;

impl Redactor {
    /// Creates a redactor that keeps the names of laggard.
    #[must_use]
    pub fn new(public: PublicNames) -> Self {
        Self {
            public,
            ..Self::default()
        }
    }

    /// Returns the number of replaced names of each kind.
    pub fn replaced(&self) -> impl Iterator<Item = (NameSort, u64)> + '_ {
        self.numbered.iter().map(|(&sort, &count)| (sort, count))
    }

    /// Returns the kernel modules and devices whose names were kept. They are useful to
    /// a reader, and few are private.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }

    /// Returns the replacement of a name; an empty name stays empty.
    pub(super) fn instead(&mut self, sort: NameSort, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let number = *self.names.entry((sort, name.into())).or_insert_with(|| {
            let number = self.numbered.entry(sort).or_default();
            *number += 1;
            *number
        });
        format!("{}-{number}", sort.word())
    }

    /// Returns the name unchanged if it is `is_public`.
    pub(super) fn unless(&mut self, is_public: bool, sort: NameSort, name: &str) -> String {
        if is_public {
            name.into()
        } else {
            self.instead(sort, name)
        }
    }

    /// Records that a name was kept that a user may want to check.
    pub(super) fn keep(&mut self, name: &str) -> String {
        self.kept.insert(name.into());
        name.into()
    }

    /// Returns the replacement of an address in the kernel (`None`) or a process,
    /// because the location of the kernel is useful to an attacker. 0 means no address.
    pub(super) fn address(&mut self, process: Option<u32>, address: Address) -> Address {
        if address.0 == 0 {
            return address;
        }
        *self.addresses.entry((process, address)).or_insert_with(|| {
            let number = self.in_space.entry(process).or_default();
            *number += 1;
            let start = if process.is_none() { KERNEL } else { USER };
            Address(start + *number * APART)
        })
    }

    /// Returns a sentence from laggard with only public words and numbers.
    pub(super) fn sentence(&mut self, text: &str) -> String {
        let replaced = text.split(' ').map(|word| self.word(word));
        replaced.collect::<Vec<_>>().join(" ")
    }

    fn word(&mut self, word: &str) -> String {
        let is_core = |character: char| !"(),;:.'\"`".contains(character);
        let Some(begin) = word.find(is_core) else {
            return word.into();
        };
        let end = word.rfind(is_core).map_or(begin, |last| {
            last + word[last..].chars().next().map_or(0, char::len_utf8)
        });
        let core = &word[begin..end];
        let is_known = known::is_plain_word(core) || known::is_kernel_thread(core);
        let instead = self.unless(is_known, NameSort::Word, core);
        format!("{}{instead}{}", &word[..begin], &word[end..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_equal_replacements() {
        let mut redactor = Redactor::default();
        let mut thread = |name| redactor.instead(NameSort::Thread, name);

        assert_eq!(thread("alice"), "thread-1");
        assert_eq!(thread("bob"), "thread-2");
        assert_eq!(thread("alice"), "thread-1");
        assert_eq!(thread(""), "");
        assert_eq!(redactor.instead(NameSort::Load, "alice"), "load-1");
        let counts: Vec<_> = redactor.replaced().collect();
        assert_eq!(counts, [(NameSort::Thread, 2), (NameSort::Load, 1)]);
    }

    #[test]
    fn sentence_keeps_only_public_words_and_numbers() {
        let mut redactor = Redactor::default();
        for (text, expected) in [
            (
                "BPF programs of alice (process 51) on sched_switch (payroll) and 2 more",
                "BPF programs of word-1 (process 51) on sched_switch (word-2) and 2 more",
            ),
            (
                "/home/alice/my secret: no such file or directory (os error 2)",
                "word-3 word-4: no such file or directory (os error 2)",
            ),
            ("killed by signal 9", "killed by signal 9"),
            ("`alice`, (ünï)", "`word-1`, (word-5)"),
        ] {
            assert_eq!(redactor.sentence(text), expected);
        }
    }

    #[test]
    fn sentences_without_a_name_stay_unchanged() {
        let mut redactor = Redactor::default();
        for text in [
            "stages not requested: raise, softirq",
            "the kernel's timerlat tracer runs during the measurement, with a SCHED_FIFO 95 thread on each CPU every 1ms without dither; it adds a little time to every interrupt and context switch",
            "timer softirqs run in threads on this machine (ktimers/0, ktimers/1), which wait for every thread of higher priority",
            "there are no stack samples: permission denied",
            "other programs started to trace or sample this machine during the measurement, which delays wakeups",
            "cannot examine the process: it did not respond for 2s",
            "the file changed during the measurement",
        ] {
            assert_eq!(redactor.sentence(text), text);
        }
    }

    #[test]
    fn addresses_do_not_reveal_the_location_of_code() {
        let mut redactor = Redactor::default();
        let mut replace = |process, address| redactor.address(process, Address(address)).0;

        assert_eq!(replace(None, 0), 0);
        assert_eq!(replace(None, 0xffff_ffff_a123_4567), KERNEL + APART);
        assert_eq!(replace(Some(7), 0x5555_5555_0000), USER + APART);
        assert_eq!(replace(Some(8), 0x5555_5555_0000), USER + APART);
        assert_eq!(replace(None, 0xffff_ffff_a123_4567), KERNEL + APART);
        assert_eq!(replace(None, 0xffff_ffff_a123_4568), KERNEL + 2 * APART);
    }
}
