"""wdmlat.sys under Wine: its whole life, its ioctls at random, and drivers that were broken.

LAGGARD_DRIVER names the folder of what `make driver` built. Nothing here says how late
anything was: only order, counts and answers are the driver's, the rest is Wine's.
"""

import os
import pathlib
import re
import sys
import tempfile
import unittest

from broken import make, mutant
from wine import DRIVER, Wine

BUILT = pathlib.Path(os.environ["LAGGARD_DRIVER"])
WINE = Wine(BUILT / "wine")
# 3 ms at 2.7 GHz: the DPC still runs when the next read comes.
SLOW = "-DWDMLAT_SLOW_DPC_TSC=8000000"
# A broken driver that has not ended by then hangs: a sound one takes a few seconds.
HANGS_S = 60
# Of `control handles`: each is told once the driver has answered.
STEPS = ["loaded", "tick asked for", "the first handle", "the second handle", "one is left",
         "tick given back", "no timer", "another handle", "its end changes nothing",
         "tick asked for", "a timer again",
         "tick given back", "tick asked for", "a handle after the last", "a read is left",
         "tick given back", "tick asked for", "a handle after that read",
         "it begins as the papers did", "tick given back", "no timer for the last",
         "tick asked for", "a timer for the next", "tick given back", "unloaded"]


def life(driver, reads, **how):
    return WINE.run(driver, BUILT / "control.exe", "life", DRIVER, reads, **how)


def ticks(said):
    """Each time that the driver asked for the 1 ms tick, and gave it back. Wine does nothing
    for that call, but tells that and how it was made."""
    return ["tick asked for" if is_set == "1" else "tick given back" for is_set in
            re.findall(r"fixme:ntoskrnl:ExSetTimerResolution .*(\d)$", said, re.MULTILINE)]


def steps(driver):
    """What `control handles` did, with the calls about the tick where they came."""
    _, said = WINE.run(driver, BUILT / "control.exe", "handles", DRIVER, debug="fixme+ntoskrnl")
    return [step for line in said.splitlines()
            for step in [*ticks(line), *re.findall(r"^ok: (.*)", line)]]


def fuzz(driver, seed, cases, **how):
    return WINE.run(driver, BUILT / "control.exe", "fuzz", DRIVER, seed, cases, **how)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_held(self, ended):
        code, said = ended
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"\n\d+ held, 0 failed\n")


class ALife(Folder):
    def test_it_is_installed_read_cancelled_unloaded_while_busy_and_removed(self):
        self.assert_held(life(BUILT / "wdmlat.sys", 200))

    def test_calls_at_random_end_and_leave_it_working(self):
        for seed in range(1, 4):
            self.assert_held(fuzz(BUILT / "wdmlat.sys", seed, 2000))

    def test_a_read_that_comes_while_the_dpc_still_runs_is_served(self):
        slow = make("wdmlat.sys", self.folder, variant=SLOW)
        self.assert_held(life(slow, 50))

    def test_only_the_system_and_administrators_may_open_it(self):
        self.assertEqual(self.rights_of(BUILT / "wdmlat.sys"),
                         [("1f01ff", "S-1-5-18"), ("1f01ff", "S-1-5-32-544")] * 2)

    def test_a_driver_that_sets_no_rights_is_seen(self):
        self.assertEqual(self.rights_of(mutant(self.folder, "security.c",
                         "ZwSetSecurityObject(handle, DACL_SECURITY_INFORMATION, &descriptor)",
                         "STATUS_SUCCESS")), [])

    def test_priorities_importance_and_target_are_asked_for(self):
        """Wine does nothing for these calls, but tells that and how they were made."""
        code, said = life(BUILT / "wdmlat.sys", 1, debug="fixme+ntoskrnl")
        self.assertEqual(code, 0, said)
        calls = re.findall(r"fixme:ntoskrnl:(\w+) (.*)", said)
        priorities = [text[-3:-1] for name, text in calls if name == "KeSetPriorityThread"]
        importances = [text.split()[1] for name, text in calls if name == "KeSetImportanceDpc"]
        self.assertEqual(set(priorities), {"24", "28"})
        self.assertEqual(priorities.count("28"), 2, "one in each round")
        self.assertEqual(importances.count("2"), 2, "high, where thread:28 asks for it")
        names = [name for name, _ in calls]
        self.assertEqual(names.count("KeSetTargetProcessorDpc"), 2)

    def test_the_tick_is_asked_for_while_it_is_open_and_its_timer_serves(self):
        """It is the whole machine's."""
        self.assertEqual(steps(BUILT / "wdmlat.sys"), STEPS)

    def test_the_tick_is_given_back_by_an_unload_while_it_is_open(self):
        code, said = life(BUILT / "wdmlat.sys", 1, debug="fixme+ntoskrnl")
        self.assertEqual(code, 0, said)
        turns = ticks(said)
        self.assertGreaterEqual(len(turns), 4)
        self.assertEqual(turns, ["tick asked for", "tick given back"] * (len(turns) // 2))

    def rights_of(self, driver):
        """Wine's handles have no rights of their device: its server is asked instead."""
        log = self.folder / "requests"
        code, said = life(driver, 1, log=log)
        self.assertEqual(code, 0, said)
        lists = re.findall(r"set_security_object\( .*security_info=00000004.*dacl=\{(.*)\}\} \)",
                           log.read_text(errors="replace"))
        return [entry for text in lists
                for entry in re.findall(r"type=ACCESS_ALLOWED,flags=0,mask=(\w+),sid=([\w-]+)", text)]


class ABrokenDriver(Folder):
    """Each of these must be seen, or the tests above show nothing."""

    def assert_seen(self, ended, sentence=None):
        code, said = ended
        self.assertNotEqual(code, 0, f"not seen:\n{said}")
        if sentence:
            self.assertRegex(said, f"FAIL: .*{sentence}")

    def test_a_timer_that_is_not_cancelled_before_it_is_set_again(self):
        driver = mutant(self.folder, "cycle.c", "\tKeCancelTimer(&state->timer);\n", "", SLOW)
        self.assert_seen(life(driver, 50, limit_s=HANGS_S))

    def test_a_tick_that_outlasts_the_last_handle(self):
        driver = mutant(self.folder, "handles.c", "--state->opened == 0", "state->opened == 0")
        self.assertNotEqual(steps(driver), STEPS)

    def test_a_configuration_that_outlasts_the_last_handle(self):
        driver = mutant(self.folder, "handles.c", "&& outlast(state))", "&& FALSE)")
        self.assertNotIn("it begins as the papers did", steps(driver))

    def test_a_dpc_without_a_stamp(self):
        stamp = "stamp(&sample->dpc_tsc, &sample->dpc_qpc, &sample->dpc_cpu);"
        driver = mutant(self.folder, "cycle.c", stamp, stamp + " sample->dpc_tsc = 0;")
        self.assert_seen(life(driver, 2), "0 of 2 reads served in order")

    def test_a_follower_without_a_stamp(self):
        stamp = "stamp(&sample->follower_tsc, &sample->follower_qpc, &sample->follower_cpu);"
        driver = mutant(self.folder, "cycle.c", stamp, stamp + " sample->follower_qpc = 0;")
        self.assert_seen(life(driver, 2), "0 of 2 reads served in order")

    def test_a_read_accepted_while_another_is_served(self):
        driver = mutant(self.folder, "cycle.c", "\tif (state->busy) {", "\tif (FALSE) {")
        self.assert_seen(life(driver, 2, limit_s=HANGS_S))

    def test_a_driver_that_is_free_again_once_its_read_is_cancelled(self):
        at = "\t\tstate->irp = NULL;\n\tstate->cancelled++;\n"
        driver = mutant(self.folder, "cycle.c", at, at + "\trelease_locked(state);\n")
        # The next read is served, which takes longer than a trial may.
        self.assert_seen(life(driver, 2), "cancel: 10 times")

    def test_a_cancelled_read_that_is_counted_twice(self):
        at = "\t\tstate->irp = NULL;\n\tstate->cancelled++;\n"
        driver = mutant(self.folder, "cycle.c", at, at + "\tstate->cancelled++;\n")
        self.assert_seen(life(driver, 2), "one is counted cancelled")

    def test_a_priority_that_is_none_of_real_time_accepted(self):
        at = "config->priority < WDMLAT_PRIORITY_MIN || "
        self.assert_seen(fuzz(mutant(self.folder, "config.c", at, ""), 1, 2000),
                         "random calls ended as they must")

    def test_a_refused_configuration_that_stays(self):
        driver = mutant(self.folder, "config.c", "\tNTSTATUS status = provide(state, config);\n",
                        "\tNTSTATUS status = provide(state, config);\n\n\tstate->config = *config;\n")
        self.assert_seen(fuzz(driver, 1, 2000), "times what was accepted last is what is configured")

    def test_an_answer_that_is_longer_than_its_buffer_says(self):
        driver = mutant(self.folder, "config.c", "if (out < sizeof(struct wdmlat_info))",
                        "if (out + 1 < sizeof(struct wdmlat_info))")
        self.assert_seen(fuzz(driver, 1, 2000), "random calls ended as they must")


if __name__ == "__main__":
    if lacks := WINE.lacks():
        print(f"skipped: the driver for Windows, run: {lacks}")
        sys.exit(0)
    make("control.exe", BUILT)
    unittest.main()
