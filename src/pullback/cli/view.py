"""``pullback view``: look at a motion or a robot in the browser, or make a page, a film or a picture of it."""

from __future__ import annotations

import argparse
import os
import re
import sys
import webbrowser
from pathlib import Path

from rich.progress import MofNCompleteColumn

from pullback.cli import common, policies
from pullback.cli.common import ROBOT_FILES
from pullback.core.errors import PullbackError
from pullback.model.robots import SAMPLES
from pullback.model.unsupported import KINDS
from pullback.view import LAYERS, Drawing, Viewer, draw, export, load_motion

ABOUT = """\
Shows a motion in the browser, with controls for playing and with contact points and forces, gradients of the loss, and
the target. FILE is a motion file, as written by 'pullback simulate' (motion.npz) and 'pullback optimize' (result.npz).
With --export nothing is shown; OUT is written as a page for any browser (.html), a film (.gif, .mp4) or a strip of
pictures (.png), without a display or a graphics card.

FILE may also be a policy (policy.npz, as written by 'pullback train'), which then moves its robot; --env names the file
of an environment of your own.

FILE may also be a robot: an MJCF or URDF file (.xml, .mjcf, .urdf), or the name of a sample robot. It is shown in its
home pose, or in that of --keyframe, with a slider for every joint. Elements that cannot be simulated are no problem.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("view", help="look at a motion or a robot, or make a film of it", description=ABOUT)
    about = f"a motion or a policy (.npz), or a robot: a file or {', '.join(SAMPLES)}"
    parser.add_argument("file", metavar="FILE", help=about)
    common.add_keyframe(parser)
    common.add_anywhere(parser)
    policies.add_env(parser)
    add_server(parser)
    common.option(parser, "--no-browser", "print the address only; do not open a browser")
    common.option(parser, "--export OUT", "write OUT.html, OUT.gif, OUT.mp4 or OUT.png instead", Path)
    common.option(parser, "--frames N", "number of pictures of a strip (default 6) or of a film", common.whole(1))
    common.option(parser, "--size WxH", "size of one picture [pixels]", size)
    common.option(parser, "--fps N", "frames per second of a film (default 25 for .gif, 30 for .mp4)", common.positive)
    common.option(parser, "--speed X", "playback speed of a film: 0.5 is slow motion", common.positive, 1.0)
    shown = "what to draw besides the robot: some of forces,gradients,ghost, or none"
    common.option(parser, "--layers LIST", shown, layers, "forces,ghost")
    parser.set_defaults(run=run)


def add_server(parser: argparse.ArgumentParser) -> None:
    """Where the viewer is found."""
    common.option(parser, "--port N", "port of the viewer (default 8080, or the next free one)", common.whole(1))
    common.option(parser, "--host HOST", "address to serve on; 0.0.0.0 lets other machines connect", str, "127.0.0.1")


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
        raise argparse.ArgumentTypeError(common.unknown("layer", wrong.pop(), LAYERS))
    return asked


def run(args) -> int:
    model = drawing = None
    if is_robot(args.file):
        model = common.load_robot(args.file, ignore=KINDS, anywhere=args.anywhere)
        q = common.read_keyframe(model, args).q
        if not len(model.geoms.names):
            print(f"note: {_no_shapes(args.file)}", file=sys.stderr)
    elif args.keyframe is not None or args.anywhere:
        raise PullbackError(f"--keyframe and --anywhere are for robots, and {args.file!r} is none: leave them out")
    elif moves_a_robot(args.file) or args.env is not None:
        policy, env = policies.read_policy(args.file, args.env)
        shown = policies.film(policy, env)
        if shown is None:
            raise PullbackError(f"{type(env.system).__name__} does not say what it looks like: give it drawing(run)")
        drawing = shown[1]
    else:
        drawing = load_motion(args.file)
    if args.export is not None:
        print(_export(drawing or draw(model, q[None], dt=model.timestep, title=Path(args.file).stem), args))
        return 0
    with Viewer(drawing or model, host=args.host, port=args.port) as viewer:
        if model is not None:
            viewer.add_sliders(q)
        announce(viewer, browser=not args.no_browser)
        viewer.wait()
    return 0


def _no_shapes(file: str) -> str:
    """Why there is nothing to see, on one line."""
    keep = ': MuJoCo discards visuals of URDF, unless it has <mujoco><compiler discardvisual="false"/></mujoco>'
    return f"{file!r} has no shapes (geoms) to draw" + (keep if file.lower().endswith(".urdf") else "")


def is_robot(name: str) -> bool:
    """Whether this is a robot's file or the name of a sample, and no motion."""
    path = Path(name)
    return path.suffix.lower() in ROBOT_FILES or (name in SAMPLES and not path.exists())


def moves_a_robot(name: str) -> bool:
    """Whether this is a policy; a folder's motion, if there is one, is shown as it is."""
    return policies.is_policy(name) and not (Path(name) / "motion.npz").is_file()


def show(drawing: Drawing, args) -> None:
    """Until somebody ends it."""
    with Viewer(drawing, host=args.host, port=args.port) as viewer:
        announce(viewer, browser=True)
        viewer.wait()


def announce(viewer: Viewer, *, browser: bool) -> None:
    """Says where to look, and opens a browser where there is a screen for it."""
    print(f"viewer: {viewer.url} (Ctrl-C ends it)", flush=True)
    has_screen = not sys.platform.startswith("linux") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if browser and has_screen:
        webbrowser.open(viewer.url)


def _export(drawing: Drawing, args) -> Path:
    with common.progress("drawing", MofNCompleteColumn()) as progress:
        bar = progress.add_task("", total=None)
        watch = lambda done, count: progress.update(bar, completed=done, total=count)  # noqa: E731
        options = {name: getattr(args, name) for name in ("frames", "size", "fps", "speed", "layers")}
        return export(drawing, args.export, watch=watch, **options)
