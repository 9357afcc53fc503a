"""``pullback view``: look at a motion or a robot in the browser, or make a page, a film or a picture of it."""

from __future__ import annotations

import argparse
import os
import re
import sys
import webbrowser
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pullback.cli.common import (
    add_anywhere,
    add_keyframe,
    load_robot,
    positive,
    progress_options,
    read_keyframe,
    unknown,
    whole,
)
from pullback.core.errors import PullbackError
from pullback.model.robots import ROBOTS
from pullback.model.unsupported import KINDS
from pullback.view import LAYERS, Drawing, Viewer, draw, export, load_motion

ROBOT_FILES = (".xml", ".mjcf", ".urdf")

ABOUT = """\
Shows a motion in the browser: play, scrub, contact points and forces, gradients of the loss, the target. FILE is a
motion file, as written by 'pullback simulate' (motion.npz) and 'pullback optimize' (result.npz). With --export nothing
is shown; OUT becomes a page for any browser (.html), a film (.gif, .mp4) or a strip of pictures (.png), for which
neither a display nor a graphics card is needed.

FILE may also be a robot, to look at: an MJCF or URDF file (.xml, .mjcf, .urdf), or the name of a sample robot. It
stands in its home pose, or in that of --keyframe, with a slider for every joint. What cannot be simulated does not
matter here.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("view", help="look at a motion or a robot, or make a film of it", description=ABOUT)
    parser.add_argument("file", metavar="FILE", help=f"a motion file (.npz), or a robot: a file or {', '.join(ROBOTS)}")
    add_keyframe(parser)
    add_anywhere(parser)
    add_server(parser)
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    parser.add_argument(
        "--export", type=Path, metavar="OUT", help="write OUT.html, OUT.gif, OUT.mp4 or OUT.png instead"
    )
    parser.add_argument(
        "--frames", type=whole(1), metavar="N", help="how many pictures a strip (default 6) or a film has"
    )
    parser.add_argument("--size", type=size, metavar="WxH", help="of one picture [pixels]")
    parser.add_argument(
        "--fps", type=positive, metavar="N", help="frames per second of a film (default 25 for .gif, 30 for .mp4)"
    )
    parser.add_argument("--speed", type=positive, default=1.0, metavar="X", help="of a film: 0.5 is slow motion")
    parser.add_argument(
        "--layers",
        type=layers,
        default=("forces", "ghost"),
        metavar="LIST",
        help="what to draw besides the robot: some of forces,gradients,ghost (default forces,ghost), or none",
    )
    parser.set_defaults(run=run)


def add_server(parser: argparse.ArgumentParser) -> None:
    """Where the viewer is found."""
    parser.add_argument("--port", type=whole(1), metavar="N", help="of the viewer (default 8080, or the next free one)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="0.0.0.0 lets other machines look (default 127.0.0.1, this one alone)"
    )


def size(text: str) -> tuple[int, int]:
    """An argument such as 640x480."""
    found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 640x480")
    return int(found[1]), int(found[2])


def layers(text: str) -> tuple[str, ...]:
    asked = () if text == "none" else tuple(text.split(","))
    wrong = set(asked) - set(LAYERS)
    if wrong:
        raise argparse.ArgumentTypeError(unknown("layer", wrong.pop(), LAYERS))
    return asked


def run(args) -> int:
    model = drawing = None
    if is_robot(args.file):
        model = load_robot(args.file, ignore=KINDS, anywhere=args.anywhere)
        q = read_keyframe(model, args).q
    elif args.keyframe is not None or args.anywhere:
        raise PullbackError(f"--keyframe and --anywhere are for robots, and {args.file!r} is a motion: leave them out")
    else:
        drawing = load_motion(args.file)
    if args.export is not None:
        print(_exported(drawing or draw(model, q[None], dt=model.timestep, title=Path(args.file).stem), args))
        return 0
    with Viewer(drawing or model, host=args.host, port=args.port) as viewer:
        if model is not None:
            viewer.add_sliders(q)
        announce(viewer, browser=not args.no_browser)
        viewer.wait()
    return 0


def is_robot(name: str) -> bool:
    """Whether this is a robot's file or the name of a sample, and no motion."""
    path = Path(name)
    return path.suffix.lower() in ROBOT_FILES or (name in ROBOTS and not path.exists())


def announce(viewer: Viewer, *, browser: bool) -> None:
    """Says where to look, and opens a browser where there is a screen for it."""
    print(f"viewer: {viewer.url} (Ctrl-C ends it)", flush=True)
    has_screen = not sys.platform.startswith("linux") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if browser and has_screen:
        webbrowser.open(viewer.url)


def _exported(drawing: Drawing, args) -> Path:
    columns = (TextColumn("drawing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, **progress_options()) as progress:
        bar = progress.add_task("", total=None)
        return export(
            drawing,
            args.export,
            frames=args.frames,
            size=args.size,
            fps=args.fps,
            speed=args.speed,
            layers=args.layers,
            watch=lambda done, count: progress.update(bar, completed=done, total=count),
        )
