"""Long range in the backward pass alone: steps are those without it, and what it adds to gradients is the derivative of
the force that an oracle in NumPy has, by the state and by what places shapes."""

from dataclasses import replace

import jax
import mujoco
import numpy as np
import pytest
import torch
from far_force import far_energy_and_force, far_stiffness

import pullback as pb
import pullback.jax as pbj
import pullback.torch as pbt
from pullback.kernels import specialise
from pullback.model.tangent import tangent_of_coordinates

LEANING = '<geom type="plane" size="5 5 .1" pos=".1 0 .02" zaxis=".1 .2 1"/>'
MESH = '<asset><mesh name="wedge" vertex="0 0 0  .2 0 0  0 .3 0  0 0 .25  .1 .1 .3"/></asset>'
BODY = '<body pos="{pos}" euler="{turn}"><freejoint/>{geom}</body>'
GEOMS = {
    "ball": '<geom size=".1" pos=".01 .02 .03" mass="1"/>',
    "box": '<geom type="box" size=".1 .12 .08" pos=".01 -.02 .03" mass="1.3"/>',
    "rod": '<geom type="capsule" size=".05 .1" euler="20 10 5" mass=".7"/>',
    "can": '<geom type="cylinder" size=".08 .1" euler="5 10 5" mass=".9"/>',
    "egg": '<geom type="ellipsoid" size=".08 .1 .12" euler="5 10 5" mass=".9"/>',
    "wedge": '<geom type="mesh" mesh="wedge" mass=".8"/>',
}
ARM = """<body pos="0 0 1" euler="3 4 5"><joint axis="0 1 .1" pos=".01 .02 .03" damping=".1"/>
  <geom type="capsule" size=".04 .15" pos=".2 0 0" euler="0 90 0" mass="1"/>
  <body pos=".5 0 0"><joint axis="0 1 0" armature=".01"/><joint type="slide" axis="1 0 0.2"/>
    <geom type="sphere" size=".1" pos=".1 0 0" mass=".5"/>
    <body pos=".4 0 .05"><joint type="ball" pos=".01 0 0"/>
      <geom type="capsule" size=".03 .1" pos="0 0 .1" mass=".3"/></body></body></body>"""
BALL = """<body pos="{} 0.1"><joint type="slide" axis="1 0 0" damping="0.5"/>
  <joint type="slide" axis="0 1 0" damping="0.5"/><geom size="0.1" mass="1" condim="1"/></body>"""


def scene(world: str, option: str = 'timestep=".01"') -> pb.Model:
    return pb.load(f"<mujoco><option {option}/>{MESH}<worldbody>{world}</worldbody></mujoco>")


def body(kind: str, pos: str, turn: str = "10 20 30", more: str = "") -> str:
    return BODY.format(pos=pos, turn=turn, geom=GEOMS[kind].replace("<geom ", f"<geom {more} "))


def group(kind: str, pos: str, bit: int) -> str:
    """A body that touches the plane and what has another bit."""
    return body(kind, pos, more=f'contype="{bit}" conaffinity="{3 - bit}"')


# Pairs with few lines of their own: of a plane with all shapes, of a ball with a box, rod, can and ball, and of rods.
FLOOR = LEANING.replace("<geom ", '<geom contype="3" conaffinity="3" ')
SIMPLE = {
    "apart": FLOOR
    + group("ball", "0 0 .5", 1)
    + group("box", ".4 0 .5", 2)
    + group("can", "-.4 .1 .6", 2)
    + group("ball", "0 .5 .6", 2)
    + group("rod", "0 -.4 .5", 2),
    "on a plane": LEANING.replace("<geom ", '<geom contype="1" conaffinity="0" ')
    + "".join(
        body(kind, f"{0.5 * i} 0 .4", more='contype="0" conaffinity="1"')
        for i, kind in enumerate(("egg", "wedge", "can", "rod"))
    ),
    "in each other": FLOOR + group("ball", "0 0 .1", 1) + group("box", ".03 .01 .12", 2) + group("rod", "0 .05 .15", 2),
    "articulated": LEANING + ARM + body("ball", ".4 .3 .8"),
}
CONVEX, FAR = pb.ContactConvex(), pb.Far(gap=0.02)
EVERY = {"every shape": LEANING + "".join(body(kind, f"{0.4 * i} {0.1 * i} .5") for i, kind in enumerate(GEOMS))}


def systems(world: str, contact=CONVEX, far=FAR, option: str = 'timestep=".01"', **others):
    """With the surrogate and without it."""
    model = scene(world, option)
    return tuple(pb.Articulated(model, replace(contact, far=f), **others) for f in (far, None))


def moving(system: pb.Articulated, speed: float = 0.3) -> pb.State:
    rng = np.random.default_rng(0)
    return system.state(system.model.home.q, speed * rng.normal(size=system.nv))


def added_by_hand(system: pb.Articulated, exact: pb.Articulated, state: pb.State, next_bar: pb.State) -> np.ndarray:
    """(∂F/∂q)ᵀ times the cotangent of a force along the degrees of freedom, (nv,)."""
    nothing = {"force": np.zeros((1, exact.nv))}
    force_bar = exact.pullback(state, None, next_bar, inputs=nothing).inputs["force"][0]
    assert np.abs(force_bar).max() > 0
    return far_stiffness(system.model, system.contact.far, state.q[0]).T @ force_bar


def random_bar(system: pb.Articulated, seed: int = 1) -> pb.State:
    rng = np.random.default_rng(seed)
    return pb.State(rng.normal(size=(1, system.nq)), rng.normal(size=(1, system.nv)))


def tangent(system: pb.Articulated, state: pb.State, bar: pb.State) -> np.ndarray:
    return tangent_of_coordinates(system.model, np.asarray(state.q), np.asarray(bar.q))[0]


@pytest.mark.parametrize("world", [*SIMPLE, *EVERY])
def test_what_is_added_is_the_derivative_of_the_force(world):
    system, exact = systems((SIMPLE | EVERY)[world])
    state, next_bar = moving(system), random_bar(system)
    ours, plain = (s.pullback(state, None, next_bar, wants_params=False).state for s in (system, exact))
    added = tangent(system, state, ours) - tangent(system, state, plain)
    expected = added_by_hand(system, exact, state, next_bar)
    assert np.abs(expected).max() > 1e-8
    # differences of the oracle's force are good to 1e-9; of the difference of two gradients, 1e-16 of these are left
    np.testing.assert_allclose(added, expected, rtol=0, atol=1e-7 * np.abs(expected).max() + 1e-13)
    np.testing.assert_array_equal(ours.v, plain.v)  # F depends on q alone


@pytest.mark.parametrize("contact", [pb.ContactConvex(), pb.ContactCompliant(), pb.ContactImpulse()])
def test_several_steps_with_every_contact_model(contact):
    """Against a chain of exact steps with the oracle's force between them, while bodies touch the floor."""
    world = LEANING + body("ball", "0 0 .08") + body("ball", ".35 .05 .12")
    system, exact = systems(world, contact)
    run = pb.rollout(exact, moving(exact), steps=4)
    states = [pb.State(run.q[t], run.v[t]) for t in range(5)]
    assert all(len(exact.contacts(state)[0]) for state in states[:2])
    bar = random_bar(system)
    grads = pb.rollout(system, states[0], steps=4).pullback(q_bar=bar.q, v_bar=bar.v, wants_params=False)
    plain = run.pullback(q_bar=bar.q, v_bar=bar.v, wants_params=False)
    for state in reversed(states[:4]):
        force = added_by_hand(system, exact, state, bar)
        bar = exact.pullback(state, None, bar, wants_params=False).state
        bar = exact.state_bar(state, np.concatenate([tangent(exact, state, bar) + force, bar.v[0]])[None])
    for ours, chain, without in zip(grads.state, bar, plain.state, strict=True):
        share = np.abs(ours - without).max()
        assert share > 1e-8
        np.testing.assert_allclose(ours, chain, rtol=0, atol=1e-6 * share + 1e-12 * np.abs(chain).max())


@pytest.mark.parametrize("integrator", ["implicitfast", "RK4"])
def test_integrators_and_jacobians(integrator):
    """linearize has what pullback has; RK4 takes the force at each of its stages."""
    system, exact = systems(SIMPLE["articulated"], option=f'timestep=".01" integrator="{integrator}"')
    state, bar = moving(system), random_bar(system)
    (A, B), (A0, _B0) = system.linearize(state), exact.linearize(state)
    picked = np.concatenate([tangent(system, system.step(state), bar), bar.v[0]]) @ A[0]
    found = system.pullback(state, None, bar).state
    np.testing.assert_allclose(tangent(system, state, found), picked[: system.nv], rtol=1e-9, atol=1e-12)
    assert np.abs(A - A0).max() > 1e-8 and B.shape[2] == 0


def test_rk4_against_euler():
    """Over short steps all integrators add the same, to first order."""
    found = []
    for integrator in ("Euler", "RK4"):
        system, exact = systems(SIMPLE["articulated"], option=f'timestep="1e-5" integrator="{integrator}"')
        state, bar = moving(system), pb.State(np.zeros((1, system.nq)), random_bar(system).v)
        ours, plain = (tangent(s, state, s.pullback(state, None, bar).state) for s in (system, exact))
        found.append(ours - plain)
    assert np.abs(found[0]).max() > 1e-9
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-3 * np.abs(found[0]).max())


def test_parameters_that_place_shapes_have_it():
    """By differences of the oracle's force: of a ball's radius and place, and of the place of the plane."""
    xml = (LEANING + body("ball", "0 0 .4") + body("ball", ".4 .1 .5")).replace('size=".1"', 'size="{size}"')
    xml = xml.replace('pos=".1 0 .02"', 'pos=".1 0 {height}"').replace('pos=".01 .02 .03"', 'pos="{x} .02 .03"')
    usual = {"size": 0.1, "height": 0.02, "x": 0.01}
    system, exact = systems(xml.format(**usual), far=pb.Far(gap=0.02, length=0.1))
    state, bar = moving(system), random_bar(system)
    ours, plain = (s.pullback(state, None, bar).params for s in (system, exact))
    force_bar = exact.pullback(state, None, bar, inputs={"force": np.zeros((1, system.nv))}).inputs["force"][0]
    places = {"size": ("geom_size", [1, 2], 0), "height": ("geom_pos", [0], 2), "x": ("geom_pos", [1, 2], 0)}
    for name, (field, geoms, column) in places.items():
        forces = []
        for sign in (-1, 1):
            moved = usual | {name: usual[name] + sign * 1e-5}
            forces.append(_force(xml.format(**moved), system, state, 0.5 * 0.1))
        expected = (forces[1] - forces[0]) / 2e-5 @ force_bar
        added = (ours[field] - plain[field])[geoms, column].sum()
        assert abs(expected) > 1e-7
        assert added == pytest.approx(expected, rel=1e-6), name


def _force(xml: str, system: pb.Articulated, state: pb.State, inset: float) -> np.ndarray:
    """F of another file, with balls whose surface is moved inwards by as much."""
    model = scene(xml)
    radius = model.mujoco.geom_size[1, 0]
    return far_energy_and_force(model, pb.Far(gap=0.02, length=0.1, inset=inset / radius), np.asarray(state.q)[0])[1]


def test_oracle_is_a_gradient():
    model = scene(SIMPLE["apart"])
    far, q, step = pb.Far(), model.home.q, 1e-5
    _energy, force = far_energy_and_force(model, far, q)
    for d in range(0, model.nv, 5):
        energies = []
        for sign in (-1, 1):
            moved = q.copy()
            mujoco.mj_integratePos(model.mujoco, moved, sign * step * np.eye(model.nv)[d], 1.0)
            energies.append(far_energy_and_force(model, far, moved)[0])
        assert (energies[0] - energies[1]) / (2 * step) == pytest.approx(force[d], abs=1e-7 * np.abs(force).max())


def test_from_afar_it_is_the_force_of_long_range():
    """Between balls that are far apart beside their size and not beside 1000 lengths."""
    model = scene(body("ball", "0 0 0", "0 0 0") + body("ball", "9 0 0", "0 0 0"), 'timestep="1e-4" gravity="0 0 0"')
    _energy, force = far_energy_and_force(model, pb.Far(gap=0.01, length=0.1), model.home.q)
    system = pb.Articulated(model, pb.ContactLongRange(gap=0.01, length=0.1))
    push = system.contacts(system.state())[0].force[0]
    assert abs(force[6]) == pytest.approx(np.linalg.norm(push), rel=0.05)


def test_bounded_and_continuous_wherever_shapes_are():
    """A ball that is pushed through a box: the stiffness has no jump, and is nowhere large."""
    model = scene(body("ball", "0 0 0", "0 0 0") + body("box", "0 0 0", "0 0 0"), 'timestep=".01" gravity="0 0 0"')
    far, found = pb.Far(), []
    places = np.linspace(-0.4, 0.4, 401)
    for x in places:
        q = model.home.q.copy()
        q[:3] = x, 0.013, 0.007
        found.append(far_energy_and_force(model, far, q)[1][:3])
    found = np.array(found)
    slopes = np.diff(found, axis=0) / np.diff(places)[:, None]
    weight = 9.81 * 1.0
    assert np.abs(found).max() < 1e-2 * weight
    assert np.abs(slopes).max() < 1e-1 * weight / 0.1
    assert np.abs(np.diff(slopes, axis=0)).max() < 0.2 * np.abs(slopes).max()


def test_steps_are_those_without_it():
    system, exact = systems(SIMPLE["apart"], worlds=2)
    assert system._flavour == exact._flavour and system._adjoint_flavour != exact._adjoint_flavour
    assert specialise(system._adjoint_flavour, "rows") is specialise(exact._adjoint_flavour, "rows")
    runs = [pb.rollout(s, s.state(), steps=60) for s in (system, exact)]
    np.testing.assert_array_equal(runs[0].q, runs[1].q)
    np.testing.assert_array_equal(runs[0].v, runs[1].v)


def test_checkpoints_holds_and_copies_have_the_same_bits():
    system, _exact = systems(SIMPLE["apart"])
    start, bar = moving(system), random_bar(system)
    runs = [pb.rollout(system, start, steps=12, **way) for way in ({}, {"checkpoint_every": 5})]
    runs.append(pb.rollout(system, start, np.zeros((4, 1, 0)), hold=3))
    runs.append(pb.rollout(system.in_worlds(1), start, steps=12))
    grads = [run.pullback(q_bar=bar.q, v_bar=bar.v, wants_params=False).state for run in runs]
    for other in grads[1:]:
        np.testing.assert_array_equal(grads[0].q, other.q)
        np.testing.assert_array_equal(grads[0].v, other.v)


def test_refined_steps_have_it_in_every_substep():
    world = LEANING + body("ball", "0 0 .2") + body("ball", ".35 .05 .2")
    system, exact = systems(world, refine=1e-2)
    state, bar = moving(system, 1.0), random_bar(system)
    ours, plain = (tangent(s, state, s.pullback(state, None, bar).state) for s in (system, exact))
    expected = added_by_hand(system, exact, state, bar)
    assert np.abs(ours - plain).max() > 1e-8
    np.testing.assert_allclose(ours - plain, expected, rtol=0, atol=0.2 * np.abs(expected).max())


def test_float32():
    """What is added is small beside a gradient that is not zero, and not rounded off where that is."""
    model = scene(BALL.format("0 0") + BALL.format(".8 .3"), 'timestep="0.04" gravity="0 0 0"')
    found = []
    for dtype in ("float64", "float32"):
        system = pb.Articulated(model, pb.ContactConvex(far=FAR), dtype=dtype)
        run = pb.rollout(system, system.state(), steps=20)
        found.append(run.pullback(q_bar=np.array([[0, 0, 1, 1]]), wants_params=False).state.v[0])
    assert np.abs(found[0]).min() > 1e-8
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


def test_bindings():
    system, _exact = systems(SIMPLE["apart"])
    start, bar = moving(system), random_bar(system)
    expected = pb.rollout(system, start, steps=3).pullback(q_bar=bar.q, v_bar=bar.v).state
    q, v = (torch.tensor(np.asarray(x), requires_grad=True) for x in start)
    final = pbt.rollout(system, pb.State(q, v), torch.zeros(3, 1, 0, dtype=torch.float64))
    loss = (final.q[-1] * torch.tensor(bar.q)).sum() + (final.v[-1] * torch.tensor(bar.v)).sum()
    loss.backward()
    np.testing.assert_array_equal(v.grad.numpy(), expected.v)
    with jax.enable_x64(True):
        _states, back = jax.vjp(lambda *x: pbj.rollout(system, *x, np.zeros((3, 1, 0))), *map(np.asarray, start))
        _q_bar, v_bar = back(tuple(np.concatenate([np.zeros((3, *last.shape)), last[None]]) for last in bar))
    np.testing.assert_array_equal(np.asarray(v_bar), expected.v)


def test_check_system_checks_the_exact_part_and_names_the_share():
    """Where nothing touches, all of the gradient by place is the surrogate's; the check does not call it wrong."""
    model = scene(BALL.format("0 0") + BALL.format(".8 .3"), 'timestep="0.04" gravity="0 0 0"')
    system = pb.Articulated(model, pb.ContactConvex(far=pb.Far()))
    report = pb.check_system(system, rollout_steps=3)
    assert report.passed and 0 < report["q"].surrogate < 0.1
    assert "surrogate" in str(report)
    exact = pb.check_system(system.exact(), rollout_steps=3)
    assert "surrogate" not in str(exact) and exact["q"].surrogate == 0
    assert exact["q"].analytic == report["q"].analytic  # of what is exact
    assert "surrogate=Far(" in repr(system) and "surrogate" not in repr(system.exact())
    system.params["damping"] = 0.7
    assert system.exact().params["damping"][0] == 0.7


def test_billiards_from_a_cue_ball_at_rest():
    """Without the surrogate the gradient is exactly zero; with it, descent finds the other ball."""
    model = scene(BALL.format("0 0") + BALL.format("0.8 0.3"), 'timestep="0.04" gravity="0 0 0"')
    goal = np.array([0.7, 0.6])

    def slope_at(system, velocity):
        run = pb.rollout(system, system.state(v=[*velocity, 0, 0]), steps=100)
        off = run.final.q[0, 2:] - goal
        return off @ off, run.pullback(q_bar=np.array([[0, 0, *(2 * off)]])).state.v[0, :2]

    system = pb.Articulated(model, pb.ContactConvex(far=pb.Far()))
    assert np.all(slope_at(system.exact(), np.zeros(2))[1] == 0)
    velocity, mean, square = np.zeros(2), np.zeros(2), np.zeros(2)
    for k in range(1, 201):
        loss, slope = slope_at(system, velocity)
        if loss < 0.05**2:
            break
        mean, square = 0.3 * mean + 0.7 * slope, 0.5 * square + 0.5 * slope**2
        velocity = velocity - 0.05 * mean / (1 - 0.3**k) / np.sqrt(square / (1 - 0.5**k) + 1e-30)
    assert loss < 0.05**2
    assert slope_at(system.exact(), velocity)[0] == loss  # it is solved in the steps without it


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pb.ContactConvex(far=True), "far must be a pullback.Far"),
        (lambda: pb.ContactLongRange(far=pb.Far()), "long range themselves"),
        (lambda: pb.Far(gap=0.0), "gap of Far"),
        (lambda: pb.Far(length=np.inf), "length of Far"),
        (lambda: pb.Far(inset=1.5), "inset of Far"),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(pb.PullbackError, match=message):
        make()
