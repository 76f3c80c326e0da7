//! What stands for a name.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::{Address, AskedApplication};

use super::known;

/// What sort of thing a name is of; each sort is numbered by itself.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NameSort {
    /// A machine.
    Host,
    /// A distribution that few have.
    Distribution,
    /// A word in the version of a kernel that somebody built.
    Build,
    /// An option of the kernel's command line that does not bear on latency.
    Option,
    /// A thread.
    Thread,
    /// A program or library.
    Program,
    /// A function of one.
    Function,
    /// A device.
    Device,
    /// A control group.
    Group,
    /// A load.
    Load,
    /// What a load counts.
    Unit,
    /// An application.
    Application,
    /// An argument of a command.
    Argument,
    /// A word in a sentence.
    Word,
}

impl NameSort {
    /// What it is called; names of this sort become `host-1` and so on.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Distribution => "distribution",
            Self::Build => "build",
            Self::Option => "option",
            Self::Thread => "thread",
            Self::Program => "program",
            Self::Function => "function",
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

/// Names that are laggard's own, and so nobody's secret.
#[derive(Clone, Debug, Default)]
pub struct PublicNames {
    /// Of loads.
    pub loads: BTreeSet<String>,
    /// Applications, with their figures: one that somebody called like one of them
    /// is another.
    pub applications: Vec<AskedApplication>,
}

/// Replaces names, the same by the same.
///
/// A name that is not known to be nobody's secret is replaced: what a later
/// kernel calls its threads is a name too many replaced, not one too few.
#[derive(Debug, Default)]
pub struct Redactor {
    pub(super) public: PublicNames,
    names: BTreeMap<(NameSort, String), u64>,
    numbered: BTreeMap<NameSort, u64>,
    addresses: BTreeMap<(Option<u32>, Address), Address>,
    in_space: BTreeMap<Option<u32>, u64>,
    kept: BTreeSet<String>,
    /// laggard's own programs in the kernel.
    pub(super) programs: BTreeSet<String>,
}

/// Where the kernel's addresses begin in the copy, and a process's.
const KERNEL: u64 = 0xffff_ffff_8000_0000;
const USER: u64 = 0x1000;
/// How far apart they are.
const APART: u64 = 16;

impl Redactor {
    /// One that keeps the names that are laggard's own.
    #[must_use]
    pub fn new(public: PublicNames) -> Self {
        Self {
            public,
            ..Self::default()
        }
    }

    /// How many names of each sort were replaced.
    pub fn replaced(&self) -> impl Iterator<Item = (NameSort, u64)> + '_ {
        self.numbered.iter().map(|(&sort, &count)| (sort, count))
    }

    /// Modules of the kernel and devices whose names were kept: a reader wants
    /// them, and few of them tell anything else.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }

    /// What stands for a name; nothing for nothing.
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

    /// The name itself where it is `known`.
    pub(super) fn unless(&mut self, known: bool, sort: NameSort, name: &str) -> String {
        if known {
            name.into()
        } else {
            self.instead(sort, name)
        }
    }

    /// Notes that a name was kept that may be worth a look.
    pub(super) fn keep(&mut self, name: &str) -> String {
        self.kept.insert(name.into());
        name.into()
    }

    /// What stands for an address in the kernel (`None`) or a process: where
    /// the kernel lies is what an attacker looks for. 0 is none.
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

    /// A sentence of laggard's, in which only its own words and numbers stay.
    pub(super) fn sentence(&mut self, text: &str) -> String {
        let replaced = text.split(' ').map(|word| self.word(word));
        replaced.collect::<Vec<_>>().join(" ")
    }

    fn word(&mut self, word: &str) -> String {
        let is_core = |one: char| !"(),;:.'\"`".contains(one);
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
    fn the_same_name_is_replaced_by_the_same_and_another_by_another() {
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
    fn of_a_sentence_only_our_words_and_numbers_stay() {
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
    fn sentences_without_a_name_stay_what_they_are() {
        let mut redactor = Redactor::default();
        for text in [
            "stages not asked for: raise, softirq",
            "this program was started under SCHED_FIFO 50, and went back to normal scheduling: of its threads only those that measure have a policy of their own, and a load has none",
            "the kernel's timerlat tracer runs meanwhile, with a thread of SCHED_FIFO 95 on each CPU every 1ms, without dither; it makes every interrupt and switch a little dearer",
            "activations begin when interrupt 21 is raised, not at a timer's expiry; its handler runs in the interrupt; the thread waits on CPU 1",
            "timer softirqs run in threads here (ktimers/0, ktimers/1), which wait for every thread above them",
            "there are no stack samples: permission denied",
            "BPF cannot be used (operation not permitted), so only expiry and user stage are measured",
        ] {
            assert_eq!(redactor.sentence(text), text);
        }
    }

    #[test]
    fn addresses_tell_nothing_of_where_code_lies() {
        let mut redactor = Redactor::default();
        let mut at = |process, address| redactor.address(process, Address(address)).0;

        assert_eq!(at(None, 0), 0);
        assert_eq!(at(None, 0xffff_ffff_a123_4567), KERNEL + APART);
        assert_eq!(at(Some(7), 0x5555_5555_0000), USER + APART);
        assert_eq!(at(Some(8), 0x5555_5555_0000), USER + APART);
        assert_eq!(at(None, 0xffff_ffff_a123_4567), KERNEL + APART);
        assert_eq!(at(None, 0xffff_ffff_a123_4568), KERNEL + 2 * APART);
    }
}
