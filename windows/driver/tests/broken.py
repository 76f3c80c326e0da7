"""Drivers that are built for tests alone."""

import pathlib
import shutil
import subprocess

SOURCES = pathlib.Path(__file__).parent.parent


def make(target, build, sources=SOURCES, variant=""):
    """What make builds there."""
    path = pathlib.Path(build) / target
    subprocess.run(["make", "-s", "-C", sources, f"BUILD={build}", f"VARIANT={variant}", path],
                   check=True)
    return path


def mutant(folder, file, old, new, variant=""):
    """The driver with one place of its source changed."""
    sources = folder / "sources"
    shutil.copytree(SOURCES, sources)
    path = sources / "src" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{text.count(old)} times in {file}: {old}"
    path.write_text(text.replace(old, new))
    return make("wdmlat.sys", folder / "built", sources, variant)
