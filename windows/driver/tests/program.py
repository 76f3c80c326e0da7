"""`laggard.exe` under Wine, beside a driver that stays loaded meanwhile.

LAGGARD_DRIVER names the folder of what `make driver` built, LAGGARD_WINDOWS the program,
WINEPREFIX the Wine in which it runs.
"""

import os
import pathlib
import sys
import tempfile
import unittest

from wine import Wine

FOLDER = pathlib.Path(os.environ["LAGGARD_DRIVER"])
BUILT = FOLDER / "wdmlat.sys"
PROGRAM = os.environ["LAGGARD_WINDOWS"]
WINE = Wine(os.environ["WINEPREFIX"])
INSTALLED = WINE.drivers() / "wdmlat.sys"


class BesideDriver(unittest.TestCase):
    """Each test begins without a driver, and leaves none."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        serving = WINE.serving()
        self.call = serving.__enter__()
        self.addCleanup(serving.__exit__, None, None, None)
        self.addCleanup(INSTALLED.unlink, missing_ok=True)
        self.addCleanup(self.call, "sc.exe", "delete", "wdmlat")
        self.addCleanup(self.call, PROGRAM, "driver", "remove")


def main(what):
    """Runs the tests of the program that calls this, or says why not."""
    if lacks := WINE.lacks():
        print(f"skipped: the driver for Windows, {what}: {lacks}")
        sys.exit(0)
    unittest.main()
