# SPDX-License-Identifier: MIT OR Apache-2.0
"""Marks of the start and end of this program's cycles, for `laggard attach`.

    marks = laggard_marks.Marks()
    for number in itertools.count():
        wait_for_the_next_period()
        marks.begin(number)      # numbers count up by 1
        work()
        marks.end(number)

A mark takes about 1 us while laggard is attached. Linux, Python 3.8 or later.
"""

import mmap
import os
import struct
import threading
import time

SLOTS, HEAD, BYTES = 8192, 128, 32
BEGIN, END = 1, 2


class Marks:
    """Marks of this process, shared by its threads. After a fork, create another."""

    def __init__(self):
        self._file = os.memfd_create("laggard-marks", os.MFD_CLOEXEC)
        os.ftruncate(self._file, HEAD + SLOTS * BYTES)
        self._ring = mmap.mmap(self._file, HEAD + SLOTS * BYTES)
        struct.pack_into("=8sII", self._ring, 0, b"laggardM", 1, SLOTS)
        self._lock = threading.Lock()
        self._next = 0

    def begin(self, number):
        """Marks the start of a cycle in this thread."""
        self._mark(BEGIN, number)

    def end(self, number):
        """Marks the end of a cycle in this thread."""
        self._mark(END, number)

    def _mark(self, kind, number):
        if not self._ring[16]:  # laggard is not attached.
            return
        at, thread = time.monotonic_ns(), threading.get_native_id()
        with self._lock:
            place = HEAD + self._next % SLOTS * BYTES
            self._next += 1
            struct.pack_into("=Q", self._ring, place, 0)
            struct.pack_into("=QQII", self._ring, place + 8, at, number, thread, kind)
            struct.pack_into("=Q", self._ring, place, self._next)
            struct.pack_into("=Q", self._ring, 64, self._next)
