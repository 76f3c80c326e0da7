//! Real traces, unpacked.

pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/traces");
    let packed = std::fs::read(format!("{folder}/{name}.etl.zst")).unwrap();
    zstd::decode_all(packed.as_slice()).unwrap()
}
