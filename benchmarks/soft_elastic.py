"""Elastic solids and cloth: are gradients right, what is conserved, closed forms, and how fast is it beside Newton?

    python benchmarks/soft_elastic.py [--json FILE] [--quick] [--only NAME ...]

Newton (pip install newton) is listed as absent where it is not installed. Everything runs on one core.
"""

from __future__ import annotations

import importlib.util
import math

from common import Result, interleave, main, one_core, version

one_core()

import numpy as np  # noqa: E402
from coupled_elastic import finger, floating, flying, in_motion  # noqa: E402
from coupled_scenes import robot_momentum  # noqa: E402
from soft_bodies import (  # noqa: E402
    CLOTHS,
    GAP,
    SOLIDS,
    around_the_cube,
    bar,
    cube,
    flag,
    masses,
    moving,
    shaken,
    surrounded,
)
from soft_shapes import Driven  # noqa: E402

import pullback as pb  # noqa: E402
from pullback import soft  # noqa: E402
from pullback.core.trees import row  # noqa: E402
from pullback.tasks import TASKS, solve  # noqa: E402

HAS_NEWTON = importlib.util.find_spec("newton") is not None
SHIRT = 37  # squares along each side: 1,444 vertices, as a T-shirt of DiffCloth has (1,426)
FLAG, SECONDS, RATE = 16, 2.0, 60  # Newton's diffsim_cloth: squares along each side, [s], steps per second
SUBSTEPS = 16  # that its explicit solver needs


# --- whether it is right ----------------------------------------------------------------------------------------------


def gradients(quick: bool):
    worst = {"at rest": 0.0, "in motion": 0.0, "in contact": 0.0}
    for kinds, make in ((SOLIDS, bar), (CLOTHS, flag)):
        for kind in kinds:
            system = make(kind)
            for name, start in (("at rest", system.state()), ("in motion", shaken(system, 1))):
                report = pb.check_system(system, start, rollout_steps=2)
                worst[name] = max(worst[name], *(row.error for row in report.rows if row.status == "agrees"))
    for kind in SOLIDS:
        system = soft.Elastic(cube(kind), dt=0.01, shapes=around_the_cube(), gap=GAP, contact_stiffness=1e4)
        for speed in (0.0, 0.1, 0.3):
            report = pb.check_system(system, shaken(system, 3, size=0.0, speed=speed), rollout_steps=3)
            worst["in contact"] = max(
                worst["in contact"], *(row.error for row in report.rows if row.status == "agrees")
            )
    for name, error in worst.items():
        yield Result(f"elastic: check_system, {name}", error, "", must="<= 1e-6")


def conserved(quick: bool):
    system = flag(fixed=(), handles=(), damping=0.0, gravity=(0, 0, 0), wind=(0, 0, 0))
    system.params["drag"] = 0.0
    steps = 100 if quick else 1000
    v = system.steps(shaken(system, 0), np.zeros((steps, 1, 0)), keep_every=steps).v[:, 0]
    mass = np.zeros(system.n)
    areas = system.mesh.arrays["triangle_area"]
    np.add.at(mass, system.bodies[0].triangles.ravel(), np.repeat(0.2 * areas / 3, 3))
    drift = float(np.abs(mass @ (v[1] - v[0])).max() / np.abs(mass @ v[0]).max())
    yield Result(f"elastic: momentum of a free cloth after {steps} steps", drift, "", must="<= 1e-12")


def moved(quick: bool):
    """Shapes that move, and a robot that carries some."""
    system = surrounded()
    driven, scene = Driven(system), finger()
    control = driven.control(np.zeros((1, 0)), moving(system))
    points = {
        "shapes that move": (driven, shaken(system, 3, size=0.0, speed=0.1), control),
        "a robot among elastic bodies": (scene, *in_motion(scene)),
    }
    for name, point in points.items():
        rows = pb.check_system(*point).rows
        worst, kinks = max(r.error for r in rows if r.status == "agrees"), sum(r.status == "kink" for r in rows)
        about = f"{len(rows)} fields, {kinks} at kinks"
        yield Result(f"elastic: check_system, {name}", worst, "", must="<= 1e-6", note=about)
    scene, steps = floating(), 20 if quick else 60
    run = pb.rollout(scene, flying(scene), steps=steps)
    robot = [robot_momentum(scene.robot, row(run.states.robot, t))[0, 3:] for t in (0, steps)]
    both = [x + masses(scene.soft) @ run.states.soft.v[t, 0] for x, t in zip(robot, (0, steps), strict=True)]
    drift, about = np.abs(both[1] - both[0]).max(), f"of which they exchanged {np.abs(robot[1] - robot[0]).max():.1e}"
    yield Result(f"elastic: momentum with a robot over {steps} steps", drift, "kg m/s", must="<= 1e-12", note=about)


def closed_forms(quick: bool):
    length, side, young, density, gravity = 0.4, 0.1, 1e6, 1000.0, 0.1
    weight, inertia = density * gravity * side**2, side**4 / 12
    beam = weight * length**4 / (8 * young * inertia) + weight * length**2 / (2 * 5 / 6 * young / 2 * side**2)
    sizes = (4, 8) if quick else (4, 8, 16)
    errors = []
    for n in sizes:
        material = soft.StableNeoHookean(young=young, poisson=0.0, density=density)
        body = soft.solid_block((0, 0, 0), (length, side, side), (4 * n, n, n), material)
        held, tip = (np.flatnonzero(np.isclose(body.points[:, 0], x)) for x in (0.0, length))
        system = soft.Elastic(body, dt=1e4, gravity=(0, 0, -gravity), fixed=held, tolerance=1e-11)
        x = system.step(system.state()).x[0]
        errors.append(1 + (x[tip, 2] - body.points[tip, 2]).mean() / beam)
    order = -math.log2(errors[-1] / errors[-2])
    yield Result(f"elastic: cantilever, error with {sizes[-1]} elements in height", float(errors[-1]), "")
    yield Result("elastic: cantilever, order of the error", order, "", must=">= 1.7")


# --- speed ------------------------------------------------------------------------------------------------------------


def shirt(**options) -> soft.Elastic:
    """Cloth as large as a T-shirt, held by two corners, in the wind."""
    material = soft.Membrane(young=500.0, density=0.2, bending=1e-4, drag=0.2)
    body = soft.sheet((0, 0, 0), (0.8, 0, 0), (0, 0, -0.8), (SHIRT, SHIRT), material)
    top = np.flatnonzero(np.isclose(body.points[:, 2], 0.0))
    settings = {"dt": 1 / 90, "fixed": top[[0, -1]], "wind": (1.0, 4.0, 0.5), "threads": 1}
    return soft.Elastic(body, **settings | options)


def shirt_in_wind(quick: bool):
    system, steps = shirt(), 10 if quick else 50
    begun = pb.rollout(system, system.state(), steps=steps)
    run = pb.rollout(system, begun.final, steps=steps)
    forward, backward = system._stepper, np.ones((1, system.n, 3))
    calls = {
        "forward": lambda: pb.rollout(system, begun.final, steps=steps),
        "backward": lambda: run.pullback(x_bar=backward),
    }
    taken = interleave(calls, repeats=3 if quick else 7)
    calls["forward"]()
    newton_steps = forward.counts[0, 0] / steps
    yield Result(
        f"T-shirt-sized cloth, {system.n} vertices: a step", 1e3 * taken["forward"] / steps, "ms", must="<= 60"
    )
    yield Result("T-shirt-sized cloth: backward / forward", taken["backward"] / taken["forward"], "", must="<= 0.5")
    yield Result("T-shirt-sized cloth: Newton steps a step", float(newton_steps), "")


def thrown(**options) -> soft.Elastic:
    """The cloth of Newton's diffsim_cloth: a metre square, 289 vertices of 1 kg each but at the border."""
    material = soft.Membrane(young=2e4, density=float(FLAG * FLAG), poisson=0.3, viscosity=100.0)
    body = soft.sheet((0, 0, 0), (-math.sqrt(0.5), 0, math.sqrt(0.5)), (0, 1, 0), (FLAG, FLAG), material)
    return soft.Elastic(body, dt=1 / RATE, threads=1, **options)


def beside_newton(quick: bool):
    """A gradient of where the centre of thrown cloth is after two seconds, by all velocities at the start."""
    steps = round(SECONDS * RATE) // (10 if quick else 1)
    system = thrown(dtype="float32")
    start = system.state(v=(0.0, 0.1, 10.0))
    bars = np.zeros((1, system.n, 3), np.float32)
    bars[..., 1] = 1 / system.n

    def ours():
        run = pb.rollout(system, start, steps=steps)
        return run, run.pullback(x_bar=bars)

    name = f"cloth {FLAG} × {FLAG}: gradient of {steps / RATE:g} s / Newton's"
    if not HAS_NEWTON:
        taken = interleave({"ours": ours}, repeats=3)
        yield Result(f"cloth {FLAG} × {FLAG}: gradient of {steps / RATE:g} s", 1e3 * taken["ours"], "ms")
        yield Result(name, None, "", must="<= 0.1", note="Newton is not installed")
        return
    peer = NewtonCloth(steps)
    peer.gradient()
    run, found = ours()
    path = peer.path()
    moved = run.final.x[0].mean(axis=0) - start.x[0].mean(axis=0)
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()  # it comes down nearly where it was thrown
    apart = float(np.linalg.norm(moved - (path[-1] - path[0])) / length)
    title = "thrown cloth: final place of its centre against Newton's, relative to its path length"
    yield Result(title, apart, "", must="<= 0.02")
    slopes = found.state.v[0].sum(axis=0)[1], peer.slope()[1]
    yield Result("thrown cloth: gradient by the velocity against Newton's", abs(slopes[0] / slopes[1] - 1), "")
    taken = interleave({"ours": ours, "peer": peer.gradient}, repeats=2 if quick else 5)
    yield Result(name, taken["ours"] / taken["peer"], "", must="<= 0.1", note=version("newton", "Newton"))


class NewtonCloth:
    """Newton's diffsim_cloth (its example) without air, which its solver has in another form."""

    def __init__(self, steps: int):
        import newton
        import warp as wp

        self.wp, self.steps = wp, steps
        scene = newton.ModelBuilder()
        scene.default_particle_radius = 0.01
        scene.add_cloth_grid(
            pos=wp.vec3(0.0, 0.0, 0.0),
            vel=wp.vec3(0.0, 0.1, 10.0),
            rot=wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -wp.pi * 0.75),
            dim_x=FLAG,
            dim_y=FLAG,
            cell_x=1.0 / FLAG,
            cell_y=1.0 / FLAG,
            mass=1.0,
            tri_ke=10000.0,
            tri_ka=10000.0,
            tri_kd=100.0,
            tri_lift=0.0,
            tri_drag=0.0,
        )
        self.model = scene.finalize(device="cpu", requires_grad=True)
        self.solver = newton.solvers.SolverSemiImplicit(self.model)
        self.solver.enable_tri_contact = False
        self.states = [self.model.state() for _ in range(steps * SUBSTEPS + 1)]
        self.control = self.model.control()

    def gradient(self) -> None:
        wp, states = self.wp, self.states
        tape = wp.Tape()
        with tape:
            for before, after in zip(states[:-1], states[1:], strict=True):
                before.clear_forces()
                self.solver.step(before, after, self.control, None, 1.0 / RATE / SUBSTEPS)
        n = self.model.particle_count
        bar = np.zeros((n, 3), np.float32)
        bar[:, 1] = 1.0 / n
        tape.zero()
        tape.backward(grads={states[-1].particle_q: wp.array(bar, dtype=wp.vec3, device="cpu")})

    def path(self) -> np.ndarray:
        """Of the centre: (substeps + 1, 3)."""
        return np.stack([state.particle_q.numpy().mean(axis=0) for state in self.states])

    def slope(self) -> np.ndarray:
        return self.states[0].particle_qd.grad.numpy().sum(axis=0)


# --- tasks ------------------------------------------------------------------------------------------------------------


def identified(quick: bool):
    whats = {"identify-beam": "beam: stiffness and viscosity", "drape": "cloth: friction and bending"}
    whats |= {"t-shirt": "T-shirt: wind and stiffness"}
    for name, what in whats.items():
        errors = []
        for seed in range(2 if quick else 10):
            found = solve(TASKS[name](seed=seed), target=None)[-1]
            errors.append(float(found.metrics[found.best]))
        good = sum(error <= 3.0 for error in errors)
        yield Result(f"{what} within 3 %, of ten", good * 10 / len(errors), "", must="== 10")
        yield Result(f"{what}, worst error of all", max(errors), "%")


QUESTIONS = {
    "gradients": gradients,
    "conserved": conserved,
    "moved": moved,
    "closed-forms": closed_forms,
    "shirt": shirt_in_wind,
    "newton": beside_newton,
    "identified": identified,
}

if __name__ == "__main__":
    main(QUESTIONS)
