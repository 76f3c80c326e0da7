//! Loads that are part of laggard.

/// Names and one-line descriptions of the loads: a redacted recording keeps these
/// names, and a system that cannot run them still recognises them.
pub const LOADS_OF_OURS: [(&str, &str); 12] = [
    ("idle", "nothing: the idle machine"),
    (
        "draw",
        "16 threads draw curves into memory, compute and sleep 1 ms",
    ),
    ("fp", "4 threads divide floating-point numbers endlessly"),
    (
        "fileio",
        "4 threads open a cached 100 KB file, read it in 1 KB blocks and close it",
    ),
    (
        "scanner",
        "reads every file that a program opens, like a virus scanner; needs root",
    ),
    (
        "office",
        "documents, spreadsheets, presentations, a database, publishing and copying (LibreOffice, LaTeX)",
    ),
    (
        "workstation",
        "compiling, CAD, photo editing and numerics (gcc, OpenSCAD, ImageMagick, Octave)",
    ),
    (
        "game",
        "3-D scenes of a game, drawn by the processor on a virtual screen (glmark2, llvmpipe)",
    ),
    (
        "web",
        "browsing local pages, reading PDF, playing audio and video to nowhere (Chromium, ffmpeg)",
    ),
    (
        "kernel",
        "message passing between processes, forks and memory maps (hackbench, stress-ng)",
    ),
    (
        "net",
        "TCP streams through the loopback device; net:HOST receives from iperf3 -s there",
    ),
    (
        "sound",
        "short sounds, one after the other, to a sound device in real time (PipeWire)",
    ),
];
