"""Compares the answer of `why` for a recording with the true times of the faults."""
import dataclasses
import json
import os
import subprocess
import sys

from kinds import KINDS, THRESHOLD_NS, Kind, ns, outside, unexplained

# Two expiries of a line are at most 1.5 periods of 1 ms apart.
LONGEST_GAP_NS = 1_500_000
# A wakeup that is late by the threshold within a fault overlaps it by this time.
OVERLAP_NS = THRESHOLD_NS
# Tolerances of the table, see docs/validation/accuracy.md.
LENGTH_PART, LENGTH_NS = 0.1, 100_000
# Interrupts and softirqs also run without a fault, but briefly.
ELSEWHERE_NS = 1_000_000


@dataclasses.dataclass
class Verdict:
    """Counts of a row."""

    kind: Kind
    hits: int = 0  # faults that could delay a measured wakeup
    found: int = 0
    named: int = 0
    measured: int = 0  # found faults whose length is correct
    period: float | None = None  # (found period / true period) - 1
    makes_period: bool = True
    elsewhere_ns: int = 0  # time assigned to the fault when it did not run
    unexplained_ns: int = 0
    total_ns: int = 0
    stolen_ns: int = 0
    surplus: int = 0
    lost: int = 0
    missed: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Late:
    """An episode with its causes. Times are absolute, in ns."""

    number: int
    line: dict
    start: int
    end: int
    causes: list

    def overlap(self, hit):
        return min(self.end, hit["end"]) - max(self.start, hit["start_ns"])

    def time_of(self, matches):
        return sum(cause["time_ns"] for cause in self.causes if matches(cause))


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    # 3: laggard lost too much for a good distribution. The table shows the loss.
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def read(laggard, recording):
    """Returns the manifest of a recording, the answer of `why`, and all episodes."""
    with open(os.path.join(recording, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    command = [laggard, "why", recording, "--json", "--top", "1000000"]
    why = json.loads(run(command).stdout)
    begin = manifest["clock"]["start_ns"]
    late = [
        Late(
            row["number"],
            row["line"],
            begin + row["after_start_ns"],
            begin + row["after_start_ns"] + row["latency_ns"],
            [dict(as_cause(part), time_ns=part["took_ns"]) for part in row["parts"]],
        )
        for row in listed(why, "largest")
    ]
    return manifest, why, late


def listed(why, key):
    """Returns the entries of a list of all series of `why`."""
    return [row for series in why["series"] for row in series[key]]


def total_ns(why):
    return sum(series["total_ns"] for series in why["series"])


def surplus(why):
    """Returns the number of late wakeups that were not kept."""
    return sum(line.get("surplus", 0) for line in listed(why, "thresholds"))


def lost(manifest):
    """Returns the number of wakeups that are missing in the recording."""
    return sum(manifest["losses"][loss] for loss in ("ring_full", "clock_back", "unserved", "not_written"))


def read_truth(path):
    """Returns the true times of the faults."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def judge(laggard, kind, recording, hits):
    """Compares the answer of `why` with the true times `hits`."""
    manifest, why, late = read(laggard, recording)
    begin, end = manifest["clock"]["start_ns"], manifest["clock"]["end_ns"]
    every_ns = true_period(kind, hits)
    verdict = Verdict(
        kind,
        total_ns=total_ns(why),
        unexplained_ns=sum(episode.time_of(unexplained) for episode in late),
        stolen_ns=sum(episode.time_of(outside) for episode in late),
        surplus=surplus(why),
        lost=lost(manifest),
        makes_period=every_ns is not None,
    )
    for hit in hits:
        hit["end"] = hit["start_ns"] + hit["length_ns"]
    if kind.between:
        hits = [gap(*two) for two in zip(hits, hits[1:])]
    cpus = {hit["cpu"] for hit in hits}
    for cpu in cpus:
        here = [episode for episode in late if episode.line["cpu"] == cpu and kind.delays(episode.line)]
        judge_cpu(verdict, [hit for hit in hits if hit["cpu"] == cpu], here, (begin, end))
    if every_ns:
        verdict.period = period(why, kind, cpus, every_ns)
    return verdict


def judge_cpu(verdict, hits, here, recorded):
    """Adds the faults of a CPU and the late wakeups `here` that they may have delayed."""
    kind = verdict.kind
    begin, end = recorded
    for hit in hits:
        if hit["start_ns"] < begin or hit["end"] + LONGEST_GAP_NS > end:
            continue
        overlapping = [episode for episode in here if episode.overlap(hit) >= OVERLAP_NS]
        certain = kind.always and hit["length_ns"] >= LONGEST_GAP_NS + OVERLAP_NS
        if certain or overlapping:
            judge_hit(verdict, hit, overlapping)
    for episode in here:
        within = sum(max(0, episode.overlap(hit)) for hit in hits)
        excess = episode.time_of(kind.names) - within
        if excess > max(LENGTH_PART * (episode.end - episode.start), ELSEWHERE_NS):
            verdict.elsewhere_ns += excess


def gap(before, after):
    """Returns the span between two hits, in the form of a hit."""
    length = after["start_ns"] - before["end"]
    return {"start_ns": before["end"], "length_ns": length, "end": after["start_ns"], "cpu": before["cpu"]}


def judge_hit(verdict, hit, overlapping):
    """Adds a hit that could delay a wakeup, with the late wakeups that overlap it."""
    kind = verdict.kind
    verdict.hits += 1
    found = any(episode.time_of(kind.names) for episode in overlapping)
    verdict.found += found
    if found and not kind.always:
        # The scheduler divides the time of a hit in an unknown way.
        verdict.named += 1
        return
    if not found:
        verdict.missed.append((hit["start_ns"], hit["length_ns"], [episode.number for episode in overlapping]))
        return
    # The shortest episode that overlaps most of the hit decides whether the fault is
    # named as the main cause.
    largest = max(episode.overlap(hit) for episode in overlapping)
    best = min(
        (episode for episode in overlapping if episode.overlap(hit) >= 0.9 * largest),
        key=lambda episode: episode.end - episode.start,
    )
    overlap, counted = best.overlap(hit), best.time_of(kind.names)
    stolen = 0 if kind.from_outside else min(overlap, best.time_of(outside))
    verdict.named += counted * 2 >= overlap - stolen
    slack = max(LENGTH_PART * overlap, LENGTH_NS)
    is_correct = overlap - stolen - slack <= counted and (
        kind.computes_elsewhere or counted <= overlap + slack
    )
    verdict.measured += is_correct
    if not is_correct:
        verdict.missed.append((hit["start_ns"], overlap, counted, stolen, best.number))


def true_period(kind, hits):
    """Returns the requested period in ns, or the one that the kernel chose."""
    if kind.every:
        return ns(kind.every)
    gaps = sorted(after["start_ns"] - before["start_ns"] for before, after in zip(hits, hits[1:]))
    return gaps[len(gaps) // 2] if gaps else None


def period(why, kind, cpus, every_ns):
    """Returns the relative error of the period in `why`, or `None` without a period."""
    found = [
        row["rhythm"]["period_ns"]
        for row in listed(why, "causes")
        if row["rhythm"] and cpus.intersection(row["cpus"]) and kind.names(as_cause(row))
    ]
    return min((period_ns / every_ns - 1 for period_ns in found), key=abs, default=None)


def as_cause(row):
    """Returns a cause in the form of the model: class and culprit."""
    who = row["who"] or ""
    thread = next((word for word in who.split(", ") if word.startswith("lag/")), None)
    activity = None
    if "HRTIMER" in who:
        activity = {"softirq": 8}
    elif "NET_RX" in who:
        activity = {"softirq": 3}
    elif who.startswith("local timer"):
        activity = {"vector": "local_timer"}
    elif who.startswith("page faults"):
        activity = "page_fault"
    because = row.get("because")
    return {"class": row["class"], "culprit": {"thread": thread, "activity": activity, "because": because}}


@dataclasses.dataclass
class Calm:
    """Episodes without a fault, and the time that looks like one."""

    episodes: int
    largest_ns: int
    invented: int
    largest_named: list  # (fault, ns) above the threshold
    unexplained_ns: int
    stolen_ns: int
    total_ns: int
    surplus: int
    lost: int


def judge_calm(laggard, recording):
    """Judges a recording without faults."""
    manifest, why, late = read(laggard, recording)
    invented, named = 0, []
    for name, kind in KINDS.items():
        if kind.victim or kind.from_outside or not kind.length:
            continue
        invented += sum(episode.time_of(kind.names) >= ns(kind.length) // 2 for episode in late)
        worst = max((episode.time_of(kind.names) for episode in late), default=0)
        if worst > THRESHOLD_NS:
            named.append((name, worst))
    return Calm(
        len(late),
        max((series["largest_ns"] for series in why["series"]), default=0),
        invented,
        named,
        sum(episode.time_of(unexplained) for episode in late),
        sum(episode.time_of(outside) for episode in late),
        total_ns(why),
        surplus(why),
        lost(manifest),
    )
