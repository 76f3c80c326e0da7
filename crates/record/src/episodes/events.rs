//! Fast reading of the events of an episode, which take most of its line.
//!
//! [`split`] accepts only the form that [`super::EpisodeWriter`] writes. For any other text
//! it returns `None`; serde then reads the line and decides whether it is an episode.

use laggard_model::{Activity, Address, FlightEvent, Happening, Nanos, Tid, Vector};

/// Start of the trace data up to its events.
const KEY: &str = "\"events\":[";

/// Length of a short event, which limits the number of events in a text.
const EVENT_BYTES: usize = 64;

/// Divides a line into its events and an episode without events.
pub(super) fn split(line: &str) -> Option<(String, Vec<FlightEvent>)> {
    let (head, _) = line.split_once(KEY)?;
    // The events must belong to the trace data: an object in the outer one, after the stages.
    let (before, evidence) = head.rsplit_once('{')?;
    let depths = (before.matches('{').count(), before.matches('}').count());
    if !before.ends_with("\"evidence\":") || depths != (2, 1) || evidence.contains('}') {
        return None;
    }
    let mut cursor = Cursor(&line[head.len() + KEY.len()..]);
    let events = cursor.events()?;
    let mut rest = String::with_capacity(head.len() + KEY.len() + cursor.0.len() + 1);
    for part in [head, KEY, "]", cursor.0] {
        rest.push_str(part);
    }
    Some((rest, events))
}

/// Text that is not read yet.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn events(&mut self) -> Option<Vec<FlightEvent>> {
        let mut events = Vec::with_capacity(self.0.len() / EVENT_BYTES);
        if self.skip("]").is_some() {
            return Some(events);
        }
        loop {
            events.push(self.event()?);
            if self.skip(",").is_none() {
                self.skip("]")?;
                return Some(events);
            }
        }
    }

    fn event(&mut self) -> Option<FlightEvent> {
        self.skip("{\"at_ns\":")?;
        let at_ns = Nanos::from_ns(self.number()?);
        self.skip(",\"what\":{\"")?;
        let what = if self.skip("switch\":{\"tid\":").is_some() {
            self.switch()?
        } else if self.skip("begin\":").is_some() {
            Happening::Begin(self.activity()?)
        } else {
            self.skip("end\":")?;
            Happening::End(self.activity()?)
        };
        self.skip("}}")?;
        Some(FlightEvent { at_ns, what })
    }

    fn switch(&mut self) -> Option<Happening> {
        let tid = Tid(self.small()?);
        self.skip(",\"name\":")?;
        let name = self.text()?.to_owned();
        self.skip(",\"priority\":")?;
        let priority = self.signed()?;
        let priority_before = match self.skip(",\"priority_before\":") {
            Some(()) => Some(self.signed()?),
            None => None,
        };
        let before = match self.skip(",\"before\":") {
            Some(()) => Some(Tid(self.small()?)),
            None => None,
        };
        self.skip(",\"preempted\":")?;
        let preempted = self.skip("true").is_some();
        if !preempted {
            self.skip("false")?;
        }
        self.skip("}")?;
        Some(Happening::Switch {
            tid,
            name,
            priority,
            priority_before,
            before,
            preempted,
        })
    }

    fn activity(&mut self) -> Option<Activity> {
        if self.skip("\"page_fault\"").is_some() {
            return Some(Activity::PageFault);
        }
        self.skip("{")?;
        let kind = self.text()?;
        self.skip(":")?;
        let activity = match kind {
            "irq" => Activity::Irq(self.small()?),
            "vector" => Activity::Vector(self.vector()?),
            "softirq" => Activity::Softirq(self.small()?),
            "isr" => Activity::Isr(self.address()?),
            "dpc" => Activity::Dpc(self.address()?),
            "hrtimer" => Activity::Hrtimer(self.address()?),
            "timer" => Activity::Timer(self.address()?),
            "work" => Activity::Work(self.address()?),
            "poll" => Activity::Poll(self.address()?),
            "function" => Activity::Function(self.address()?),
            "idle" => Activity::Idle(self.small()?),
            _ => return None,
        };
        self.skip("}")?;
        Some(activity)
    }

    fn vector(&mut self) -> Option<Vector> {
        Some(match self.text()? {
            "local_timer" => Vector::LocalTimer,
            "reschedule" => Vector::Reschedule,
            "call_function" => Vector::CallFunction,
            "call_function_single" => Vector::CallFunctionSingle,
            "irq_work" => Vector::IrqWork,
            "thermal" => Vector::Thermal,
            _ => return None,
        })
    }

    fn address(&mut self) -> Option<Address> {
        self.skip("\"0x")?;
        let (number, digits) = self.digits(16);
        self.skip("\"")?;
        (1..=16).contains(&digits).then_some(Address(number))
    }

    /// Returns a number without a sign, fraction or exponent. One of 20 digits can be too
    /// large and is left to serde.
    fn number(&mut self) -> Option<u64> {
        let has_leading_zero = self.0.as_bytes().first() == Some(&b'0');
        let (number, digits) = self.digits(10);
        let is_plain = (1..20).contains(&digits) && (digits == 1 || !has_leading_zero);
        is_plain.then_some(number)
    }

    /// Returns a number and its number of digits.
    #[inline(always)]
    fn digits(&mut self, radix: u32) -> (u64, usize) {
        let (mut number, mut digits) = (0_u64, 0);
        let digit = |&byte: &u8| char::from(byte).to_digit(radix);
        while let Some(digit) = self.0.as_bytes().get(digits).and_then(digit) {
            number = number.wrapping_mul(radix.into()).wrapping_add(digit.into());
            digits += 1;
        }
        self.0 = &self.0[digits..];
        (number, digits)
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn signed(&mut self) -> Option<i16> {
        let is_negative = self.skip("-").is_some();
        let size = i16::try_from(self.number()?).ok()?;
        match (is_negative, size) {
            // JSON has a negative zero, which is not an integer.
            (true, 0) => None,
            (true, size) => Some(-size),
            (false, size) => Some(size),
        }
    }

    /// Returns a string without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.skip("\"")?;
        let is_end = |byte: u8| byte == b'"' || byte == b'\\' || byte < b' ';
        let length = self.0.bytes().position(is_end)?;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        self.skip("\"")?;
        Some(text)
    }

    /// `strip_prefix` would be a call if this crate is optimised for size.
    #[inline(always)]
    fn skip(&mut self, text: &str) -> Option<()> {
        let (start, rest) = self.0.split_at_checked(text.len())?;
        (start == text).then(|| self.0 = rest)
    }
}
