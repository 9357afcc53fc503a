"""Gradients of elastic bodies against central differences: every state, control and parameter; and how they are cut."""

import numpy as np
import pytest
from soft_bodies import CLOTHS, GAP, SOLIDS, around_the_cube, bar, cube, flag, shaken

import pullback as pb
from pullback import soft
from pullback.core.bars import Bars, Named

EVERYWHERE = {"x", "v", "control", "gravity", "damping"}
OF_SHAPES = {"impulse", "contact_stiffness", "friction"}
OF_SOLIDS = {"shear", "lame", "density", "viscosity"}
OF_CLOTHS = {"cloth_shear", "cloth_lame", "cloth_density", "cloth_viscosity", "bending", "drag", "wind"}


def check(system, start, *, fields, steps=2, quiet=(), seed=0):
    """quiet: fields whose gradient is zero here."""
    controls = np.random.default_rng(seed).normal(size=(steps, system.worlds, system.nu))
    report = pb.check_system(system, start, controls if system.nu else None, rollout_steps=steps, seed=seed)
    assert {row.field for row in report.rows} == fields
    for row in report.rows:
        assert row.field in quiet or (row.status == "agrees" and row.largest > 0.0), row.field


@pytest.mark.parametrize("kind", SOLIDS)
def test_gradients_of_solids_at_rest_and_in_motion(kind):
    system = bar(kind)
    check(system, system.state(), fields=EVERYWHERE | OF_SOLIDS)
    check(system, shaken(system, 1), fields=EVERYWHERE | OF_SOLIDS, seed=1)


@pytest.mark.parametrize("kind", CLOTHS)
def test_gradients_of_cloth_at_rest_and_in_motion(kind):
    system = flag(kind)
    check(system, system.state(), fields=EVERYWHERE | OF_CLOTHS)
    check(system, shaken(system, 2), fields=EVERYWHERE | OF_CLOTHS, seed=2)


def test_gradients_where_an_element_is_inside_out():
    """The stable neo-Hookean material has forces, and gradients, there too."""
    system = bar(damping=0.0, dt=1e-3)
    start = system.state()
    start.x[0, -3:] -= [0.25, 0.0, 0.0]
    corners = start.x[0][system.mesh.arrays["tets"]]
    assert np.linalg.det(corners[:, 1:] - corners[:, :1]).min() < 0
    check(system, start, fields=EVERYWHERE | OF_SOLIDS, steps=1)


@pytest.mark.parametrize("speed", [0.0, 0.1, 0.3])
def test_gradients_in_contact_with_every_shape(speed):
    """Sticking, and sliding, at a plane, a sphere, a capsule and both a side and a corner of a box."""
    system = soft.Elastic(cube(), dt=0.01, shapes=around_the_cube(), gap=GAP, contact_stiffness=1e4, threads=1)
    fields = (EVERYWHERE - {"control"}) | OF_SOLIDS | OF_SHAPES
    start = shaken(system, 3, size=0.0, speed=speed)
    assert np.all(np.min([shape.distance(start.x[0]).min() for shape in system.shapes]) < GAP)
    check(system, start, fields=fields, steps=3)


def test_gradients_of_parameters_that_differ_between_worlds():
    bodies = [cube(soft.StableNeoHookean), *flag().bodies]
    system = soft.Elastic(bodies, dt=0.01, shapes=around_the_cube()[:1], handles=[[9]], wind=(1, 2, 0.5), worlds=2)
    for name, value in list(system.params.items()):
        system.params[name] = np.stack([value, 1.03 * np.asarray(value)])
    start = shaken(system, 4, size=1e-4, speed=0.1)
    report = pb.check_system(system, start, seed=5)
    assert {row.field for row in report.rows} == EVERYWHERE | OF_SOLIDS | OF_CLOTHS | OF_SHAPES
    assert all(row.status == "agrees" and row.largest > 0.0 for row in report.rows)


def test_a_wrong_gradient_would_be_found(monkeypatch):
    """The check above fails on zeros, for any of the parameters."""
    pullback = soft.Elastic.pullback
    for system in (bar(), flag()):
        start = shaken(system, 6)
        for name in system.params:

            def forgetful(self, *args, name=name, **rest):
                bars = pullback(self, *args, **rest)
                return Bars(bars.state, bars.control, Named(bars.params | {name: np.zeros_like(bars.params[name])}))

            monkeypatch.setattr(soft.Elastic, "pullback", forgetful)
            with pytest.raises(pb.PullbackError, match=name):
                pb.check_system(system, start, names=[name])
        monkeypatch.undo()


@pytest.mark.parametrize("make", [bar, flag])
def test_checkpoints_give_the_same_bits(make):
    system = make(worlds=2)
    controls = np.random.default_rng(7).normal(size=(6, 2, 3))
    found = []
    for cut in (1, 4, "sqrt"):
        run = pb.rollout(system, shaken(system, 7), controls, hold=2, checkpoint_every=cut)
        found.append(run.pullback(x_bar=run.final.x, v_bar=run.final.v))
    for bars in found[1:]:
        np.testing.assert_array_equal(bars.state.x, found[0].state.x)
        np.testing.assert_array_equal(bars.state.v, found[0].state.v)
        np.testing.assert_array_equal(bars.controls, found[0].controls)
        for name, bar_ in bars.params.items():
            np.testing.assert_array_equal(bar_, found[0].params[name])
            assert np.abs(bar_).max() > 0


def test_worlds_and_threads_change_nothing():
    alone = flag()
    together = alone.in_worlds(3)
    start = shaken(together, 8)
    controls = np.random.default_rng(8).normal(size=(5, 3, 3))
    run = pb.rollout(together, start, controls)
    threads = pb.rollout(flag(worlds=3, threads=2), start, controls)
    np.testing.assert_array_equal(run.x, threads.x)
    bars, others = (r.pullback(x_bar=r.final.x) for r in (run, threads))
    np.testing.assert_array_equal(bars.state.x, others.state.x)
    single = pb.rollout(alone, soft.ElasticState(*(a[1:2] for a in start)), controls[:, 1:2])
    np.testing.assert_array_equal(single.x[:, 0], run.x[:, 1])
    np.testing.assert_array_equal(single.pullback(x_bar=single.final.x).state.v[0], bars.state.v[1])


@pytest.mark.parametrize("on_failure", ["raise", "mask"])
def test_gradients_of_no_steps(on_failure):
    """Those of a start by itself: the bars of the end, and nothing of controls and parameters."""
    system = flag()
    run = pb.rollout(system, system.state(), steps=0, on_failure=on_failure)
    bar = np.random.default_rng(0).normal(size=run.final.x.shape)
    grads = run.pullback(x_bar=bar)
    np.testing.assert_array_equal(grads.state.x, bar)
    assert grads.controls.shape == (0, system.worlds, system.nu)
    assert not any(np.any(x) for x in grads.params.values())


def test_a_state_that_a_check_makes_up_may_be_refused():
    """It lies inside of a shape, which is not the user's doing: the message asks for a state."""
    system = soft.Elastic(cube(), dt=0.01, shapes=around_the_cube(), gap=GAP, threads=1)
    with pytest.raises(pb.PullbackError, match="give a state to check at: in one that is made up, vertex"):
        pb.check_system(system)
