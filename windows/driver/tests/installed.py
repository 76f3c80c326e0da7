"""`laggard.exe driver` under Wine: installed, refused and removed, and nothing is left."""

import shutil

from broken import mutant
from program import BUILT, INSTALLED, PROGRAM, WINE, BesideDriver, main
from wine import DRIVER


class Driver(BesideDriver):
    def said(self, code, *words):
        """What it says to `laggard driver WORDS`, which ends with this code."""
        ended, text = self.call(PROGRAM, "driver", *words)
        self.assertEqual(ended, code, text)
        return text

    def assert_absent(self):
        self.assertIn("wdmlat.sys:        not installed\n", self.said(0, "status"))
        left = sorted(path.name for path in WINE.drivers().glob("wdmlat*"))
        self.assertEqual(left, [])
        code, text = self.call("reg.exe", "query", r"HKLM\SYSTEM\CurrentControlSet\Services\wdmlat")
        self.assertNotEqual(code, 0, text)

    def test_it_is_installed_once_seen_and_removed_whole(self):
        self.assert_absent()
        for _ in range(2):
            self.assertIn(f"The driver is loaded: {DRIVER}", self.said(0, "install", BUILT))
            self.assertIn("installed, loaded: ", self.said(0, "status"))
        self.assertEqual(INSTALLED.read_bytes(), BUILT.read_bytes())

        self.assertIn("its files are removed", self.said(0, "remove"))

        self.assert_absent()
        self.assertIn("nothing was changed", self.said(0, "remove"))

    def test_an_unloaded_one_is_loaded_again(self):
        self.said(0, "install", BUILT)
        self.assertEqual(self.call("sc.exe", "stop", "wdmlat")[0], 0)
        self.assertIn("installed, not loaded: ", self.said(0, "status"))

        self.said(0, "install", BUILT)

        self.assertIn("installed, loaded: ", self.said(0, "status"))
        self.said(0, "remove")
        self.assert_absent()

    def test_another_version_takes_the_place_of_none_that_is_installed(self):
        other = self.folder / "other.sys"
        other.write_bytes(BUILT.read_bytes() + b"\0")
        self.said(0, "install", BUILT)

        said = self.said(2, "install", other)

        self.assertIn("type `laggard driver remove`, then install this one", said)
        self.assertEqual(INSTALLED.read_bytes(), BUILT.read_bytes())
        self.assertIn("installed, loaded: ", self.said(0, "status"))

    def test_a_file_that_is_somebody_else_s_is_left_alone(self):
        INSTALLED.write_text("precious")

        for words in (["install", BUILT], ["remove"]):
            self.assertIn("laggard leaves it alone", self.said(2, *words))

        self.assertEqual(INSTALLED.read_text(), "precious")

    def test_a_service_that_is_somebody_else_s_is_left_alone(self):
        code, text = self.call("sc.exe", "create", "wdmlat", "binpath=", r"C:\theirs.sys",
                               "type=", "kernel")
        self.assertEqual(code, 0, text)

        for words in (["install", BUILT], ["remove"]):
            self.assertIn(r"runs another file, `C:\theirs.sys`", self.said(2, *words))

        self.assertIn(r"another service has its name, and runs C:\theirs.sys",
                      self.said(0, "status"))
        self.assertFalse(INSTALLED.exists())

    def test_of_a_driver_that_does_not_load_nothing_is_left(self):
        at = "\t(void)registry_path;\n"
        failing = mutant(self.folder, "driver.c", at,
                         at + "\tif (registry_path)\n\t\treturn STATUS_UNSUCCESSFUL;\n")

        self.assertIn("load the driver: ", self.said(2, "install", failing))

        self.assert_absent()

    def test_what_is_not_the_driver_is_not_installed(self):
        cut = self.folder / "cut.sys"
        cut.write_bytes(BUILT.read_bytes()[:4096])
        short = self.folder / "short.sys"
        short.write_bytes(BUILT.read_bytes()[:-1])
        theirs = shutil.copy(WINE.drivers() / "mountmgr.sys", self.folder / "theirs.sys")

        for path, why in [(cut, "is not wdmlat.sys"), (short, "its last bytes are missing"),
                          (theirs, "is not wdmlat.sys"),
                          (PROGRAM, "longer than 1 MiB"), (self.folder / "none", "read `")]:
            self.assertIn(why, self.said(2, "install", path))

        self.assert_absent()


if __name__ == "__main__":
    main("installed by laggard")
