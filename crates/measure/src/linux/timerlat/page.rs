//! Pages of the kernel's trace ring buffer, as `trace_pipe_raw` returns them.
//!
//! The layout is described in Linux, `include/linux/ring_buffer.h` and tracefs's
//! `events/header_page`, `events/header_event`. A page consists of the time of its first record
//! (u64), the length of its data (u64, with flags), and records. A record is a u32 with the kind
//! or length in the lower 5 bits and the time since the previous record in the upper 27, followed
//! by the data.

/// Size of a page, unless the user changed it. laggard never requests more.
pub(super) const PAGE_BYTES: usize = 4096;

const HEADER_BYTES: usize = 16;
/// Mask of the length; the upper bits are flags.
const LENGTH_MASK: u64 = (1 << 30) - 1;
/// Kinds of records, which are the values from here up. Smaller values are the number of data
/// words; for 0 the first word holds the length.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Number of bits of the time in a record's first word.
const DELTA_BITS: u32 = 27;
/// Mask of the 59 bits of a time stamp; the upper bits come from the page's time.
const STAMP_MASK: u64 = (1 << 59) - 1;

/// Time and data of a record.
pub(super) type Record<'a> = (u64, &'a [u8]);

/// Returns the records of a page in order. If the page ends within a record, that record is
/// omitted.
pub(super) fn records(page: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let word = |offset: usize| {
        Some(u64::from_ne_bytes(
            page.get(offset..offset + 8)?.try_into().ok()?,
        ))
    };
    let length = word(8).map_or(0, |length| length & LENGTH_MASK);
    let end = usize::try_from(length).map_or(0, |length| HEADER_BYTES + length);
    Records {
        data: page.get(HEADER_BYTES..end.min(page.len())).unwrap_or(&[]),
        time: word(0).unwrap_or(0),
    }
}

struct Records<'a> {
    data: &'a [u8],
    time: u64,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let first = self.word()?;
            let (kind, delta) = (first & 31, u64::from(first >> 5));
            match kind {
                TIME_EXTEND => self.time += delta + (u64::from(self.word()?) << DELTA_BITS),
                TIME_STAMP => {
                    let stamp = delta + (u64::from(self.word()?) << DELTA_BITS);
                    self.time = self.time & !STAMP_MASK | stamp;
                }
                // Rest of the page, or a record that was discarded.
                PADDING if delta == 0 => return None,
                PADDING => {
                    let bytes = self.word()? as usize;
                    self.bytes(bytes.checked_sub(4)?)?;
                }
                _ => {
                    self.time += delta;
                    let bytes = match kind {
                        0 => (self.word()? as usize).checked_sub(4)?,
                        words => words as usize * 4,
                    };
                    // Records start at multiples of four bytes.
                    let data = self.bytes(bytes.next_multiple_of(4))?;
                    return Some((self.time, data));
                }
            }
        }
    }
}

impl<'a> Records<'a> {
    fn word(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.data.split_at_checked(count)?;
        self.data = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(time: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((words.len() as u64 * 4).to_ne_bytes());
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page
    }

    #[test]
    fn times_accumulate_over_records_and_extensions() {
        let page = page(
            1_000,
            &[
                1 | 5 << 5, // 5 ns later, one word
                7,
                TIME_EXTEND | 3 << 5, // 3 + 2 * 2^27 ns later
                2,
                2, // immediately, two words
                8,
                9,
                PADDING,
                99,
            ],
        );

        let contents: Vec<(u64, usize)> = records(&page)
            .map(|(time, data)| (time, data.len()))
            .collect();

        assert_eq!(contents, [(1_005, 4), (1_008 + (2 << 27), 8)]);
    }

    #[test]
    fn record_may_hold_its_length_and_be_discarded() {
        let page = page(0, &[PADDING | 1 << 5, 8, 77, 0, 12, 1, 2, 1 | 4 << 5, 3]);

        let contents: Vec<(u64, usize)> = records(&page)
            .map(|(time, data)| (time, data.len()))
            .collect();

        assert_eq!(contents, [(0, 8), (4, 4)]);
    }

    #[test]
    fn flags_above_the_length_are_ignored() {
        let mut page = page(0, &[1, 7]);
        page[8..16].copy_from_slice(&(8_u64 | 3 << 30).to_ne_bytes());

        assert_eq!(records(&page).count(), 1);
    }

    #[test]
    fn truncated_page_gives_its_complete_records() {
        let whole = page(0, &[1, 7, 2, 8, 9]);

        for length in 0..whole.len() {
            let contents = records(&whole[..length]).count();
            assert_eq!(contents, usize::from(length >= 24), "{length} bytes");
        }
    }
}
