"""Whatever the shapes, poses, speeds and masses: a step and its gradient are finite, or there is a PullbackError."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import scene

import pullback as pb

MODELS = {"convex": pb.ContactConvex(), "impulse": pb.ContactImpulse(sweeps=10), "compliant": pb.ContactCompliant()}
each_model = pytest.mark.parametrize("model", MODELS)
KINDS = ("plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")
PLACEMENTS = ("anywhere", "concentric", "touching", "aligned", "inside")

exponents = st.floats(-3, 1)  # sizes from a millimetre to ten metres
weights = st.floats(-6, 6)  # kilograms
seeds = st.integers(0, 2**32 - 1)


def shape(kind: str, size: float, rng: np.random.Generator, name: str, mass: float) -> tuple[str, str]:
    """A geom of about this size, and the asset it needs."""
    ratio = size * 10 ** rng.uniform(-1, 0, 3) if rng.random() < 0.7 else np.full(3, size)
    ratio = np.maximum(ratio, 1e-3)
    text = lambda x: " ".join(f"{v:.17g}" for v in np.ravel(x))  # noqa: E731
    asset = ""
    if kind == "mesh":
        count = int(rng.integers(4, 20))
        points = rng.normal(size=(count, 3)) * ratio
        if rng.random() < 0.3:  # a cuboid as a mesh
            points = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)]) * ratio
        asset = f'<mesh name="{name}" vertex="{text(points)}"/>'
        detail = f'mesh="{name}"'
    else:
        numbers = {"plane": 3, "sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
        detail = f'size="{text(ratio[:numbers])}"'
    weight = "" if kind == "plane" else f'mass="{mass:.17g}"'
    return f'<geom name="{name}" type="{kind}" {detail} {weight} friction="{rng.uniform(0, 2)}"/>', asset


def quaternion(rng: np.random.Generator, placement: str) -> np.ndarray:
    """Any rotation, or a multiple of a right angle."""
    quat = rng.normal(size=4)
    if placement == "aligned":
        quat = np.eye(4)[rng.integers(4)] + rng.integers(0, 2) * np.eye(4)[rng.integers(4)]
    return quat / np.linalg.norm(quat)


def case(kinds, sizes, masses, placement: str, speed: float, seed: int):
    """A model of two bodies, or of one and a plane, and a state of it."""
    rng = np.random.default_rng(seed)
    geoms, assets = zip(
        *(shape(k, s, rng, f"g{i}", m) for i, (k, s, m) in enumerate(zip(kinds, sizes, masses, strict=True))),
        strict=True,
    )
    world, q = "", []
    for i, (kind, geom) in enumerate(zip(kinds, geoms, strict=True)):
        world += geom if kind == "plane" else f'<body name="b{i}"><freejoint/>{geom}</body>'
    reach = {"concentric": 0.0, "inside": 0.1 * min(sizes), "touching": sum(sizes)}.get(placement, 0.7 * sum(sizes))
    for i, kind in enumerate(kinds):
        if kind != "plane":
            direction = np.eye(3)[rng.integers(3)] if placement in ("aligned", "touching") else rng.normal(size=3)
            q += [*(i * reach * direction / np.linalg.norm(direction)), *quaternion(rng, placement)]
    xml = scene(world, rest=f"<asset>{''.join(assets)}</asset>")
    v = speed * rng.normal(size=6 * (len(q) // 7))
    return xml, np.array(q), v, rng


def assert_finite_or_refused(model: str, xml: str, q, v, rng, steps: int = 2) -> bool:
    """Whether it was simulated; an AssertionError where a number is not finite."""
    try:
        system = pb.Articulated(pb.load(xml), MODELS[model])
        run = pb.rollout(system, system.state(q, v), steps=steps)
        assert np.all(np.isfinite(run.q)) and np.all(np.isfinite(run.v))
        bars = run.pullback(q_bar=rng.normal(size=run.q.shape), v_bar=rng.normal(size=run.v.shape))
    except pb.PullbackError:
        return False
    for name, bar in {"q": bars.state.q, "v": bars.state.v, **bars.params}.items():
        assert np.all(np.isfinite(bar)), f"the gradient of {name} is not finite"
    return True


def simulated_share(model: str, examples: int, make, steps: int = 2, **strategies) -> float:
    """Of random cases ``make(**drawn)``, those that were not refused."""
    simulated = []

    @given(**strategies)
    @settings(max_examples=examples)
    def simulate(**drawn):
        simulated.append(assert_finite_or_refused(model, *make(**drawn), steps=steps))

    simulate()
    assert len(simulated) >= examples
    return float(np.mean(simulated))


def any_two(kinds, sizes, masses, placement, speed, seed):
    """Sizes and masses are given as powers of ten."""
    return case(kinds, 10.0 ** np.array(sizes), 10.0 ** np.array(masses), placement, 10.0**speed, seed)


@each_model
def test_two_shapes(model):
    share = simulated_share(
        model,
        120,
        any_two,
        kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS[1:])),
        sizes=st.tuples(exponents, exponents),
        masses=st.tuples(weights, weights),
        placement=st.sampled_from(PLACEMENTS),
        speed=st.floats(-3, 3),
        seed=seeds,
    )
    assert share >= 0.9


def ordinary(kinds, placement: str, seed: int):
    """Nothing about it is extreme, so that it must be simulated."""
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(0.05, 0.2, len(kinds))
    xml, q, v, rng = case(kinds, sizes, rng.uniform(0.1, 10, len(kinds)), placement, 1.0, seed)
    return xml.replace("<worldbody>", '<worldbody><geom type="plane" size="1 1 1"/>'), q, v, rng


@each_model
def test_several_shapes_of_ordinary_size(model):
    kinds = st.lists(st.sampled_from(KINDS[1:]), min_size=3, max_size=5)
    placement = st.sampled_from(PLACEMENTS)
    assert (
        simulated_share(model, 25, ordinary, 3, kinds=kinds, placement=placement, seed=seeds) >= 0.8
    )  # piles may outgrow the workspace


def robot(joints, seed: int):
    """A chain that lies on the floor, beyond its limits, with friction loss."""
    rng = np.random.default_rng(seed)
    world = '<geom type="plane" size="1 1 1"/>'
    for i, kind in enumerate(joints):
        low = 0 if kind == "ball" else rng.uniform(-30, 0)
        spec = f'type="{kind}" range="{low} {rng.uniform(1, 30)}" frictionloss="{rng.choice([0, 0.1, 10])}"'
        axis = " ".join(map(str, rng.normal(size=3)))
        world += f'<body name="b{i}" pos="{0.2 * (i > 0)} 0 {0.05 * (i == 0)}"><joint {spec} axis="{axis}"/>'
        size, mass = rng.uniform(0.01, 0.1), 10 ** rng.uniform(-2, 2)
        world += f'<geom type="capsule" fromto="0 0 0 0.2 0 0" size="{size}" mass="{mass}"/>'
    xml = scene(world + "</body>" * len(joints))
    m = pb.load(xml)
    q = m.q0 + rng.normal(size=m.nq)
    return xml, q, 10 * rng.normal(size=m.nv), rng


@each_model
def test_robots_with_limits_and_losses(model):
    joints = st.lists(st.sampled_from(("hinge", "slide", "ball")), min_size=1, max_size=3)
    assert simulated_share(model, 30, robot, joints=joints, seed=seeds) >= 0.9


# --- what was found, kept --------------------------------------------------------------------------------


# Was wrong: of a body that falls freely, forces sideways are rounding, and their balance against each other was asked
# for: "could not be found to the accuracy that a gradient needs".
@pytest.mark.parametrize(
    ("kinds", "placement", "seed"),
    [
        (["sphere"] * 3, "anywhere", 2),
        (["mesh", "sphere", "cylinder"], "anywhere", 67),
        (["capsule", "ellipsoid", "box"], "aligned", 103),
        (["sphere"] * 3, "aligned", 115),
        (["box"] * 3, "aligned", 180),
    ],
)
def test_bodies_without_contact_beside_others_that_have(kinds, placement, seed):
    assert assert_finite_or_refused("convex", *ordinary(kinds, placement, seed), steps=3)
