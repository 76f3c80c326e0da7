//! Check whether a file is the complete driver, by its headers and names.

/// Maximum size in bytes, larger than any build.
const MAX_BYTES: usize = 1 << 20;
/// `IMAGE_FILE_MACHINE_AMD64`.
const X86_64: u16 = 0x8664;
/// `IMAGE_SUBSYSTEM_NATIVE`: kernel mode.
const NATIVE: u16 = 1;
/// Offset of the field with the offset of the headers.
const HEADERS_FIELD: usize = 0x3c;
/// Offsets from there: machine, number of sections, size of the optional header (the section
/// headers follow it), subsystem, and position and size of the signatures, which are the fifth
/// directory.
const MACHINE: usize = 4;
const SECTIONS: usize = 6;
const OPTIONAL_BYTES: usize = 20;
const OPTIONAL: usize = 24;
const SUBSYSTEM: usize = OPTIONAL + 68;
const SIGNATURES_AT: usize = OPTIONAL + 112 + 4 * 8;
const SIGNATURES: usize = SIGNATURES_AT + 4;
/// Size of a section header; offsets in it of the section's size in the file and its position.
const SECTION: usize = 40;
const SECTION_BYTES: usize = 16;
const SECTION_AT: usize = 20;
/// Name of the device that programs open.
const DEVICE: &str = "\\Device\\wdmlat";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct DriverImage {
    /// Whether it has a signature, by any signer.
    pub(super) is_signed: bool,
}

/// Returns the driver, or the kind of file if it is not the driver.
pub(super) fn read(bytes: &[u8]) -> Result<DriverImage, &'static str> {
    if bytes.len() > MAX_BYTES {
        return Err("it is larger than 1 MiB");
    }
    if !bytes.starts_with(b"MZ") {
        return Err("it is not a Windows program");
    }
    let headers = four(bytes, HEADERS_FIELD).and_then(|offset| bytes.get(offset as usize..));
    let headers = headers.filter(|headers| headers.starts_with(b"PE\0\0"));
    let headers = headers.ok_or("it is not a complete Windows program")?;
    if two(headers, MACHINE) != Some(X86_64) {
        return Err("it is not for 64-bit x86");
    }
    if two(headers, SUBSYSTEM) != Some(NATIVE) {
        return Err("it is a program, not a driver");
    }
    let device: Vec<u8> = DEVICE.encode_utf16().flat_map(u16::to_le_bytes).collect();
    if !bytes.windows(device.len()).any(|offset| offset == device) {
        return Err("it is another driver");
    }
    let signatures = four(headers, SIGNATURES).ok_or("it is truncated within its headers")?;
    if end(headers).is_none_or(|end| end > bytes.len() as u64) {
        return Err("its last bytes are missing");
    }
    Ok(DriverImage {
        is_signed: signatures != 0,
    })
}

/// Returns the end of the last section or of the signatures; `None` if the headers are
/// incomplete.
fn end(headers: &[u8]) -> Option<u64> {
    let part =
        |offset, bytes| Some(u64::from(four(headers, offset)?) + u64::from(four(headers, bytes)?));
    let first = OPTIONAL + usize::from(two(headers, OPTIONAL_BYTES)?);
    let mut end = part(SIGNATURES_AT, SIGNATURES)?;
    for number in 0..usize::from(two(headers, SECTIONS)?) {
        let offset = first + number * SECTION;
        end = end.max(part(offset + SECTION_AT, offset + SECTION_BYTES)?);
    }
    Some(end)
}

fn two(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..offset.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn four(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file that passes the checks: with one section that contains the device name.
    fn driver(machine: u16, subsystem: u16, signatures: u32, device: &str) -> Vec<u8> {
        let name: Vec<u8> = device.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let optional = SIGNATURES + 4 - OPTIONAL;
        let section = 0x40 + OPTIONAL + optional;
        let mut bytes = vec![0; section + SECTION];
        let offset = u32::try_from(bytes.len()).unwrap();
        let length = u32::try_from(name.len()).unwrap();
        let mut put =
            |offset: usize, what: &[u8]| bytes[offset..offset + what.len()].copy_from_slice(what);
        put(0, b"MZ");
        put(HEADERS_FIELD, &0x40_u32.to_le_bytes());
        put(0x40, b"PE\0\0");
        put(0x40 + MACHINE, &machine.to_le_bytes());
        put(0x40 + SUBSYSTEM, &subsystem.to_le_bytes());
        put(0x40 + SECTIONS, &1_u16.to_le_bytes());
        put(
            0x40 + OPTIONAL_BYTES,
            &u16::try_from(optional).unwrap().to_le_bytes(),
        );
        put(section + SECTION_AT, &offset.to_le_bytes());
        put(section + SECTION_BYTES, &length.to_le_bytes());
        put(0x40 + SIGNATURES_AT, &(offset + length).to_le_bytes());
        put(0x40 + SIGNATURES, &signatures.to_le_bytes());
        bytes.extend(name);
        bytes.resize(bytes.len() + signatures as usize, 0);
        bytes
    }

    #[test]
    fn driver_is_recognised_with_its_signature() {
        let is_signed = |size| read(&driver(X86_64, NATIVE, size, DEVICE));

        assert_eq!(is_signed(0), Ok(DriverImage { is_signed: false }));
        assert_eq!(is_signed(1_504), Ok(DriverImage { is_signed: true }));
    }

    #[test]
    fn other_file_is_refused_with_its_kind() {
        let why = |bytes: &[u8]| read(bytes).unwrap_err();

        assert!(why(b"").contains("not a Windows program"));
        assert!(why(b"MZ").contains("not a complete"));
        assert!(why(&driver(0x14c, NATIVE, 0, DEVICE)).contains("64-bit"));
        assert!(why(&driver(X86_64, 3, 0, DEVICE)).contains("not a driver"));
        assert!(why(&driver(X86_64, NATIVE, 0, "\\Device\\other")).contains("another driver"));
        assert!(why(&vec![0; MAX_BYTES + 1]).contains("larger than 1 MiB"));
    }

    #[test]
    fn truncated_file_or_false_headers_are_refused() {
        for signatures in [0, 1] {
            let whole = driver(X86_64, NATIVE, signatures, DEVICE);
            // With a page of other data after its name.
            let mut longer = whole.clone();
            let section = 0x40 + SIGNATURES + 4;
            let length = u32::try_from(DEVICE.len() * 2 + 0x1000).unwrap();
            longer[section + SECTION_BYTES..][..4].copy_from_slice(&length.to_le_bytes());

            for length in 0..whole.len() {
                assert!(read(&whole[..length]).is_err(), "{length} bytes");
            }
            assert!(read(&whole).is_ok());
            assert_eq!(read(&longer), Err("its last bytes are missing"));
        }
        let whole = driver(X86_64, NATIVE, 1, DEVICE);
        let mut lying = whole;
        lying[HEADERS_FIELD..HEADERS_FIELD + 4].fill(0xff);

        assert_eq!(read(&lying), Err("it is not a complete Windows program"));
    }
}
