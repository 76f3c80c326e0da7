//! Damaged traces: an error or a counted shortfall, without panic, hang or excessive
//! memory.

use std::io::Cursor;
use std::sync::LazyLock;

use crate::traces::unpacked;
use laggard_etl::{EtlError, Trace, TraceTally};
use proptest::prelude::{ProptestConfig, any, prop, proptest};

/// Start of both traces: compressed and not, a few buffers each.
static BEGINNINGS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let beginning = |name, bytes| unpacked(name)[..bytes].to_vec();
    [
        beginning("net-kernel", 64_024),
        beginning("diaghub.kernel.1", 3 * 65_536),
    ]
});

/// Returns the number of events and the unreadable parts.
fn read(bytes: Vec<u8>) -> Result<(u64, u64, u64), EtlError> {
    let mut trace = Trace::open(Cursor::new(bytes))?;
    let mut tally = TraceTally::new(trace.header());
    trace.visit(|event| tally.add(event))?;
    Ok((tally.events, trace.damage().buffers, trace.damage().bytes))
}

#[test]
fn truncated_trace_is_read_up_to_its_end_and_the_rest_counted() {
    for whole in BEGINNINGS.iter() {
        let (total, ..) = read(whole.clone()).unwrap();
        for length in (0..whole.len()).step_by(whole.len() / 97) {
            match read(whole[..length].to_vec()) {
                Ok((events, buffers, bytes)) => {
                    assert!(
                        events < total && buffers == 0,
                        "{length}: {events} {buffers}"
                    );
                    assert!(bytes > 0 || events > 0, "{length}");
                }
                Err(EtlError::Short { .. } | EtlError::Foreign) => {}
                Err(err) => panic!("{length}: {err}"),
            }
        }
    }
}

#[test]
fn other_file_is_refused_with_the_expected_one() {
    for foreign in [vec![0; 5_000], vec![0xff; 5_000], b"PK\x03\x04".repeat(90)] {
        let refused = read(foreign).unwrap_err().to_string();

        assert!(
            refused.contains("not a Windows trace (at byte 0)"),
            "{refused}"
        );
    }
    let short = read(b"not much".to_vec()).unwrap_err().to_string();
    assert_eq!(
        short,
        "not a Windows trace: the file has 8 bytes; name a file that WPR, xperf or PerfView wrote"
    );
}

#[test]
fn oversized_buffers_are_refused_or_skipped() {
    let mut bytes = BEGINNINGS[0].clone();
    // A buffer of 80 bytes that declares 16 MB.
    let mut bomb = bytes[512..592].to_vec();
    bomb[..4].copy_from_slice(&80_u32.to_le_bytes());
    bomb[48..52].copy_from_slice(&(16_u32 << 20).to_le_bytes());
    bytes.truncate(512);
    for _ in 0..2_000 {
        bytes.extend(&bomb);
    }

    let (events, buffers, left) = read(bytes).unwrap();

    assert_eq!(events, 1);
    assert!(buffers > 0 && left > 0, "{buffers} {left}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn changed_bytes_are_an_error_or_counted(
        which in 0..2_usize,
        at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        length in any::<prop::sample::Index>(),
    ) {
        let mut bytes = BEGINNINGS[which].clone();
        let cut = bytes.len() - length.index(bytes.len()) / 4;
        bytes.truncate(cut);
        for (place, byte) in at {
            // Half of the changes are in headers, because damage to a header has the largest
            // effect.
            let place = place.index(2 * bytes.len());
            let place = if place < bytes.len() { place } else { place % 600 };
            bytes[place] = byte;
        }
        match read(bytes) {
            Ok((events, ..)) => assert!(events < 1_000_000),
            Err(err) => assert!(!err.to_string().is_empty()),
        }
    }
}
