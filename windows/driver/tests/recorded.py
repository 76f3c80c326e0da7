"""`laggard.exe record` through the driver, under Wine: counts, order and refusals, never a
latency."""

import json
import threading
import time

from broken import make, mutant
from program import BUILT, FOLDER, PROGRAM, BesideDriver, main

# A limit against hanging, not an expectation.
BEGINS_S = 60
# As the papers have them.
SERVICES = ["dpc", "kthread:28", "kthread:24"]


def words(services=SERVICES, period="20ms"):
    return ["record", "--services", ",".join(services), "--period", period, "-d", "2s"]


class Recorded(BesideDriver):
    def install(self, driver):
        code, said = self.call(PROGRAM, "driver", "install", driver)
        self.assertEqual(code, 0, said)

    def recorded(self, services=SERVICES):
        """What is counted in a new recording, whether this machine lets it be trusted or
        not."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.laggard"
        code, said = self.call(PROGRAM, *words(services), "-o", path)
        self.assertIn(code, (0, 3), said)
        manifest = json.loads((path / "manifest.json").read_text())
        self.assertEqual([line["service"] for line in manifest["lines"]][-len(services):],
                         services)
        return manifest

    def test_what_came_was_missed_or_was_lost_is_all_that_was_planned(self):
        self.install(BUILT)

        manifest = self.recorded()

        self.assertEqual(manifest["backend"], "driver")
        for line in manifest["counts"]:
            self.assertGreater(line["served"], 0, line)
            self.assertEqual(line["served"] + line["missed"] + line["lost"], line["planned"], line)
        losses = {name for name, count in manifest["losses"].items() if count}
        self.assertLessEqual(losses, {"not_raised"})

    def config(self):
        """How the driver serves reads, for who opens it now."""
        code, said = self.call(FOLDER / "control.exe", "config")
        self.assertEqual(code, 0, said)
        return said

    def test_after_a_recording_the_driver_is_configured_as_at_its_beginning(self):
        self.install(BUILT)
        before = self.config()

        # The last service asks for another configuration than the driver begins with.
        self.recorded(["kthread:28"])

        self.assertEqual(self.config(), before)

    def test_so_it_is_after_a_recording_that_was_killed(self):
        self.install(BUILT)
        before = self.config()
        path = self.folder / "killed.laggard"
        recording = threading.Thread(target=self.call, args=(
            PROGRAM, "record", "--services", "kthread:28", "-d", "10m", "-o", path))
        recording.start()
        end = time.monotonic() + BEGINS_S
        while not (path / "manifest.json").exists() and time.monotonic() < end:
            time.sleep(0.1)

        code, said = self.call("taskkill.exe", "/f", "/im", "laggard.exe")

        self.assertEqual(code, 0, said)
        recording.join()
        self.assertEqual(self.config(), before)

    def test_without_the_driver_it_says_how_to_install_it(self):
        code, said = self.call(PROGRAM, *words(), "-o", self.folder / "r")

        self.assertEqual(code, 1, said)
        self.assertIn("the driver wdmlat.sys is not loaded", said)
        self.assertIn("`laggard driver install", said)
        self.assertFalse((self.folder / "r").exists())

    def test_a_driver_whose_stamp_is_missing_gives_no_figures(self):
        stamp = "stamp(&sample->dpc_tsc, &sample->dpc_qpc, &sample->dpc_cpu);"
        self.install(mutant(self.folder, "cycle.c", stamp, stamp + " sample->dpc_qpc = 0;"))

        manifest = self.recorded()

        self.assertEqual({line["served"] for line in manifest["counts"]}, {0})
        self.assertGreater(manifest["losses"]["out_of_order"], 0)

    def test_threads_of_the_process_and_of_the_driver_are_one_recording(self):
        self.install(BUILT)

        manifest = self.recorded(["other", "dpc"])

        self.assertTrue(all(line["served"] for line in manifest["counts"]))

    def test_two_at_once_lose_what_the_other_took_and_count_it(self):
        self.install(BUILT)
        answers, before = {}, self.config()

        def record(name):
            answers[name] = self.call(PROGRAM, *words(), "-o", self.folder / name)

        both = [threading.Thread(target=record, args=(name,)) for name in "ab"]
        for one in both:
            one.start()
        for one in both:
            one.join()

        for code, said in answers.values():
            # Refused, or recorded with what it lost.
            self.assertIn(code, (0, 2, 3), said)
            self.assertNotIn("panicked", said)
        self.assertTrue(any(code != 2 for code, _ in answers.values()), answers)
        # And neither has spoilt the driver for the next.
        self.assertEqual(self.config(), before)
        self.assertTrue(all(line["served"] for line in self.recorded()["counts"]))

    def test_a_period_that_is_too_short_for_its_services_is_refused(self):
        self.install(BUILT)

        code, said = self.call(PROGRAM, *words(period="1ms"), "-o", self.folder / "r")

        self.assertNotEqual(code, 0, said)
        self.assertIn("a period of 1ms is out of range; use 1500us", said)


if __name__ == "__main__":
    make("control.exe", FOLDER)
    main("recorded through by laggard")
