"""A real browser for tests: headless Chromium, with WebGL in software, driven through its DevTools protocol."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from websockets.sync import client

CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium, chromium-browser or google-chrome")

SOFTWARE_WEBGL = ["--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
QUIET = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
PATIENCE = 60.0  # a busy machine may be slow to start a browser [s]


class Browser:
    """One page of 800 x 600 pixels. Use it in a ``with`` statement."""

    def __init__(self, folder: Path, size: tuple[int, int] = (800, 600)):
        self.profile = folder / "profile"
        self.size = size

    def __enter__(self) -> Browser:
        self.process = subprocess.Popen(
            [
                *[CHROMIUM, "--headless=new", "--no-sandbox", *SOFTWARE_WEBGL, *QUIET, "--disable-sync"],
                *["--remote-debugging-port=0", f"--user-data-dir={self.profile}", "--disable-dev-shm-usage"],
                *[f"--window-size={self.size[0]},{self.size[1]}", "--force-device-scale-factor=1", "about:blank"],
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            place = self.profile / "DevToolsActivePort"
            wait_for(lambda: place.exists() and place.read_text().count("\n") >= 1, "the browser to start")
            port = int(place.read_text().splitlines()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=PATIENCE) as answer:
                page = next(target for target in json.load(answer) if target["type"] == "page")
            self.socket = client.connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=PATIENCE)
            self.sent = 0
            width, height = self.size
            view = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            self.command("Emulation.setDeviceMetricsOverride", **view)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        if hasattr(self, "socket"):
            self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)

    def command(self, method: str, **params) -> dict:
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": params}))
        answer = self._message(lambda message: message.get("id") == self.sent)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _message(self, wanted) -> dict:
        """The next message that is wanted; what comes before it is left out."""
        while not wanted(message := json.loads(self.socket.recv(timeout=PATIENCE))):
            pass
        return message

    def go(self, address: str) -> None:
        """Opens a page, and waits until it has loaded."""
        self.command("Page.enable")
        self.command("Page.navigate", url=address)
        self._message(lambda message: message.get("method") == "Page.loadEventFired")

    def value(self, script: str):
        """What a piece of JavaScript gives."""
        return self.command("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def click(self, script: str) -> None:
        """Clicks the element that a piece of JavaScript gives."""
        assert self.value(f"({script}).click() || true") is True, script

    def picture(self) -> np.ndarray:
        """What is seen, (height, width, 3) from 0 to 1."""
        data = base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"])
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) / 255.0

    def until(self, ready, what: str, part=slice(None)) -> np.ndarray:
        """A part of what is seen, as soon as it is what was waited for."""
        deadline = time.monotonic() + PATIENCE
        while not ready(view := self.picture()[part]):
            assert time.monotonic() < deadline, f"waited too long for {what}"
            time.sleep(0.1)
        return view


def wait_for(ready, what: str, patience: float = PATIENCE) -> None:
    """Until ``ready`` gives something true."""
    deadline = time.monotonic() + patience
    while not ready():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.1)


def share(mask: np.ndarray) -> float:
    """Of the pixels."""
    return float(mask.mean())


def centre(mask: np.ndarray) -> np.ndarray:
    """Mean column and row of the pixels, as shares of the width and height."""
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean() / mask.shape[1], rows.mean() / mask.shape[0]])
