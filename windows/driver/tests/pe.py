"""What Windows 10 and 11, with memory integrity, ask of a driver's image.

`faults(image)` says in words what is wrong with a 64 bit PE image; nothing for
one that can be loaded. It reads the file alone. The numbers are those of
Microsoft's PE format, sections "Optional Header" and "Section Table".
"""

import struct

EXECUTE, WRITE = 0x2000_0000, 0x8000_0000
HIGH_ENTROPY, DYNAMIC_BASE, NX, WDM = 0x0020, 0x0040, 0x0100, 0x2000
RELOCS_STRIPPED, IS_DLL = 0x0001, 0x2000
EXPORTS, IMPORTS, EXCEPTIONS, RELOCATIONS = 0, 1, 3, 5
PAGE = 0x1000
MAY_IMPORT_FROM = {"ntoskrnl.exe", "hal.dll"}


class Image:
    """The headers of a PE image; `struct.error` or ValueError if it is none."""

    def __init__(self, data):
        self.data = data
        self.pe = struct.unpack_from("<I", data, 0x3C)[0]
        if data[:2] != b"MZ" or data[self.pe : self.pe + 4] != b"PE\0\0":
            raise ValueError("no PE image")
        self.machine, sections = struct.unpack_from("<HH", data, self.pe + 4)
        optional_size, self.characteristics = struct.unpack_from("<HH", data, self.pe + 20)
        self.optional = self.pe + 24
        if self.u16(self.optional) != 0x20B:
            raise ValueError("no 64 bit image")
        self.entry = self.u32(self.optional + 16)
        self.alignment = self.u32(self.optional + 32)
        self.checksum_at = self.optional + 64
        self.subsystem, self.flags = struct.unpack_from("<HH", data, self.optional + 68)
        first = self.optional + optional_size
        self.sections = [self.section(first + 40 * n) for n in range(sections)]

    def u16(self, at):
        return struct.unpack_from("<H", self.data, at)[0]

    def u32(self, at):
        return struct.unpack_from("<I", self.data, at)[0]

    def section(self, at):
        name = self.data[at : at + 8].rstrip(b"\0").decode()
        size, rva, raw_size, raw = struct.unpack_from("<IIII", self.data, at + 8)
        if raw + raw_size > len(self.data):
            raise ValueError(f"{name} ends behind the file")
        return {"name": name, "rva": rva, "size": size, "raw": raw, "raw_size": raw_size,
                "flags": self.u32(at + 36), "at": at}

    def directory(self, number):
        """Where a data directory's entry lies in the file, its RVA and its size."""
        at = self.optional + 112 + 8 * number
        return at, *struct.unpack_from("<II", self.data, at)

    def offset(self, rva):
        """Where in the file the byte at `rva` lies."""
        for section in self.sections:
            if section["rva"] <= rva < section["rva"] + section["raw_size"]:
                return section["raw"] + rva - section["rva"]
        raise ValueError(f"no section has the address {rva:#x}")

    def libraries(self):
        _, rva, _ = self.directory(IMPORTS)
        at = self.offset(rva)
        while name := self.u32(at + 12):
            start = self.offset(name)
            yield self.data[start : self.data.index(b"\0", start)].decode()
            at += 20

    def checksum(self):
        """The sum that the header should have, by the algorithm of ImageHlp."""
        data = bytearray(self.data)
        data[self.checksum_at : self.checksum_at + 4] = bytes(4)
        data += bytes(len(data) % 2)
        total = 0
        for (word,) in struct.iter_unpack("<H", data):
            total += word
            total = (total & 0xFFFF) + (total >> 16)
        return total + len(self.data)

    def relocations(self):
        """How many addresses (of type DIR64) are corrected when it is loaded elsewhere."""
        _, rva, size = self.directory(RELOCATIONS)
        if not size:
            return 0
        at, count = self.offset(rva), 0
        end = at + size
        while at + 8 <= end:
            block = self.u32(at + 4)
            if block < 8:
                raise ValueError("a block of relocations without a size")
            count += sum(self.u16(entry) >> 12 == 10 for entry in range(at + 8, at + block, 2))
            at += block
        return count

    def functions(self):
        """What .pdata says of functions: begin, end and the address of their unwind data."""
        _, rva, size = self.directory(EXCEPTIONS)
        if not size:
            return []
        at = self.offset(rva)
        return [struct.unpack_from("<III", self.data, at + n) for n in range(0, size, 12)]


def faults(data):
    """What is wrong with an image, each in a sentence."""
    try:
        image = Image(data)
        return [*of_headers(image), *of_sections(image), *of_tables(image)]
    except (struct.error, ValueError) as error:
        return [f"cannot be read: {error}"]


def of_headers(image):
    if image.machine != 0x8664:
        yield f"machine {image.machine:#x}, not x86-64"
    if image.subsystem != 1:
        yield f"subsystem {image.subsystem}, not native"
    for flag, name in [(HIGH_ENTROPY, "high entropy addresses"), (DYNAMIC_BASE, "dynamic base"),
                       (NX, "NX"), (WDM, "WDM driver")]:
        if not image.flags & flag:
            yield f"no flag: {name}"
    if image.characteristics & IS_DLL:
        yield "is marked a DLL"
    if image.directory(EXPORTS)[2]:
        yield "exports something"
    if image.u32(image.checksum_at) != image.checksum():
        yield f"checksum {image.u32(image.checksum_at):#x}, should be {image.checksum():#x}"


def of_sections(image):
    if image.alignment != PAGE:
        yield f"sections aligned to {image.alignment:#x}, not to a page"
    has_entry = False
    for section in image.sections:
        name, flags = section["name"], section["flags"]
        if flags & EXECUTE and flags & WRITE:
            yield f"{name} can be written and executed"
        if section["rva"] % PAGE:
            yield f"{name} begins within a page"
        if section["rva"] <= image.entry < section["rva"] + section["size"]:
            has_entry = True
            if not flags & EXECUTE:
                yield f"the entry lies in {name}, which cannot be executed"
    if not has_entry:
        yield "the entry lies in no section"


def of_tables(image):
    if image.characteristics & RELOCS_STRIPPED or not image.relocations():
        yield "no relocations"
    if others := {name.lower() for name in image.libraries()} - MAY_IMPORT_FROM:
        yield f"imports from {', '.join(sorted(others))}"
    functions = image.functions()
    if not functions:
        yield "no unwind data"
    elif not any(begin <= image.entry < end for begin, end, _ in functions):
        yield "no unwind data of the entry"
    for begin, end, unwind in functions:
        if begin >= end or image.data[image.offset(unwind)] & 7 not in (1, 2):
            yield f"bad unwind data of the function at {begin:#x}"
