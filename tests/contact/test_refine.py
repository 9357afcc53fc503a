"""Steps in substeps where contacts move: exact gradients, those of the trajectory, and nothing else changed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from bounces import bounce, bounce_slope, bouncing_ball, slide, sliding_ball, tossed, tosses
from gradients import PUSH, check, free_bodies, uneven

import pullback as pb
import pullback.torch

TOLERANCE = 1e-3  # [m]
LIMITED = """<mujoco><option timestep="0.002"/><worldbody><body>
  <joint axis="0 1 0" range="-40 20" limited="true" damping="0.01" armature="0.01"/>
  <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/></body></worldbody>
  <actuator><motor joint="joint"/></actuator></mujoco>""".replace('axis="0 1 0"', 'name="joint" axis="0 1 0"')


def refined(system: pb.Articulated, tolerance: float = TOLERANCE, **options) -> pb.Articulated:
    """The same robots, with other options and refined steps."""
    return uneven(pb.Articulated(system.model, system.contact, refine=tolerance, **options))


def toss(body: str = "box", count: int = 3, **options) -> tuple[pb.Articulated, pb.State]:
    q, v = tosses(count)
    system = pb.Articulated(tossed(body, 2e-3), worlds=count, **{"refine": TOLERANCE, **options})
    return system, system.state(q, v)


@pytest.mark.parametrize("contact", [pb.ContactConvex(), pb.ContactCompliant()], ids=["convex", "compliant"])
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_gradients_agree_with_differences(contact, integrator):
    """Of states, controls and all parameters: above the floor, as bodies meet it, and as they slide."""
    option = f'integrator="{integrator}"'
    system = refined(free_bodies(contact, option=option, floor='solimp="0.9 0.95 0.01"'))
    start = system.state(v=np.tile([1.0, 0.3, -1.0, 3.0, -2.0, 1.0], 3))
    run = pb.rollout(system, start, np.tile(PUSH, (60, 1, 1)))
    plain = pb.Articulated(system.model, contact)
    plain.params = system.params
    substeps = set()
    for t in (1, 8, 15, 33, 59):
        state = pb.State(run.q[t], run.v[t])
        difference = system.step(state, PUSH[None]).v - plain.step(state, PUSH[None]).v
        substeps.add(bool(np.abs(difference).max() > 1e-4))
        check(system, state, PUSH[None])
    assert True in substeps


def test_joint_limits_agree_with_differences():
    system = refined(pb.Articulated(pb.load(LIMITED)))
    limit = np.radians(20.0)
    for angle, speed, reached in ((limit - 4e-3, 3.0, True), (limit + 1e-3, 1.0, True), (0.0, 1.0, False)):
        report = check(system, system.state([angle], [speed]), np.array([[0.3]]))
        assert (report["limit_solref"].largest > 0) == reached


def test_a_bounce_and_its_slope_tend_to_the_closed_form():
    """Root mean squares over heights, which put the impact anywhere in a step. RK4 has no error in flight."""
    heights, time, errors, integrator = np.linspace(0.25, 0.35, 24), 0.4, [], "RK4"
    pick = np.tile([0.0, 0.0, 1.0], (24, 1))
    for tolerance in (2e-3, 5e-4):
        system = pb.Articulated(bouncing_ball(2e-3, integrator), worlds=24, refine=tolerance)
        run = pb.rollout(system, system.state(pick * heights[:, None]), steps=200)
        slope = run.pullback(q_bar=pick, wants_params=False).state.q[:, 2]
        found = run.final.q[:, 2] - bounce(heights, time), slope - bounce_slope(heights, time)
        errors.append([np.sqrt(np.mean(x**2)) for x in found])
    plain = pb.Articulated(bouncing_ball(2e-3, integrator), worlds=24)
    run = pb.rollout(plain, plain.state(pick * heights[:, None]), steps=200)
    slope = run.pullback(q_bar=pick, wants_params=False).state.q[:, 2]
    size = np.sqrt(np.mean(bounce_slope(heights, time) ** 2))
    assert np.sqrt(np.mean((slope - bounce_slope(heights, time)) ** 2)) > 10 * size  # that of the steps is useless
    assert errors[1][1] < 0.2 * size
    assert (np.log(np.array(errors[0]) / errors[1]) / np.log(4) > 0.8).all(), errors


def test_a_slide_and_its_slope_tend_to_the_closed_form():
    speeds, time, errors = np.linspace(1.8, 2.2, 8), 0.4, []
    along = np.tile([1.0, 0.0, 0.0], (8, 1))
    for tolerance in (2e-3, 2.5e-4):
        system = pb.Articulated(sliding_ball(2e-3), worlds=8, refine=tolerance)
        run = pb.rollout(system, system.state(0 * along, along * speeds[:, None]), steps=200)
        slope = run.pullback(q_bar=along, wants_params=False).state.v[:, 0]
        errors.append([np.abs(run.final.q[:, 0] - slide(speeds, time)).max(), np.abs(slope - time).max()])
    assert (np.log(np.array(errors[0]) / errors[1]) / np.log(8) > 0.8).all(), errors
    assert errors[1][1] < 1e-3 * time


def test_the_same_every_time_in_pieces_and_alone():
    """Bit for bit: from run to run, with checkpoints, with any number of threads, and of one world by itself."""
    system, start = toss()
    bar = {"q_bar": np.ones((3, 7)), "v_bar": np.ones((3, 6))}
    run = pb.rollout(system, start, steps=250)
    whole = run.pullback(**bar)
    assert np.abs(whole.state.v).max() > 0.1
    again = toss(threads=1)[0]
    for other, options in ((system, {}), (system, {"checkpoint_every": 17}), (again, {"checkpoint_every": (50, 7)})):
        piece = pb.rollout(other, start, steps=250, **options)
        grads = piece.pullback(**bar)
        assert np.array_equal(piece.final.q, run.final.q)
        for one, two in ((grads.state, whole.state), (grads.params, whole.params)):
            values = zip(one, two, strict=True) if isinstance(one, pb.State) else ((one[n], two[n]) for n in one)
            assert all(np.array_equal(a, b) for a, b in values)
    alone = pb.Articulated(system.model, refine=TOLERANCE)
    one = pb.rollout(alone, pb.State(start.q[1:2], start.v[1:2]), steps=250)
    assert np.array_equal(one.final.q[0], run.final.q[1])
    assert np.array_equal(one.pullback(q_bar=bar["q_bar"][:1], v_bar=bar["v_bar"][:1]).state.v[0], whole.state.v[1])


def test_off_by_default_and_without_a_trace():
    """No other kernels, no memory, and the steps of MuJoCo; in the air both do the same."""
    plain, start = toss(refine=None)
    system, _ = toss()
    assert not plain._flavour.refined and system._flavour.refined
    assert "refined" not in plain._flavour.package
    assert plain._lanes[0].workspace.sub_q.size == 0
    apart = pb.rollout(system, start, steps=40).final.q - pb.rollout(plain, start, steps=40).final.q
    assert np.abs(apart).max() < 1e-12
    apart = pb.rollout(system, start, steps=300).final.q - pb.rollout(plain, start, steps=300).final.q
    assert np.abs(apart).max() > 1e-4


def test_controls_and_forces_are_held_during_substeps():
    system = refined(free_bodies(pb.ContactConvex()))
    rng = np.random.default_rng(0)
    controls, force = rng.normal(size=(4, 1, 3)), rng.normal(size=(4, 1, 18))
    start = system.state(v=np.tile([1.0, 0.3, -1.0, 3.0, -2.0, 1.0], 3))
    held = pb.rollout(system, start, controls, hold=5, inputs={"force": force})
    each = pb.rollout(system, start, np.repeat(controls, 5, 0), inputs={"force": np.repeat(force, 5, 0)})
    assert np.array_equal(held.final.q, each.final.q)
    bar = {"q_bar": np.ones((1, 21)), "wants_params": False}
    one, other = held.pullback(**bar), each.pullback(**bar)
    summed = other.controls.reshape(4, 5, 1, 3).sum(1), other.inputs.force.reshape(4, 5, 1, 18).sum(1)
    for a, b in zip((one.controls, one.inputs.force), summed, strict=True):
        assert np.abs(a).max() > 1e-6
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_jacobians_and_bindings():
    """linearize, pushforward and torch give the derivative that the pullback does."""
    system, start = toss(count=2)
    run = pb.rollout(system, start, steps=140)
    impact = pb.State(run.q[120], run.v[120])
    A, _B = system.linearize(impact)
    bars = system.pullback(impact, None, pb.State(np.zeros((2, 7)), np.tile(np.eye(6)[2], (2, 1))))
    np.testing.assert_allclose(A[:, 8, 6:], bars.state.v, rtol=1e-9, atol=1e-12)
    wanted = run.pullback(q_bar=np.tile(np.eye(7)[0], (2, 1)), wants_params=False).state.v
    torch = pytest.importorskip("torch")
    v = torch.tensor(start.v, requires_grad=True)
    q, _v = pullback.torch.rollout(system, torch.tensor(start.q), v, torch.zeros(140, 2, 0, dtype=torch.float64))
    q[-1, :, 0].sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), wanted, rtol=1e-12)
    copy = pickle.loads(pickle.dumps(system))
    assert copy.refine == TOLERANCE
    assert np.array_equal(copy.step(impact).v, system.step(impact).v)


def test_a_world_that_fails_stays_before_its_step():
    system, start = toss()
    v = start.v.copy()
    v[1, 3:] = 1e14
    run = pb.rollout(system, system.state(start.q, v), steps=200, on_failure="mask")
    failed = run.status.step[1]
    assert run.status.failed.tolist() == [False, True, False]
    assert np.array_equal(run.q[-1, 1], run.q[failed, 1])
    grads = run.pullback(q_bar=np.ones((3, 7)))
    assert not np.any(grads.state.v[1]) and np.abs(grads.state.v[[0, 2]]).max() > 0.1


def test_tolerances_that_make_no_sense():
    model = tossed("box", 2e-3)
    for tolerance in (0.0, -1e-3, np.inf, np.nan):
        with pytest.raises(pb.PullbackError, match="refine is a tolerance in metres"):
            pb.Articulated(model, refine=tolerance)
    with pytest.raises(pb.PullbackError, match="ContactImpulse finds the moment of impact"):
        pb.Articulated(model, "impulse", refine=1e-3)
    with pytest.raises(pb.PullbackError, match="ContactLongRange takes substeps itself"):
        pb.Articulated(model, "longrange", refine=1e-3)
    assert pb.Articulated(model, None, refine=1e-3).refine is None
