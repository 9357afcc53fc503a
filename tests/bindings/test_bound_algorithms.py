"""Algorithms of pullback.dynamics in torch and JAX: values of MuJoCo, gradients by finite differences and of NumPy."""

import inspect

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback import dynamics
from pullback.dynamics.bound import ALGORITHMS

WORLDS = 2
SENSORS = """<framepos objtype="xbody" objname="trunk"/><subtreecom body="trunk"/><subtreeangmom body="trunk"/>
  <framelinvel objtype="xbody" objname="trunk"/><accelerometer site="imu"/>"""
SENSED = pb.robots.quadruped().replace("</mujoco>", "<sensor>" + SENSORS + "</sensor></mujoco>")
NAMES = [algorithm.__name__ for algorithm in ALGORITHMS]
# What each depends on, of the parameters that are given here: a gradient of zero there is a failure.
PARAMS = ("mass", "com", "body_pos")
MATTERS = {name: PARAMS for name in NAMES} | {
    name: ("body_pos",) for name in ("kinematics", "jacobian", "velocity", "acceleration")
}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def system():
    """Quadrupeds, whose trunk has a quaternion."""
    return pb.Articulated(pb.load(SENSED), contact=None, worlds=WORLDS, threads=1)


def some_arrays(system, name: str, times: int | None = None, seed: int = 0) -> list[np.ndarray]:
    """What an algorithm takes, in general position: quaternions are not of unit length."""
    rng = np.random.default_rng(seed)
    lead = (WORLDS,) if times is None else (times, WORLDS)
    q = system.model.home.q + 0.2 * rng.standard_normal((*lead, system.nq))
    others = 0.5 * rng.standard_normal((2, *lead, system.nv))
    count = sum(p.default is p.empty for p in inspect.signature(getattr(dynamics, name)).parameters.values()) - 1
    return [q, *others][:count]


def some_params(system) -> dict[str, np.ndarray]:
    """Different in every world."""
    rng = np.random.default_rng(3)
    return {n: system.params[n] * (1 + 0.1 * rng.random((WORLDS, *system.params[n].shape))) for n in PARAMS}


# --- torch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck_of_arrays(torch, system, name):
    import pullback.torch as pbt

    arrays = [torch.tensor(x, requires_grad=True) for x in some_arrays(system, name)]
    assert torch.autograd.gradcheck(lambda *x: getattr(pbt, name)(system, *x), arrays)


@pytest.mark.parametrize("name", NAMES)
def test_torch_gives_values_and_gradients_of_numpy_along_a_trajectory(torch, system, name):
    import pullback.torch as pbt

    arrays, params = some_arrays(system, name, times=3), some_params(system)
    plain = getattr(dynamics, name)(system, *arrays, params=params)
    bar = np.random.default_rng(1).standard_normal(plain.value.shape)
    bars = plain.pullback(bar)

    given = [torch.tensor(x, requires_grad=True) for x in arrays]
    learned = {n: torch.tensor(x, requires_grad=True) for n, x in params.items()}
    value = getattr(pbt, name)(system, *given, params=learned)
    np.testing.assert_array_equal(value.detach(), plain.value)
    value.backward(torch.tensor(bar))
    for tensor, wanted in zip(given, bars[: len(given)], strict=True):
        np.testing.assert_array_equal(tensor.grad, wanted)
        assert np.any(wanted)
    for n, tensor in learned.items():
        np.testing.assert_array_equal(tensor.grad, bars.params[n])
        assert n not in MATTERS[name] or np.any(bars.params[n])


def test_torch_takes_what_may_be_left_out(torch, system):
    import pullback.torch as pbt

    q, v, control = (torch.tensor(x) for x in (*some_arrays(system, "sensors"), np.ones((WORLDS, system.nu))))
    q.requires_grad_(), control.requires_grad_()
    value = pbt.sensors(system, q, v, control=control)
    plain = dynamics.sensors(system, q.detach().numpy(), v.numpy(), None, np.ones((WORLDS, system.nu)))
    np.testing.assert_array_equal(value.detach(), plain.value)
    value.sum().backward()
    bars = plain.pullback(np.ones(value.shape))
    np.testing.assert_array_equal(control.grad, bars.control)
    np.testing.assert_array_equal(q.grad, bars.q)
    assert np.all(bars.control != 0) and v.grad is None


def test_torch_computes_parameter_gradients_only_if_wanted(torch, system, monkeypatch):
    import pullback.torch as pbt

    q = torch.tensor(some_arrays(system, "kinematics")[0], requires_grad=True)
    wanted, cotangents = [], dynamics.algorithms.Cotangents
    recorded = lambda *args, **options: wanted.append(options["wanted"]) or cotangents(*args, **options)  # noqa: E731
    monkeypatch.setattr(dynamics.algorithms, "Cotangents", recorded)
    mass = torch.tensor(system.params["mass"])
    pbt.center_of_mass(system, q, params={"mass": mass}).sum().backward()
    assert wanted == [False] and torch.any(q.grad != 0)
    pbt.center_of_mass(system, q, params={"mass": mass.requires_grad_()}).sum().backward()
    assert wanted == [False, True] and torch.any(mass.grad != 0)


def test_torch_refuses_what_it_cannot_do(torch, system):
    import pullback.torch as pbt

    q = torch.tensor(some_arrays(system, "kinematics")[0], requires_grad=True)
    with pytest.raises(pb.PullbackError, match="q is float32"):
        pbt.kinematics(system, q.float())
    with pytest.raises(pb.PullbackError, match="'tail'"):
        pbt.kinematics(system, q, of="site", names=("tail",))
    with pytest.raises(TypeError, match="v"):
        pbt.velocity(system, q)
    value = pbt.center_of_mass(system, q).sum()
    with pytest.raises(pb.PullbackError, match="create_graph"):
        torch.autograd.grad(value, q, create_graph=True)
    with torch.no_grad():
        q += 1.0
    with pytest.raises(RuntimeError, match="in-?place"):
        value.backward()


@pytest.mark.parametrize("of, times", [("body", None), ("site", None), ("geom", 3), ("camera", None)])
def test_forward_mode_of_kinematics(torch, of, times):
    """Against differences, against the pullback and between torch's two ways; hinges, a slide, a ball and a free joint,
    whose quaternions are not of unit length, and frames that other joints do not move."""
    import pullback.torch as pbt

    model = pb.load("""<mujoco><worldbody><site name="fixed"/>
      <body pos="0 0 1"><freejoint/><geom size="0.1" pos="0.1 0.2 0"/><camera name="eye" pos="0.2 0 0"/>
        <body pos="0.3 0 0"><joint axis="1 2 0" pos="0 0.1 0"/><joint type="slide" axis="0 1 1"/>
          <geom type="box" size="0.1 0.1 0.2" euler="20 30 40"/><site name="a" pos="0 0.1 0.2" euler="50 0 10"/>
          <body pos="0 0 0.4"><joint type="ball" pos="0.1 0 0"/><geom size="0.1"/><site name="b" pos="0.2 0 0"/>
      </body></body></body></worldbody></mujoco>""")
    system = pb.Articulated(model, contact=None, worlds=WORLDS, threads=1)
    rng = np.random.default_rng(0)
    shape = (WORLDS, model.nq) if times is None else (times, WORLDS, model.nq)
    q, dq = torch.tensor(model.home.q + 0.3 * rng.normal(size=shape)), torch.tensor(rng.normal(size=shape))

    def poses(q):
        return pbt.kinematics(system, q, of=of)

    value, tangent = torch.func.jvp(poses, (q,), (dq,))
    with torch.autograd.forward_ad.dual_level():
        dual = poses(torch.autograd.forward_ad.make_dual(q, dq))
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(dual).tangent, tangent)
    by = [(poses(q + h * dq) - poses(q - h * dq)) / (2 * h) for h in (1e-4, 1e-5, 1e-6)]
    assert min((tangent - one).abs().max() for one in by) < 1e-7 < 0.1 < tangent.abs().max()
    for _ in range(5):
        bar, given = torch.tensor(rng.normal(size=value.shape)), q.clone().requires_grad_()
        (q_bar,) = torch.autograd.grad(poses(given), given, bar)
        along = (q_bar * dq).sum()
        assert abs(along - (bar * tangent).sum()) < 1e-12 * (q_bar.norm() * dq.norm()) and abs(along) > 1e-3


def test_what_forward_mode_cannot_do(torch, system):
    import pullback.torch as pbt

    q = torch.tensor(some_arrays(system, "kinematics")[0])
    with pytest.raises(pb.PullbackError, match="for kinematics, not for center_of_mass"):
        torch.func.jvp(lambda q: pbt.center_of_mass(system, q), (q,), (q,))
    pos = torch.tensor(system.params["body_pos"])
    with pytest.raises(pb.PullbackError, match="by q alone, not by parameters"):
        torch.func.jvp(lambda pos: pbt.kinematics(system, q, params={"body_pos": pos}), (pos,), (pos,))
    asked = q.clone().requires_grad_()
    with torch.autograd.forward_ad.dual_level():
        dual = pbt.kinematics(system, torch.autograd.forward_ad.make_dual(q, asked))
        moved = torch.autograd.forward_ad.unpack_dual(dual).tangent
        with pytest.raises(pb.PullbackError, match="no second derivatives"):
            moved.sum().backward()
    with pytest.raises(pb.PullbackError, match="the tangent of q"):
        dynamics.kinematics(system, q.numpy()).pushforward(q.numpy()[:1])


# --- JAX --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_jax_gives_values_and_gradients_of_numpy_along_a_trajectory(jax, system, name):
    import pullback.jax as pbj

    arrays, params = some_arrays(system, name, times=3), some_params(system)
    plain = getattr(dynamics, name)(system, *arrays, params=params)
    bar = np.random.default_rng(1).standard_normal(plain.value.shape)
    bars = plain.pullback(bar)

    def weighed(arrays, params):
        return jax.numpy.vdot(bar, getattr(pbj, name)(system, *arrays, params=params))

    value = jax.jit(lambda x, p: getattr(pbj, name)(system, *x, params=p))(arrays, params)
    np.testing.assert_array_equal(value, plain.value)
    for grad in (jax.grad(weighed, (0, 1)), jax.jit(jax.grad(weighed, (0, 1)))):
        arrays_bar, params_bar = grad(arrays, params)
        for found, wanted in zip(arrays_bar, bars[: len(arrays)], strict=True):
            np.testing.assert_array_equal(found, wanted)
            assert np.any(wanted)
        for n, found in params_bar.items():
            np.testing.assert_array_equal(found, bars.params[n])
            assert n not in MATTERS[name] or np.any(found)


def test_jax_takes_what_may_be_left_out(jax, system):
    import pullback.jax as pbj

    (q, v), control = some_arrays(system, "sensors"), np.ones((WORLDS, system.nu))
    bars = dynamics.sensors(system, q, v, control=control).pullback(np.ones((WORLDS, 15)))
    grad = jax.jit(jax.grad(lambda q, u: pbj.sensors(system, q, v, control=u).sum(), (0, 1)))
    for found, wanted in zip(grad(q, control), (bars.q, bars.control), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert np.all(wanted != 0)
    with pytest.raises(pb.PullbackError, match=r"control has shape \(2, 3\), but \(worlds=2, nu=12\)"):
        pbj.sensors(system, q, v, control=control[:, :3])


@pytest.mark.parametrize("name", ["kinematics", "velocity", "center_of_mass_velocity"])
def test_finite_differences_in_jax(jax, system, name):
    from jax.test_util import check_grads

    import pullback.jax as pbj

    arrays, params = some_arrays(system, name), some_params(system)
    check_grads(
        lambda x, p: getattr(pbj, name)(system, *x, params=p), (arrays, params), order=1, modes=["rev"], eps=1e-6
    )


def test_jax_refuses_what_it_cannot_do(jax, system):
    import pullback.jax as pbj

    q = some_arrays(system, "kinematics", times=3)[0]
    with pytest.raises(pb.PullbackError, match=r"q has shape \(3, 1, 19\), but \(times=3, worlds=2, nq=19\)"):
        pbj.kinematics(system, q[:, :1])
    with pytest.raises(pb.PullbackError, match=r"v has shape \(2, 18\), but \(times=3, worlds=2, nv=18\)"):
        pbj.velocity(system, q, np.zeros((2, 18)))
    with pytest.raises(pb.PullbackError, match="'tail'"):
        jax.jit(lambda q: pbj.kinematics(system, q, of="site", names=["tail"]))(q)
    with pytest.raises(pb.PullbackError, match="there is no parameter 'mas'"):
        pbj.kinematics(system, q, params={"mas": np.ones(3)})


# --- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["body", "geom", "site"])
def test_poses_and_velocities_are_those_of_mujoco(torch, jax, kind):
    import pullback.jax as pbj
    import pullback.torch as pbt

    system = pb.Articulated(pb.load(pb.robots.arm()), contact=None)
    m = system.model.mujoco
    rng = np.random.default_rng(0)
    q, v = rng.standard_normal((1, m.nq)), rng.standard_normal((1, m.nv))
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = q[0], v[0]
    mujoco.mj_forward(m, data)
    number = {"body": mujoco.mjtObj.mjOBJ_XBODY, "geom": mujoco.mjtObj.mjOBJ_GEOM, "site": mujoco.mjtObj.mjOBJ_SITE}
    at = {"body": data.xpos, "geom": data.geom_xpos, "site": data.site_xpos}[kind]
    wanted = np.zeros((len(at), 6))
    for i, row in enumerate(wanted):
        mujoco.mj_objectVelocity(m, data, number[kind], i, row, 0)
    assert len(at) and np.abs(wanted).max() > 0.1
    for poses, velocities in (
        (
            pbt.kinematics(system, torch.tensor(q), of=kind),
            pbt.velocity(system, torch.tensor(q), torch.tensor(v), of=kind),
        ),
        (pbj.kinematics(system, q, of=kind), pbj.velocity(system, q, v, of=kind)),
    ):
        np.testing.assert_allclose(poses[0, :, :3], at, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(velocities[0], wanted, rtol=1e-11, atol=1e-12)


def test_signatures_and_docstrings_are_those_of_numpy():
    pbt = pytest.importorskip("pullback.torch")
    for algorithm in ALGORITHMS:
        bound = getattr(pbt, algorithm.__name__)
        assert bound.__doc__ == algorithm.__doc__
        assert inspect.signature(bound).parameters == inspect.signature(algorithm).parameters
