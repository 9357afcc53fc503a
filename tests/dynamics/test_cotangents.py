"""Records of parameters, their fields in the kernels, and cotangents: memory, uploads, sums over worlds."""

import numpy as np
import pytest
import warp as wp

import pullback as pb
from pullback.dynamics import params as module
from pullback.dynamics.params import sums_by_kernels
from pullback.spatial import quat_conj, quat_mul

CONTACTS = {"none": None, "convex": "convex", "impulse": "impulse", "compliant": "compliant"}
# A joint of every type, explicit pairs, limits, friction loss, and air.
EVERYTHING = """<mujoco><option density="1.2" viscosity="0.1" wind="1 2 3"/><worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body pos="0 0 .1"><freejoint/><geom name="ball" size=".1"/>
      <body pos="0 0 .3"><joint type="ball" stiffness="2" range="0 1" limited="true"/>
        <geom type="capsule" size=".05 .1"/>
        <body pos="0 .1 .3"><joint name="elbow" axis="1 1 0" range="-1 1" limited="true" frictionloss=".1"/>
          <geom size=".05"/></body></body></body>
    <body pos=".5 0 .1"><joint type="slide" axis="0 0 2"/><geom name="puck" size=".1"/></body></worldbody>
    <contact><pair geom1="puck" geom2="floor" condim="3"/></contact>
    <actuator><motor joint="elbow"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def model():
    return pb.load(EVERYTHING)


@pytest.mark.parametrize("contact", CONTACTS)
def test_a_record_leaves_as_it_enters(model, contact):
    """leave is the transpose of enter, for every parameter; of a quaternion by turns of it."""
    table = pb.Articulated(model, contact=CONTACTS[contact]).params.table
    rng = np.random.default_rng(0)
    for name, entry in table.items():
        value = np.array(entry.value, dtype=float)[None] + 0.01 * rng.normal(size=(2, *entry.shape))
        way, h = rng.normal(size=value.shape), 1e-6 * max(1.0, np.abs(value).max())
        bar = rng.normal(size=entry.enter(value).shape)
        moved = (entry.enter(value + h * way) - entry.enter(value - h * way)) / (2 * h)
        if name == "spring_ref":
            continue  # quaternions among others: its gradient is tested with the rest
        if name in ("body_quat", "geom_quat"):
            moved = 2 * quat_mul(quat_conj(entry.enter(value)), moved)[..., 1:]
            bar[..., 3] = 0.0
        wanted = np.sum(moved * bar[..., : moved.shape[-1]])
        assert abs(wanted) > 1e-3, name
        np.testing.assert_allclose(np.sum(entry.leave(value, bar) * way), wanted, rtol=1e-7, err_msg=name)


def test_a_field_belongs_to_one_contact_model(model):
    shared = set(pb.Articulated(model, contact=None).hold_params().entering)
    own = []
    for contact in ("convex", "impulse", "compliant"):
        own.append(set(pb.Articulated(model, contact=contact).hold_params().entering) - shared)
    everywhere = set.intersection(*own)
    assert everywhere == {"shape_pos", "shape_quat", "shape_size", "friction", "limit", "loss", "weight"}
    for i, fields in enumerate(own):
        assert fields > everywhere
        assert all(not (fields - everywhere) & other for other in own[:i])


def test_what_did_not_change_is_not_uploaded_again(model):
    system = pb.Articulated(model, contact="convex", worlds=2)
    own, mass = system.hold_params(), np.array(system.params["mass"])
    assert system.hold_params() is own
    held = system.hold_params({"mass": 2 * mass})
    assert held.struct.mass is not own.struct.mass and held.struct.com is own.struct.com
    assert system.hold_params({"mass": 2 * mass}) is held and system.hold_params() is own
    mass *= 3  # in place, where it was
    assert system.hold_params({"mass": mass}).struct.mass.numpy()[1, 1] == mass[1]
    np.testing.assert_array_equal(held.struct.mass.numpy()[1, 1], 2 / 3 * mass[1])
    system.params["com"] = 2 * system.params["com"]
    again = system.hold_params()
    assert again is not own and again.struct.mass is own.struct.mass
    np.testing.assert_array_equal(again.struct.com.numpy(), 2 * own.struct.com.numpy())


def some_run(model, worlds: int, contact="convex", **options):
    system = pb.Articulated(model, contact=contact, worlds=worlds)
    rng = np.random.default_rng(1)
    v, controls = 0.3 * rng.normal(size=(worlds, system.nv)), rng.normal(size=(4, worlds, system.nu))
    v[-1] *= 1e14 if "on_failure" in options else 1.0
    params = {"damping": rng.uniform(0.1, 0.2, (worlds, system.nv)), "mass": 2 * system.params["mass"]}
    run = pb.rollout(system, system.state(v=v), controls, params=params, **options)
    return run, {"v_bar": rng.normal(size=(worlds, system.nv))}


@pytest.mark.parametrize("options", [{}, {"on_failure": "mask"}, {"checkpoint_every": 2}], ids=str)
def test_neither_the_order_in_memory_nor_who_sums_matters(model, monkeypatch, options):
    """What happens on CUDA, on the CPU: worlds are neighbours in memory, and kernels sum over them."""
    run, bars = some_run(model, 3, **options)
    wanted = run.pullback(**bars)
    monkeypatch.setattr(module, "neighbours_are_worlds", lambda device: True)
    monkeypatch.setattr(module, "sums_over_worlds", sums_by_kernels)
    run, bars = some_run(model, 3, **options)
    found = run.pullback(**bars)
    assert found.params.damping.shape == (3, run.system.nv)
    np.testing.assert_array_equal(found.params.damping, wanted.params.damping)
    np.testing.assert_array_equal(found.state.v, wanted.state.v)
    if options.get("on_failure"):
        assert run.status.failed.tolist() == [False, False, True] and not np.any(found.params.damping[2])
    for name, bar in wanted.params.items():
        np.testing.assert_allclose(found.params[name], bar, rtol=1e-13, atol=1e-13 * np.abs(bar).max(initial=0.0))
    assert all(np.any(wanted.params[name]) for name in ("mass", "com", "inertia", "damping", "friction", "solref"))


@pytest.mark.parametrize("worlds", [1, 2, 5, 17, 1000])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_kernels_sum_over_worlds(worlds, precision):
    rng = np.random.default_rng(worlds)
    arrays = {"a": rng.normal(size=(3, worlds, 6)), "b": rng.normal(size=(1, worlds, 4)), "c": np.ones((2, worlds, 1))}
    numbers = {name: wp.array(x.astype(precision), device="cpu") for name, x in arrays.items()}
    found, again = sums_by_kernels(numbers, precision), sums_by_kernels(numbers, precision)
    for name, x in arrays.items():
        tolerance = {"float64": 1e-13, "float32": 1e-5}[precision] * np.sqrt(worlds)
        np.testing.assert_allclose(found[name], x.sum(axis=1).ravel(), rtol=1e-6, atol=tolerance)
        np.testing.assert_array_equal(found[name], again[name])
    np.testing.assert_array_equal(found["c"], worlds)


def test_memory_is_used_again_but_not_by_two_at_once(model):
    run, bars = some_run(model, 2)
    first = run.pullback(**bars)
    kept = {name: bar.copy() for name, bar in first.params.items()}
    (memory,) = run.system._spare
    second = run.pullback(v_bar=3 * bars["v_bar"])
    assert run.system._spare == [memory]
    for name, bar in kept.items():
        np.testing.assert_array_equal(first.params[name], bar)  # no view of what was overwritten
        np.testing.assert_allclose(second.params[name], 3 * bar, rtol=1e-9, atol=1e-12 * np.abs(bar).max(initial=0.0))
    # two backward passes side by side
    ends = [run._backward(pb.State(None, factor * bars["v_bar"]), wants_params=True) for factor in (1.0, 3.0)]
    for backward in ends:
        backward.through(run.states, 0, run.steps)
    found = [backward.finish(pb.State(*(x[0] for x in run.states))).params for backward in ends]
    for name, bar in kept.items():
        np.testing.assert_array_equal(found[0][name], bar)
        np.testing.assert_array_equal(found[1][name], second.params[name])
    assert np.any(kept["mass"])
