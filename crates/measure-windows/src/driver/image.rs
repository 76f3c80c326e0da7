//! Whether a file is the driver, all of it, by what its headers and its names say.

/// More than any build of it is long.
const MOST_BYTES: usize = 1 << 20;
/// `IMAGE_FILE_MACHINE_AMD64`.
const X86_64: u16 = 0x8664;
/// `IMAGE_SUBSYSTEM_NATIVE`: of the kernel.
const NATIVE: u16 = 1;
/// Where the file says at which byte its headers begin.
const HEADERS_AT: usize = 0x3c;
/// From there on: the machine, how many sections there are, how long the optional header
/// is, behind which theirs follow, the subsystem, and where the signatures lie and how
/// long they are, which are the fifth of the directories.
const MACHINE: usize = 4;
const SECTIONS: usize = 6;
const OPTIONAL_BYTES: usize = 20;
const OPTIONAL: usize = 24;
const SUBSYSTEM: usize = OPTIONAL + 68;
const SIGNATURES_AT: usize = OPTIONAL + 112 + 4 * 8;
const SIGNATURES: usize = SIGNATURES_AT + 4;
/// How long the header of a section is; from its begin on, how many bytes of the file it
/// has, and where.
const SECTION: usize = 40;
const SECTION_BYTES: usize = 16;
const SECTION_AT: usize = 20;
/// What programs open.
const DEVICE: &str = "\\Device\\wdmlat";

/// A file that is the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct DriverImage {
    /// Whether it has a signature, whosever.
    pub(super) is_signed: bool,
}

/// What the file is; why it is not the driver where it is not.
pub(super) fn read(bytes: &[u8]) -> Result<DriverImage, &'static str> {
    if bytes.len() > MOST_BYTES {
        return Err("it is longer than 1 MiB");
    }
    if !bytes.starts_with(b"MZ") {
        return Err("it is no program of Windows");
    }
    let headers = four(bytes, HEADERS_AT).and_then(|at| bytes.get(at as usize..));
    let headers = headers.filter(|headers| headers.starts_with(b"PE\0\0"));
    let headers = headers.ok_or("it is no whole program of Windows")?;
    if two(headers, MACHINE) != Some(X86_64) {
        return Err("it is not for 64 bit x86");
    }
    if two(headers, SUBSYSTEM) != Some(NATIVE) {
        return Err("it is a program, no driver");
    }
    let device: Vec<u8> = DEVICE.encode_utf16().flat_map(u16::to_le_bytes).collect();
    if !bytes.windows(device.len()).any(|at| at == device) {
        return Err("it is another driver");
    }
    let signatures = four(headers, SIGNATURES).ok_or("it ends within its headers")?;
    if end(headers).is_none_or(|end| end > bytes.len() as u64) {
        return Err("its last bytes are missing");
    }
    Ok(DriverImage {
        is_signed: signatures != 0,
    })
}

/// Where the last of its sections ends, and what signs it; `None`: within the headers.
fn end(headers: &[u8]) -> Option<u64> {
    let part = |at, bytes| Some(u64::from(four(headers, at)?) + u64::from(four(headers, bytes)?));
    let first = OPTIONAL + usize::from(two(headers, OPTIONAL_BYTES)?);
    let mut end = part(SIGNATURES_AT, SIGNATURES)?;
    for number in 0..usize::from(two(headers, SECTIONS)?) {
        let at = first + number * SECTION;
        end = end.max(part(at + SECTION_AT, at + SECTION_BYTES)?);
    }
    Some(end)
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn four(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the driver is, as far as this looks: with one section, that has its name.
    fn driver(machine: u16, subsystem: u16, signatures: u32, device: &str) -> Vec<u8> {
        let name: Vec<u8> = device.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let optional = SIGNATURES + 4 - OPTIONAL;
        let section = 0x40 + OPTIONAL + optional;
        let mut bytes = vec![0; section + SECTION];
        let at = u32::try_from(bytes.len()).unwrap();
        let length = u32::try_from(name.len()).unwrap();
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, b"MZ");
        put(HEADERS_AT, &0x40_u32.to_le_bytes());
        put(0x40, b"PE\0\0");
        put(0x40 + MACHINE, &machine.to_le_bytes());
        put(0x40 + SUBSYSTEM, &subsystem.to_le_bytes());
        put(0x40 + SECTIONS, &1_u16.to_le_bytes());
        put(
            0x40 + OPTIONAL_BYTES,
            &u16::try_from(optional).unwrap().to_le_bytes(),
        );
        put(section + SECTION_AT, &at.to_le_bytes());
        put(section + SECTION_BYTES, &length.to_le_bytes());
        put(0x40 + SIGNATURES_AT, &(at + length).to_le_bytes());
        put(0x40 + SIGNATURES, &signatures.to_le_bytes());
        bytes.extend(name);
        bytes.resize(bytes.len() + signatures as usize, 0);
        bytes
    }

    #[test]
    fn the_driver_is_known_and_whether_it_is_signed() {
        let is_signed = |size| read(&driver(X86_64, NATIVE, size, DEVICE));

        assert_eq!(is_signed(0), Ok(DriverImage { is_signed: false }));
        assert_eq!(is_signed(1_504), Ok(DriverImage { is_signed: true }));
    }

    #[test]
    fn what_is_not_the_driver_is_refused_with_what_it_is() {
        let why = |bytes: &[u8]| read(bytes).unwrap_err();

        assert!(why(b"").contains("no program of Windows"));
        assert!(why(b"MZ").contains("no whole program"));
        assert!(why(&driver(0x14c, NATIVE, 0, DEVICE)).contains("64 bit"));
        assert!(why(&driver(X86_64, 3, 0, DEVICE)).contains("no driver"));
        assert!(why(&driver(X86_64, NATIVE, 0, "\\Device\\other")).contains("another driver"));
        assert!(why(&vec![0; MOST_BYTES + 1]).contains("longer than 1 MiB"));
    }

    #[test]
    fn a_file_that_was_cut_or_lies_about_its_headers_is_refused() {
        for signatures in [0, 1] {
            let whole = driver(X86_64, NATIVE, signatures, DEVICE);
            // With a page of something else behind its name.
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
        lying[HEADERS_AT..HEADERS_AT + 4].fill(0xff);

        assert_eq!(read(&lying), Err("it is no whole program of Windows"));
    }
}
