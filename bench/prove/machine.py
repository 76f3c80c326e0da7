"""Makes and records faults on this machine."""
import contextlib
import os
import shutil
import subprocess
import sys
import time

from judging import run
from kinds import KINDS, SKIPPED, provoke_options, record_options

CPU = 1
MAP_COUNT = "/proc/sys/vm/max_map_count"


class Machine:
    """This machine: its name on the page, and what is made there."""

    part = "this machine"
    skipped = {**SKIPPED, "steal": "cannot be made from inside the machine; see the test host"}
    jobs = 1

    def __init__(self, laggard):
        self.laggard = laggard

    def make(self, name, load, seconds, path, truth):
        """Records while provoking; what was said, if there is nothing to judge."""
        kind = KINDS[name]
        recording = self.record(path, kind, load, seconds + 2)
        command = [self.laggard, "provoke", *provoke_options(name, CPU, seconds), "--json", truth]
        if kind.victim:
            command += ["--pid", str(recording.pid)]
        provoked = subprocess.run(command, capture_output=True, text=True)
        finish(recording)
        if provoked.returncode == 0:
            return ""
        return (provoked.stdout + provoked.stderr).strip().splitlines()[-1]

    def record_calm(self, load, seconds, path):
        """Records and makes nothing."""
        finish(self.record(path, None, load, seconds))

    def record(self, path, kind, load, seconds):
        """A recording that has begun, as a process."""
        command = [self.laggard, "record", "-o", path, *record_options(kind, seconds, load)]
        shutil.rmtree(path, ignore_errors=True)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        patience = time.monotonic() + 60
        while not os.path.exists(os.path.join(path, "manifest.json")):
            if process.poll() is not None or time.monotonic() > patience:
                process.kill()
                sys.exit(f"{' '.join(command)}\n{process.communicate()[1]}")
            time.sleep(0.05)
        time.sleep(0.5)
        return process

    def describe(self, seconds):
        """The state of the machine, as far as it matters."""
        with open("/proc/loadavg", encoding="utf-8") as file:
            load = file.read().split()[0]
        uname = os.uname()
        version = run([self.laggard, "--version"]).stdout.strip()
        return (
            f"{time.strftime('%Y-%m-%d')}, {version}, Linux {uname.release} {uname.machine}, {os.cpu_count()} CPUs,"
            f" load average {load} at the end; {seconds:g} s a row, faults on CPU {CPU}, threshold 2 ms.\n"
        )


def finish(process):
    _, said = process.communicate()
    if process.returncode not in (0, 3):
        sys.exit(f"laggard record ended with {process.returncode}: {said}")


def keep_others_aside():
    """Gives this session nearly all the time that other normal work would share."""
    try:
        os.setsid()
        with open("/proc/self/autogroup", "w", encoding="utf-8") as file:
            file.write("-20")
    except OSError as err:
        print(f"other work is not kept aside: {err}", file=sys.stderr)


@contextlib.contextmanager
def mappings(least):
    """Lets a process have at least so many mappings, and puts the limit back."""
    with open(MAP_COUNT, encoding="utf-8") as file:
        before = int(file.read())
    if before >= least:
        yield
        return
    set_mappings(least)
    try:
        yield
    finally:
        set_mappings(before)


def set_mappings(count):
    with open(MAP_COUNT, "w", encoding="utf-8") as file:
        file.write(str(count))
