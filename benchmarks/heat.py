"""Is heat right, and what does it cost? Closed forms, scikit-fem, gradients, a part of the size of a study, scaling.

Then the tasks of heat: are they solved? Those are in the file beside this one, heat_tasks.

    python benchmarks/heat.py [--json FILE] [--quick] [--only NAME ...]

The independent implementation needs scikit-fem and scipy; without them its figure is reported as absent.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from common import Result, interleave, main, peak_added_memory, version
from heat_parts import STEPS, plain, seed_part, still, wall
from heat_tasks import QUESTIONS as TASKS

import pullback as pb
from pullback import thermal
from pullback.rollout.check import WrongGradient

METHODS = ("explicit", "implicit")


def order(sizes, errors) -> float:
    """Slope of log error against log size."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


# --- right? -----------------------------------------------------------------------------------------------------------


def bar_error(cells: int, method: str) -> float:
    """Of a bar that cools by conduction alone from a cosine, at exp(-1/2) of its start. dt like h². [1]"""
    length, material = 10e-3, plain()
    rate = material.conductivity[0] / (material.density * material.capacity[0]) * (np.pi / length) ** 2
    mesh = thermal.block((length, 1e-3, 1e-3), (cells, 1, 1))
    steps = cells**2
    heat = thermal.Heat(mesh, material, still(), dt=0.5 / rate / steps, method=method, convection=0.0)
    wave = np.cos(np.pi * mesh.nodes[:, 0] / length)
    run = pb.rollout(heat, heat.state(600.0 + 100.0 * wave), steps=steps, checkpoint_every=steps)
    return float(np.max(np.abs(run.T[-1, 0] - 600.0 - 100.0 * np.exp(-0.5) * wave)) / 100.0)


def moving_source(points, t: float, start, velocity, power: float, radius: float, material) -> np.ndarray:
    """Rise (n,) [K] of a half space z <= 0 under a Gaussian source that moves on its insulated surface.

    The surface's kernel of an instant is a Gaussian whose square width is 4 a tau + r²/3, and a half Gaussian in depth;
    tau = u² takes away the root in the integral over all instants, which then converges exponentially.
    """
    rc = material.density * material.capacity[0]
    a = material.conductivity[0] / rc
    nodes, weights = np.polynomial.legendre.leggauss(200)
    top = np.sqrt(t)
    result = np.zeros(len(points))
    for u, weight in zip(top * (nodes + 1) / 2, top * weights / 2, strict=True):
        tau = u * u
        place = np.asarray(start) + np.asarray(velocity) * (t - tau)
        width = 4 * a * tau + radius**2 / 3
        across = np.sum((points[:, :2] - place) ** 2, axis=1)
        kernel = np.exp(-across / width) / (np.pi * width) * np.exp(-(points[:, 2] ** 2) / (4 * a * tau))
        result += weight * 2 * u * power / rc * 2 / np.sqrt(4 * np.pi * a * tau) * kernel
    return result


def source_error(h: float, method: str) -> float:
    """Against that at the last instant: root mean square over all nodes, relative. Half of it: the path is a plane of
    symmetry. [1]"""
    material, power, radius, t = plain(), 100.0, 4e-3, 0.5
    size = np.array([32e-3, 14e-3, 12e-3])
    mesh = thermal.block(size, tuple(int(round(x / h)) for x in size), origin=(0.0, 0.0, -size[2]))
    path = thermal.Toolpath([0.0, 1.0], [[13e-3, 0, 0], [23e-3, 0, 0]], [1.0, 0.0])
    steps = int(round({"explicit": 10, "implicit": 40}[method] * (1e-3 / h) ** 2))
    heat = thermal.Heat(
        mesh, material, path, dt=t / steps, method=method, convection=0.0, spot_radius=radius, power=power
    )  # fmt: skip
    run = pb.rollout(heat, heat.state(300.0), steps=steps, checkpoint_every=steps)
    exact = moving_source(mesh.nodes, t, (13e-3, 0.0), (10e-3, 0.0), power, radius, material)
    return float(np.linalg.norm(run.T[-1, 0] - 300.0 - exact) / np.linalg.norm(exact))


def beam_energy(heat: thermal.Heat, steps: int) -> float:
    """What the beam gives to a part whose faces are all there, in all steps, by sums over Gauss points. [J]"""
    mesh, total = heat.mesh, 0.0
    corners, _, beyond = mesh.faces()
    quads = mesh.nodes[corners[beyond < 0]]
    near = np.array([(1 + a) / 2 for a in (-(3**-0.5), 3**-0.5)])
    points, areas = [], []
    for u in near:
        for v in near:
            shape = np.array([(1 - u) * (1 - v), u * (1 - v), u * v, (1 - u) * v])
            du, dv = np.array([v - 1, 1 - v, v, -v]), np.array([u - 1, -u, u, 1 - u])
            points.append(np.einsum("c,fcx->fx", shape, quads))
            normal = np.cross(np.einsum("c,fcx->fx", du, quads), np.einsum("c,fcx->fx", dv, quads))
            areas.append(np.maximum(normal[:, 2], 0.0) / 4)
    points, areas = np.concatenate(points), np.concatenate(areas)
    power, _, radius = heat.default_controls(1)[0, 0]
    for step in range(steps):
        place, on = heat.toolpath.at((step + 0.5) * heat.dt)
        square = np.sum((points - place) ** 2, axis=1)
        flux = 3 * heat.material.absorptivity * power * on / (np.pi * radius**2) * np.exp(-3 * square / radius**2)
        total += heat.dt * np.sum(areas * flux)
    return total


def energy_error(method: str, steps: int) -> float:
    """Of an insulated part that is molten by the laser: heat at the end less heat at the start and what came in. [1]"""
    mesh = thermal.block((8e-3, 6e-3, 4e-3), (8, 6, 4))
    shift = 5e-5 * np.random.default_rng(0).standard_normal(mesh.nodes.shape)
    mesh = thermal.Mesh(mesh.nodes + shift, mesh.elements)
    path = thermal.Toolpath([0.0, 1.0, 2.0], 1e-3 * np.array([(2, 2, 4), (6, 2, 4), (6, 5, 4)]), [1.0, 0.8, 0.0])
    heat = thermal.Heat(
        mesh, thermal.inconel_718(), path, dt=2.0 / steps, method=method, convection=0.0, power=400.0
    )  # fmt: skip
    heat.params["emissivity"] = 0.0
    start = heat.state()
    run = pb.rollout(heat, start, steps=steps, checkpoint_every=steps)
    assert run.T.max() > heat.material.liquidus  # latent heat was taken up
    before, after = (heat.energy(state)[0] for state in (start, run.final))
    given = beam_energy(heat, steps)
    return abs(after - before - given) / given


def right(quick: bool):
    cells = (8, 16, 32) if quick else (8, 16, 32, 64)
    for method in METHODS:
        errors = [bar_error(n, method) for n in cells]
        note = f"errors {errors[0]:.1e} to {errors[-1]:.1e}, {cells[0]} to {cells[-1]} elements, dt like h²"
        yield Result(f"cooling bar, {method}: order in h", order(1 / np.array(cells), errors), "", ">= 1.95", "", note)
    for method in METHODS:
        sizes = (1e-3, 2e-3 / 3) if quick else (1e-3, 2e-3 / 3, 5e-4)
        errors = [source_error(h, method) for h in sizes]
        span = f"h from {1e3 * sizes[0]:.2g} to {1e3 * sizes[-1]:.2g} mm"
        note = f"errors {errors[0]:.1e} to {errors[-1]:.1e} root mean square, {span}"
        figure = f"moving Gaussian source on a half space, {method}: order in h"
        yield Result(figure, order(sizes, errors), "", ">= 1.95", "", note)
    for method, steps in (("explicit", 500), ("implicit", 40)):
        note = f"insulated, molten by the laser, {steps} steps; against what the laser gives"
        yield Result(f"energy balance, {method}: error", energy_error(method, steps), "", "<= 1e-10", "", note)


def independent(quick: bool):
    figure, must, peer = "3,000 elements, 500 steps: difference", "<= 1e-8", version("scikit-fem", "scikit-fem")
    try:
        from heat_skfem import Reference
    except ImportError as missing:
        yield Result(figure, None, "", must, peer, f"absent: {missing}")
        return
    heat = wall()
    steps = 60 if quick else 500
    ours = pb.rollout(heat, heat.state(), steps=steps, checkpoint_every=steps).T[-1, 0]
    theirs = Reference(heat).run(steps)
    error = np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs - 300.0))
    note = (
        f"{len(heat.mesh.elements)} elements, {steps} steps, births, latent heat, losses; hottest {theirs.max():.0f} K"
    )
    yield Result(figure, error, "", must, peer, note)


def gradients(quick: bool):
    for method, dt in (("explicit", 0.02), ("implicit", 0.3)):
        worst, where = 0.0, ""
        for steps, seed in ((1, 0), (3, 7)) if not quick else ((1, 0),):
            heat = wall(small=True, dt=dt, method=method, worlds=2)
            random = np.random.default_rng(seed)
            state = heat.state(random.uniform(300, 1800, (2, heat.n)), (0.83, 1.11))
            controls = heat.default_controls(steps) * random.uniform(0.8, 1.2, (steps, 2, 3))
            try:
                report = pb.check_system(heat, state, controls, rollout_steps=steps, seed=seed, tolerance=1e-7)
            except WrongGradient as wrong:
                report = wrong.report
            row = report.worst
            entries = sum(r.entries for r in report.rows)
            if row.error >= worst:
                worst, where = row.error, f"{row.field} of {entries} entries in {len(report.rows)} fields"
        yield Result(f"check_system, {method}: largest error", worst, "", "<= 1e-7", "differences", f"worst: {where}")


# --- how fast? --------------------------------------------------------------------------------------------------------


def study(steps: int) -> dict[str, float]:
    """One gradient of a loss over all temperatures by all powers and parameters: seconds, and memory of it all."""
    import resource

    heat, controls = seed_part(steps)
    pb.rollout(heat, heat.state(), controls[:50], checkpoint_every="sqrt").pullback(T_bar=lambda k, x: x.T)  # warm
    count = (steps + 1) * heat.n

    def bars(_steps, states):
        return (2.0 / count) * (states.T - np.float32(800.0))

    begin = time.perf_counter()
    run = pb.rollout(heat, heat.state(), controls, checkpoint_every="sqrt")
    middle = time.perf_counter()
    grads = run.pullback(T_bar=bars)
    end = time.perf_counter()
    assert np.all(np.isfinite(grads.controls)) and np.any(grads.controls[..., 0])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "forward": middle - begin,
        "backward": end - middle,
        "memory": memory,
        "elements": len(heat.mesh.elements),
        "nodes": heat.n,
        "hottest": float(run.T.max()),
    }


def size_of_a_study(quick: bool):
    """In a process of its own, whose memory is that of the study."""
    steps = 400 if quick else STEPS
    answer = subprocess.run(
        [sys.executable, "-c", f"import json, heat; print(json.dumps(heat.study({steps})))"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(answer.stdout.splitlines()[-1])
    seconds = found["forward"] + found["backward"]
    note = f"{found['elements']} elements, {found['nodes']} nodes, {steps} steps, float32, all cores"
    peer = "the study's notebook: 17 to 20 min; Taichi about 5 min, as published"
    if quick:
        yield Result(f"gradient iteration, {steps} steps", seconds, "s", "", peer, note + "; not the whole study")
    else:
        yield Result("gradient iteration of a printed part", seconds, "s", "<= 120", peer, note)
    yield Result("its memory, Python and libraries included", found["memory"] / 1e9, "GB", "<= 1", "", "")
    ratio = seconds / found["forward"]
    yield Result("(forward + backward) / forward", ratio, "ratio", "<= 4", "", f"forward {found['forward']:.1f} s")


def memory(quick: bool):
    """What checkpoints leave of memory: 16 times the steps should take 4 times as much."""
    added = {}
    heat = wall()
    for steps in (256, 4096):
        controls = heat.default_controls(steps)

        def gradient(controls=controls):
            run = pb.rollout(heat, heat.state(), controls, checkpoint_every="sqrt")
            return run, run.pullback(T_bar=lambda k, states: states.T)

        added[steps] = peak_added_memory(gradient, repeats=1 if quick else 3)
    if None in added.values():
        yield Result("memory of 16 times the steps", None, "ratio", "<= 5", "", "absent: not Linux")
        return
    note = f"{added[256] / 1e6:.1f} MB for 256 steps, {added[4096] / 1e6:.1f} MB for 4096"
    yield Result("memory of 16 times the steps", added[4096] / added[256], "ratio", "<= 5", "", note)


def scaling(quick: bool):
    """Forward and backward through some steps of a block, from a thousand elements on."""
    cells = (10, 20, 40) if quick else (10, 22, 46, 100)
    seconds, elements = [], []
    for n in cells:
        mesh = thermal.block((n * 1e-3,) * 3, (n, n, n))
        middle = n * 5e-4
        path = thermal.Toolpath([0.0, 10.0], [[0, middle, n * 1e-3], [n * 1e-3, middle, n * 1e-3]], [1.0, 0.0])
        heat = thermal.Heat(mesh, thermal.inconel_718(), path, dt=0.02, dtype="float32")
        start, bar = heat.state(500.0), np.ones((1, heat.n), dtype=np.float32)
        steps = max(4, 200_000 // len(mesh.elements))

        def gradient(heat=heat, start=start, steps=steps, bar=bar):
            pb.rollout(heat, start, steps=steps).pullback(T_bar=bar)

        seconds.append(interleave({"ours": gradient}, repeats=3)["ours"] / steps)
        elements.append(len(mesh.elements))
    note = ", ".join(f"{e}: {1e6 * s:.0f} µs" for e, s in zip(elements, seconds, strict=True))
    exponent = order(elements, seconds)
    yield Result("cost of a step forward and backward against elements: exponent", exponent, "", "<= 1.05", "", note)


QUESTIONS = {
    "right": right,
    "independent": independent,
    "gradients": gradients,
    "study": size_of_a_study,
    "memory": memory,
    "scaling": scaling,
}

if __name__ == "__main__":
    main(QUESTIONS | TASKS)
