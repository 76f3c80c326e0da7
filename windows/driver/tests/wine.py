"""A Wine of the driver's tests alone: its drivers are loaded, and end, with it."""

import contextlib
import os
import pathlib
import shutil
import subprocess

# A limit against hanging, not an expectation.
LIMIT_S = 300
DRIVER = r"C:\windows\system32\drivers\wdmlat.sys"


class Wine:
    """Wine in a folder; `lacks` says why there is none."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.loader = shutil.which("wine64") or "/usr/lib/wine/wine64"
        self.server = next((path for name in ["wineserver64", "wineserver"]
                            if os.access(path := f"/usr/lib/wine/{name}", os.X_OK)),
                           shutil.which("wineserver"))

    def lacks(self):
        """Why no driver can be tried here, or None. Sets the folder up the first time."""
        if not os.access(self.loader, os.X_OK) or not self.server:
            return "there is no Wine (Debian: wine64)"
        if not (self.folder / "system.reg").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            subprocess.run([self.loader, "wineboot", "-i"], env=self._environment("-all"),
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S)
            self._end()
        if not self.drivers().is_dir():
            return f"this Wine does not start ({self.loader} wineboot -i)"
        return None

    def run(self, driver, program, *arguments, debug="-all", log=None, limit_s=LIMIT_S):
        """A program's exit code, None where it hung, and what it and the driver wrote. `log`:
        a file for all requests to Wine's server."""
        shutil.copy(driver, self.drivers() / "wdmlat.sys")
        with self.serving(debug, log) as call:
            return call(program, *arguments, limit_s=limit_s)

    @contextlib.contextmanager
    def serving(self, debug="-all", log=None):
        """What runs programs, one after the other, beside drivers that stay loaded meanwhile."""
        environment = self._environment(debug)
        self._end()
        # One that stays, so that the driver does not end with the first program; one of
        # its own, because the driver's output goes where its server was started from.
        command = [self.server, "-f", "-p", *(["-d1"] if log else [])]
        with open(log or os.devnull, "wb") as requests:
            server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                      stdout=requests, stderr=requests)
        try:
            yield lambda *words, limit_s=LIMIT_S: self._call(environment, words, limit_s)
        finally:
            self._end()
            server.wait(timeout=LIMIT_S)

    def _call(self, environment, words, limit_s):
        said = self.folder / "said"
        try:
            with open(said, "wb") as output:
                code = subprocess.run([self.loader, *map(str, words)], env=environment,
                                      stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                      timeout=limit_s).returncode
        except subprocess.TimeoutExpired:
            code = None
        # What a hung program's driver still writes comes when its server ends.
        if code is None:
            self._end()
        return code, said.read_text(errors="replace").replace("\r", "")

    def drivers(self):
        return self.folder / "drive_c/windows/system32/drivers"

    def _environment(self, debug):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        return environment | {"WINEPREFIX": str(self.folder), "WINEARCH": "win64",
                              "WINEDLLOVERRIDES": "mscoree,mshtml=", "WINEDEBUG": debug}

    def _end(self):
        """Ends this folder's Wine, and no other."""
        subprocess.run([self.server, "-k"], env=self._environment("-all"), timeout=LIMIT_S,
                       stdin=subprocess.DEVNULL, capture_output=True)
