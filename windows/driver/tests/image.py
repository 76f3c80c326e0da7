"""The image of wdmlat.sys, and images of it that were broken: each fault is seen.

LAGGARD_DRIVER names the folder of what `make driver` built.
"""

import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

import pe

BUILT = pathlib.Path(os.environ["LAGGARD_DRIVER"]) / "wdmlat.sys"
SOURCES = pathlib.Path(__file__).parent.parent


def changed(at, form, value):
    """What is wrong with the image after a field was changed, and the checksum with it."""
    data = bytearray(BUILT.read_bytes())
    struct.pack_into(form, data, at, value)
    image = pe.Image(bytes(data))
    if at != image.checksum_at:
        struct.pack_into("<I", data, image.checksum_at, image.checksum())
    return pe.faults(bytes(data))


class AnImageThatWindowsLoads(unittest.TestCase):
    def setUp(self):
        self.image = pe.Image(BUILT.read_bytes())

    def test_the_built_one_has_no_fault(self):
        self.assertEqual(pe.faults(BUILT.read_bytes()), [])

    def test_a_build_elsewhere_has_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["make", "-s", "-C", SOURCES, f"BUILD={folder}"], check=True,
                           capture_output=True)
            again = (pathlib.Path(folder) / "wdmlat.sys").read_bytes()
        self.assertEqual(again, BUILT.read_bytes())

    def test_each_flag_that_is_taken_away_is_missed(self):
        at = self.image.optional + 70
        for flag, name in [(pe.HIGH_ENTROPY, "high entropy addresses"),
                           (pe.DYNAMIC_BASE, "dynamic base"), (pe.NX, "NX"), (pe.WDM, "WDM driver")]:
            found = changed(at, "<H", self.image.flags & ~flag)
            self.assertEqual(found, [f"no flag: {name}"])

    def test_a_program_is_no_driver(self):
        self.assertEqual(changed(self.image.optional + 68, "<H", 3), ["subsystem 3, not native"])

    def test_a_library_is_no_driver(self):
        found = changed(self.image.pe + 22, "<H", self.image.characteristics | pe.IS_DLL)
        self.assertEqual(found, ["is marked a DLL"])
        at, _, _ = self.image.directory(pe.EXPORTS)
        self.assertEqual(changed(at + 4, "<I", 40), ["exports something"])

    def test_a_section_both_written_and_executed_is_seen(self):
        for section in self.image.sections:
            found = changed(section["at"] + 36, "<I", section["flags"] | pe.EXECUTE | pe.WRITE)
            self.assertEqual(found, [f"{section['name']} can be written and executed"])

    def test_code_that_cannot_be_executed_is_seen(self):
        text = self.image.sections[0]
        found = changed(text["at"] + 36, "<I", text["flags"] & ~pe.EXECUTE)
        self.assertEqual(found, ["the entry lies in .text, which cannot be executed"])

    def test_sections_that_share_a_page_are_seen(self):
        found = changed(self.image.optional + 32, "<I", 0x200)
        self.assertEqual(found, ["sections aligned to 0x200, not to a page"])

    def test_a_wrong_checksum_is_seen(self):
        found = changed(self.image.checksum_at, "<I", 0)
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("checksum 0x0, should be 0x"), found)

    def test_an_image_for_one_address_is_seen(self):
        at, _, _ = self.image.directory(pe.RELOCATIONS)
        self.assertEqual(changed(at + 4, "<I", 0), ["no relocations"])
        found = changed(self.image.pe + 22, "<H", self.image.characteristics | pe.RELOCS_STRIPPED)
        self.assertEqual(found, ["no relocations"])

    def test_functions_without_unwind_data_are_seen(self):
        at, _, _ = self.image.directory(pe.EXCEPTIONS)
        self.assertEqual(changed(at + 4, "<I", 0), ["no unwind data"])
        begin, _, unwind = self.image.functions()[0]
        found = changed(self.image.offset(unwind), "<B", 0)
        self.assertIn(f"bad unwind data of the function at {begin:#x}", found)

    def test_a_library_of_programs_is_seen(self):
        at = self.image.data.lower().index(b"hal.dll\0")
        self.assertEqual(changed(at, "<7s", b"GDI.dll"), ["imports from gdi.dll"])

    def test_a_file_cut_anywhere_is_an_error_and_no_crash(self):
        data = BUILT.read_bytes()
        for length in [*range(1024), *range(1024, len(data), 61)]:
            self.assertNotEqual(pe.faults(data[:length]), [], f"at {length} bytes")


if __name__ == "__main__":
    unittest.main()
