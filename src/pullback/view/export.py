"""A drawing as a file for people without Pullback: a page, a film, or a strip of pictures."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np

from pullback.core.checks import check_kind, check_number, check_path, check_whole
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.core.launch import cores_to_use
from pullback.drawing.drawing import LAYERS, Drawing
from pullback.view.camera import natural_aspect
from pullback.view.replay import write_page

PAGE_FPS = 60  # of a page, which interpolates [1/s]
FILM_FPS = {".gif": 25, ".mp4": 30}  # GIF counts time in hundredths of a second
FILM_SAMPLES, STILL_SAMPLES = 2, 3  # rays per pixel along each axis: films need not be as smooth
STILL_AREA = 640 * 480  # of what does not move [pixels]
AREAS = {".gif": 480 * 360, ".mp4": 640 * 480, ".png": 400 * 300}  # of one picture, as wide as the motion [pixels]
LARGEST = 4096  # edge of a frame [pixels]
STRIP, MOST_STRIP, MOST_FILM = 6, 100, 20_000  # pictures of a strip, usually and at most; of a film
STRIP_ASPECT = 2.7  # about how wide all of them are together, for their height [1]
MEASURED = 500  # frames that are enough to know how far things go
GAP = 4  # between pictures of a strip [pixels]
FILM_CRF = 15  # of H.264: 0 is lossless, 23 its usual quality
PALETTE = 255
LAST_FRAME = 1.0  # a GIF stands still for so long before it starts again [s]
MOST_THREADS = 8  # more would wait for each other, and for memory
FORMATS = (".html", ".gif", ".mp4", ".png")


def export(
    drawing: Drawing,
    path,
    *,
    frames: int | None = None,
    size: tuple[int, int] | None = None,
    fps: float | None = None,
    speed: float = 1.0,
    layers=("forces", "ghost"),
    watch: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a drawing to ``path``, in the format of its extension.

    .html       a replay for any browser, in one file
    .gif, .mp4  a film
    .png        a strip of pictures, with their times, and the drawing's title in the first

    frames:  pictures of a strip (6), closer to each other where things move fast; or of a film (as many as fps says)
    size:    width and height of one picture [pixels]; as the motion is wide if None
    fps:     pictures per second of a film; rows per second of a page [1/s]
    speed:   of a film: 0.5 is half as fast as the motion
    layers:  what to show besides the robot: some of "forces", "gradients" and "ghost"; a page has all, with switches
    watch:   called after each picture with how many are done, and how many there will be
    """
    check_kind(drawing, Drawing, "drawing", "draw_run(run)")
    path = check_path(path)
    speed = check_number(speed, "speed")
    if fps is not None:
        fps = check_number(fps, "fps")
    if not isinstance(layers, Collection) or not set(map(str, layers)) <= set(LAYERS):
        raise PullbackError(f"layers must be some of {', '.join(LAYERS)}, not {layers!r}")
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise PullbackError(f"{str(path)!r} is of no known format: its name must end in {', '.join(FORMATS)}")
    if not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK):  # now, not after the work
        raise PullbackError(f"cannot write {str(path)!r}: its folder does not exist, or may not be written to")
    if kind == ".html":
        return write_page(path, drawing.thinned(fps or PAGE_FPS))
    moves = drawing.frames > 1
    width, height = _natural_size(drawing, AREAS[kind] if moves else STILL_AREA) if size is None else _checked(size)
    if kind == ".mp4":
        width, height = width + width % 2, height + height % 2  # the codec halves the size of colours
    if frames is not None and not check_whole(frames, "frames") <= (MOST_STRIP if kind == ".png" else MOST_FILM):
        raise PullbackError(f"a strip has 1 to {MOST_STRIP} pictures and a film up to {MOST_FILM}, not {frames}")
    if kind == ".png":
        shown = _strip_frames(drawing, frames or STRIP)
    else:
        fps = min(fps or FILM_FPS[kind], 50 if kind == ".gif" else 120)
        shown = _film_frames(drawing, frames, fps / speed)
    pictures = _pictures(drawing, shown, (width, height), layers, kind != ".png", watch)
    with whole_file(path) as partial:
        if kind == ".png":
            labels = [f"{time:.2f} s" if moves else "" for time in drawing.times[shown]]
            _write_strip(partial, list(pictures), labels, drawing.title)
        elif kind == ".gif":
            _write_gif(partial, list(pictures), fps)
        else:
            _write_mp4(partial, pictures, (width, height), fps)
    return path


def _checked(size) -> tuple[int, int]:
    if np.shape(size) != (2,):
        raise PullbackError(f"size must be a width and a height, such as (640, 480), not {size!r}")
    width, height = (check_whole(edge, "an edge of a picture") for edge in size)
    if not (16 <= width <= LARGEST and 16 <= height <= LARGEST):
        raise PullbackError(f"a picture has 16 to {LARGEST} pixels along each edge, not {width} x {height}")
    return width, height


def _natural_size(drawing: Drawing, area: int) -> tuple[int, int]:
    aspect = natural_aspect(drawing)
    return 2 * round(math.sqrt(area * aspect) / 2), 2 * round(math.sqrt(area / aspect) / 2)


def _strip_frames(drawing: Drawing, count: int) -> np.ndarray:
    """Frames that become pictures of a strip, from the first to the last.

    They are evenly spaced in the mean of time and of the distance covered, each relative to its total. By time alone a
    jump, a throw or an impact falls between two pictures; by distance alone nobody sees how long a robot stands.
    """
    frames = np.unique(np.linspace(0, drawing.frames - 1, MEASURED).round().astype(int))
    steps = np.linalg.norm(np.diff(drawing.outline(frames, copies=1), axis=0), axis=-1)  # (frames - 1, corners) [m]
    gone = np.append(0.0, np.cumsum(steps.mean(axis=1))) if steps.size else np.zeros(len(frames))
    shares = [x / x[-1] for x in (drawing.times[frames], gone) if x[-1] > 0.0]
    even = np.interp(np.linspace(0, 1, count), np.mean(shares, axis=0), frames) if shares else frames
    return np.unique(np.round(even).astype(int))


def _film_frames(drawing: Drawing, count: int | None, rate: float) -> np.ndarray:
    """Frames of the drawing that become pictures; rate: pictures for each second of the motion."""
    count = count or max(1, math.floor(drawing.duration * rate + 1e-9) + 1)
    if count > MOST_FILM:
        raise PullbackError(f"a film has up to {MOST_FILM} pictures, not {count:.3g}: raise speed, or lower fps")
    times = np.arange(count) / rate
    after = np.clip(np.searchsorted(drawing.times, times), 1, max(drawing.frames - 1, 1))
    before = after - 1
    after = np.minimum(after, drawing.frames - 1)
    nearer = np.abs(drawing.times[after] - times) < np.abs(drawing.times[before] - times)
    return np.where(nearer, after, before)


def _pictures(drawing, shown, size, layers, is_film: bool, watch) -> Iterator[np.ndarray]:
    """(height, width, 3) uint8, in order; several are drawn at a time, since Warp lets other threads run."""
    from pullback.view.render import Renderer  # starts Warp

    renderer = Renderer(drawing, size, layers=layers, samples=FILM_SAMPLES if is_film else STILL_SAMPLES)
    before = [None, *shown[:-1]] if is_film else [None] * len(shown)  # a still shows its own moment
    with ThreadPoolExecutor(min(cores_to_use(None), MOST_THREADS)) as pool:
        yield from _counted(pool.map(renderer.frame, shown, before), len(shown), watch)


def _counted(pictures: Iterator[np.ndarray], count: int, watch) -> Iterator[np.ndarray]:
    for done, picture in enumerate(pictures, 1):
        yield picture
        if watch is not None:
            watch(done, count)


def _pillow():
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise PullbackError('pictures need pillow: pip install "pullback[view]"') from None
    return Image, ImageDraw, ImageFont


def _write_strip(path: Path, pictures: list[np.ndarray], labels: list[str], title: str) -> None:
    """Pictures side by side, each with its time, the first with the title below it."""
    Image, ImageDraw, ImageFont = _pillow()
    height, width = pictures[0].shape[:2]
    columns, rows = _strip_layout(len(pictures), width / height)
    strip = Image.new("RGB", (columns * (width + GAP) - GAP, rows * (height + GAP) - GAP), "white")
    pen = ImageDraw.Draw(strip)
    font = ImageFont.load_default(size=max(10, min(height // 16, 20), strip.width // 75))
    inset = height // 30
    while title and font.getlength(title) > width - 2 * inset:
        title = title.rstrip("…")[:-1] + "…" if len(title) > 2 else ""
    labels = ["\n".join(filter(None, (labels[0], title))), *labels[1:]]
    for i, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        corner = (i % columns * (width + GAP), i // columns * (height + GAP))
        strip.paste(Image.fromarray(picture), corner)
        pen.text((corner[0] + inset, corner[1] + inset), label, fill=(35, 42, 53), font=font)
    strip.save(path, optimize=True)


def _strip_layout(count: int, aspect: float) -> tuple[int, int]:
    """Columns and rows for pictures of this width over height, without a gap at the end unless it is a long row."""
    columns = {-(-count // rows) for rows in range(1, count + 1)}
    layouts = [(many, -(-count // many)) for many in sorted(columns)]

    def badness(layout: tuple[int, int]) -> float:
        across, down = layout
        return abs(math.log(aspect * across / down / STRIP_ASPECT)) + (across * down > count)

    return min(layouts, key=badness)


def _write_gif(path: Path, pictures: list[np.ndarray], fps: float) -> None:
    Image, _, _ = _pillow()
    # One palette for all frames, from some of them side by side: a palette for each would flicker.
    some = pictures[:: max(1, len(pictures) // 8)]
    palette = Image.fromarray(np.concatenate(some, axis=1)).quantize(PALETTE, method=Image.Quantize.MEDIANCUT)
    frames = [Image.fromarray(p).quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    lasting = [round(1000 / fps)] * len(frames)
    lasting[-1] = round(1000 * LAST_FRAME)
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=lasting, loop=0, optimize=False)


def _write_mp4(path: Path, pictures: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise PullbackError('films need imageio-ffmpeg: pip install "pullback[view]"') from None
    rate = Fraction(fps).limit_denominator()
    pixels = f"-f rawvideo -pix_fmt rgb24 -s {size[0]}x{size[1]} -r {rate} -i -"
    encoding = f"-an -c:v libx264 -pix_fmt yuv420p -crf {FILM_CRF}"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), *f"-y -v error {pixels} {encoding}".split(), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as film:
        try:
            for picture in pictures:
                film.stdin.write(np.ascontiguousarray(picture))
        except BrokenPipeError:  # it has given up, and says why below
            pass
        except BaseException:
            film.kill()
            raise
        said = film.communicate()[1].decode(errors="replace").strip().rpartition("\n")[2]
    if film.returncode:
        raise OSError(re.sub(r"^\[.*?\] ", "", said) or f"ffmpeg ended with {film.returncode}")
