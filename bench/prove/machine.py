"""Injects and records faults on this machine."""
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
    """This machine: its name on the page, and the recordings made there."""

    part = "this machine"
    skipped = {**SKIPPED, "steal": "cannot be injected from inside the machine; see the test host"}
    jobs = 1

    def __init__(self, laggard):
        self.laggard = laggard

    def make(self, name, load, seconds, path, truth):
        """Records while it injects faults. Returns the error, or an empty string."""
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
        """Records without faults."""
        finish(self.record(path, None, load, seconds))

    def record(self, path, kind, load, seconds):
        """Starts a recording and returns its process."""
        command = [self.laggard, "record", "-o", path, *record_options(kind, seconds, load)]
        shutil.rmtree(path, ignore_errors=True)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(path, "manifest.json")):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                sys.exit(f"{' '.join(command)}\n{process.communicate()[1]}")
            time.sleep(0.05)
        time.sleep(0.5)
        return process

    def describe(self, seconds):
        """Returns the state of the machine."""
        with open("/proc/loadavg", encoding="utf-8") as file:
            load = file.read().split()[0]
        uname = os.uname()
        version = run([self.laggard, "--version"]).stdout.strip()
        return (
            f"{time.strftime('%Y-%m-%d')}, {version}, Linux {uname.release} {uname.machine}, {os.cpu_count()} CPUs,"
            f" load average {load} at the end; {seconds:g} s per row, faults on CPU {CPU}, threshold 2 ms.\n"
        )


def finish(process):
    _, errors = process.communicate()
    if process.returncode not in (0, 3):
        sys.exit(f"laggard record ended with {process.returncode}: {errors}")


def take_priority():
    """Gives this session nearly all the CPU time of normal threads."""
    try:
        os.setsid()
        with open("/proc/self/autogroup", "w", encoding="utf-8") as file:
            file.write("-20")
    except OSError as err:
        print(f"cannot give this run priority over other programs: {err}", file=sys.stderr)


@contextlib.contextmanager
def mappings(least):
    """Raises the number of mappings of a process to at least `least`, and restores it."""
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
