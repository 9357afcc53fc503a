"""Gradients of heat against central differences: every state, control and parameter."""

import numpy as np
import pytest
from parts import controls_near, crooked_part, warm_state

import pullback as pb
from pullback import thermal
from pullback.core.bars import Bars, Named

TIGHT = 1e-7
SETTINGS = {"explicit": {"dt": 0.02}, "implicit": {"dt": 0.3, "method": "implicit"}}
NAMES = {
    *("T", "s", "control", "conductivity", "capacity", "latent_heat", "density"),
    *("absorptivity", "emissivity", "convection", "ambient", "offset"),
}


@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.parametrize("steps", [1, 3])
def test_every_gradient_is_right(method, steps):
    heat = crooked_part(worlds=2, **SETTINGS[method])
    report = pb.check_system(
        heat,
        warm_state(heat, seed=steps),
        controls_near(heat, steps),
        rollout_steps=steps,
        tolerance=TIGHT,
        seed=steps + 4,
    )
    assert {row.field for row in report.rows} == NAMES
    for row in report.rows:
        assert row.status == "agrees" and row.largest > 0.0, row.field


@pytest.mark.parametrize("method", SETTINGS)
def test_gradients_of_what_differs_between_worlds_and_beyond_the_tables(method):
    """Every parameter one a world; temperatures beyond both ends of the tables; births of several elements at once."""
    born = np.concatenate([np.full(12, -np.inf), np.full(8, 0.47), np.full(4, 3.0)])
    heat = crooked_part(worlds=2, born=born, **SETTINGS[method])
    for name, value in list(heat.params.items()):
        heat.params[name] = np.stack([value, 1.03 * np.asarray(value)])
    start = heat.state(np.random.default_rng(5).uniform(150.0, 3000.0, (2, heat.n)), (0.462, 0.455))
    report = pb.check_system(heat, start, controls_near(heat, 1), seed=3, tolerance=2 * TIGHT)
    assert {row.field for row in report.rows} == NAMES
    for row in report.rows:
        assert row.status == "agrees" and row.largest > 0.0, row.field


@pytest.mark.parametrize("method", SETTINGS)
def test_a_wrong_gradient_would_be_found(method, monkeypatch):
    """The check above fails on zeros, for any of the fields."""
    heat = crooked_part(**SETTINGS[method])
    start, control = warm_state(heat), controls_near(heat, 1)
    pullback = type(heat).pullback
    for name in sorted(NAMES - {"T", "s", "control"}):

        def forgetful(self, *args, name=name, **rest):
            bars = pullback(self, *args, **rest)
            return Bars(bars.state, bars.control, Named(bars.params | {name: np.zeros_like(bars.params[name])}))

        monkeypatch.setattr(type(heat), "pullback", forgetful)
        with pytest.raises(pb.PullbackError, match=name):
            pb.check_system(heat, start, control, names=[name])


def test_the_speed_moves_the_laser():
    """A quarter faster throughout, by finite differences of a long run without births."""
    heat = crooked_part(born=None)
    controls = heat.default_controls(25)

    def loss(speed):
        scaled = controls * [1.0, speed, 1.0]
        return np.sum(pb.rollout(heat, heat.state(), scaled).T[-1] ** 2)

    run = pb.rollout(heat, heat.state(), controls)
    grads = run.pullback(T_bar=2 * run.T[-1])
    numeric = (loss(1 + 1e-5) - loss(1 - 1e-5)) / 2e-5
    assert np.sum(grads.controls[..., 1]) == pytest.approx(numeric, rel=1e-6)
    assert abs(numeric) > 1e3


@pytest.mark.parametrize("method", ["explicit", "implicit"])
def test_a_laser_without_power_has_a_gradient(method):
    """Whoever looks for a power begins at zero, or gets there at a bound: it must be seen that more would be warmer."""
    heat = crooked_part(method=method)
    controls = heat.default_controls(3)
    controls[:, 0, 0] = 0.0

    def warmth(power, absorptivity):
        changed = controls.copy()
        changed[1, 0, 0] = power
        params = {"absorptivity": absorptivity}
        return pb.rollout(heat, heat.state(s=0.5), changed, params=params).T[-1].sum()

    by_power = pb.rollout(heat, heat.state(s=0.5), controls).pullback(T_bar=np.ones((1, heat.n)))
    assert by_power.controls[1, 0, 0] == pytest.approx((warmth(1.0, 1.0) - warmth(0.0, 1.0)), rel=1e-2)
    controls[1, 0, 0] = 100.0
    dark = pb.rollout(heat, heat.state(s=0.5), controls, params={"absorptivity": 0.0})
    found = dark.pullback(T_bar=np.ones((1, heat.n))).params["absorptivity"]
    assert found == pytest.approx((warmth(100.0, 1e-3) - warmth(100.0, 0.0)) / 1e-3, rel=1e-2)


def test_a_point_amid_a_straight_line_is_no_stop():
    """A laser that is at a point of its path just in the middle of a step moves on with the speed all the same."""
    plain = crooked_part(born=None)
    ends, middle = plain.toolpath.points[:2], 0.5 + plain.dt / 2
    cut = thermal.Toolpath([0.0, middle, 1.0], [ends[0], ends[0] + middle * (ends[1] - ends[0]), ends[1]], [1, 1, 0])
    found = []
    for path in (cut, thermal.Toolpath([0.0, 1.0], ends, [1, 0])):
        heat = thermal.Heat(plain.mesh, plain.material, path, dt=plain.dt)
        run = pb.rollout(heat, heat.state(s=0.5), heat.default_controls(1))
        found.append(run.pullback(T_bar=plain.mesh.nodes[None, :, 0]))
    assert abs(found[1].controls[0, 0, 1]) > 0.0
    np.testing.assert_allclose(found[0].controls, found[1].controls, rtol=1e-9)
    np.testing.assert_allclose(found[0].state.s, found[1].state.s, rtol=1e-9)


def test_controls_that_nobody_gave_are_near_the_usual_ones():
    """Around zero the power, and with it most gradients, would be lost in rounding."""
    heat = crooked_part()
    report = pb.check_system(heat, warm_state(heat), names=("control", "absorptivity"), tolerance=1e-6)
    assert report["absorptivity"].largest > 1.0
