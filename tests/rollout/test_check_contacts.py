"""check_system on robots that touch: at rest, at kinks, and where solvers leave a residual."""

import numpy as np
import pytest
from trees import touching_robot
from wrong_pullback import Altered

import pullback as pb
from pullback.rollout.check import AGREES, KINK, NO_INFLUENCE, WRONG, WrongGradient


def resting(joint=""):
    """A box that has come to rest on a plane."""
    system = pb.Articulated(
        pb.load(f"""<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="5 5 1"/>
        <body pos="0 0 0.1"><joint type="free" {joint}/><geom type="box" size="0.1 0.12 0.1"/></body>
        </worldbody></mujoco>""")
    )
    return system, pb.rollout(system, system.state(), np.zeros((600, 1, 0)), checkpoint_every=600).final


def altered_row(system, name, index, change, state, **options):
    def alter(bars):
        bar = getattr(bars.state, name) if name in ("q", "v") else bars.params[name]
        bar[index] = change(bar[index])

    try:
        return pb.check_system(Altered(system, alter), state, names=(name,), **options)[name]
    except WrongGradient as wrong:
        return wrong.report[name]


def test_box_at_rest():
    system, state = resting()
    report = pb.check_system(system, state)
    # entries of both shapes are the same, and the larger counts
    assert {row.field for row in report.rows if row.status == KINK} == {"friction"}
    assert report["mass"].status == NO_INFLUENCE  # contacts are as stiff as the box is heavy
    assert report["armature"].status == AGREES
    entries = {"q": (0, 2), "geom_size": (1, 2), "solimp": (0, 2), "solref": (1, 0), "friction": (0, 0)}
    for name, index in entries.items():
        for change in (lambda x: 0 * x, lambda x: -x, lambda x: 2.5 * x):
            row = altered_row(system, name, index, change, state)
            if row.status != WRONG:  # a slope from one side is no error
                assert name == "friction" and row.status == KINK and row.analytic == 0 and row.sides[0] == 0
            else:
                assert row.index == index


BALL = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="1 1 1"/>
  <body><freejoint/><geom size="0.1" mass="1" friction="1.3"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(("height", "kinks"), [
    (0.1, {"q", "geom_pos", "geom_size"}),  # touches exactly, which is not yet a contact
    (0.1 - 1e-5, {"solref"}),  # of which the time constant is that of two steps
    (0.1 - 1e-3, {"solref"}),  # deep by the width of the impedance, where only its second derivative has a kink
    (0.1 + 1e-5, set()),
])  # fmt: skip
def test_ball_that_just_touches(height, kinks):
    system = pb.Articulated(pb.load(BALL))
    state = system.state([0, 0, height, 1, 0, 0, 0], [0.3, 0.1, -0.2, 1, 2, 3])
    report = pb.check_system(system, state)
    assert {row.field for row in report.rows if row.status == KINK} == kinks
    for name, index in {"q": (0, 2), "geom_size": (1, 0), "geom_pos": (1, 2), "solref": (1, 0)}.items():
        if report[name].largest == 0 or report[name].analytic == 0:
            continue
        for change in (lambda x: -x, lambda x: 1.001 * x):
            row = altered_row(system, name, index, change, state)
            assert row.status == WRONG and row.index == index, name
        if name != "solref":
            assert altered_row(system, name, index, lambda x: 0 * x, state).status == WRONG


LIMITED = """<mujoco><option timestep="0.004"/><default><geom contype="0" conaffinity="0"/>
  <joint axis="0 1 0" range="-20 30" frictionloss="0.3" damping="0.02"/></default><worldbody>
  <body><joint name="hip"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>{}</body></worldbody></mujoco>"""
SHANK = '<body pos="0.3 0 0"><joint name="knee"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/></body>'


def test_leg_that_long_steps_would_make_slip():
    """Armature by much is another regime of the friction loss; differences of two such steps agree with each other."""
    system = pb.Articulated(pb.load(LIMITED.format(SHANK)))
    for q, seed in (((-0.05, -0.12), 37), ((-0.05, 0.005), 49), ((-0.12, 0.19), 55)):
        state = system.state(q)
        assert pb.check_system(system, state, seed=seed)["armature"].status == AGREES
        for change in (lambda x: 1.15 * x, lambda x: 0 * x, lambda x: 1.0001 * x):
            row = altered_row(system, "armature", (1,), change, state, seed=seed)
            assert row.status == WRONG and row.index == (1,)


@pytest.mark.parametrize(("seed", "names"), [
    (24, ("inertia", "geom_quat")),
    (42, ("v",)),
    (68, ("control",)),
    (1094, ("friction",)),  # only moves beyond 1e-7 show the noise that 50 sweeps leave
])  # fmt: skip
def test_gradients_that_are_small_beside_the_loss(seed, names):
    """Was wrong: differences of impulses are noise at short steps, and long steps, which know better, did not count."""
    text, q, v, control = touching_robot(seed)
    system = pb.Articulated(pb.load(text), pb.ContactImpulse())
    report = pb.check_system(system, system.state(q, v), control[None], seed=seed, names=names)
    assert {row.status for row in report.rows} == {AGREES} and all(row.largest > 0 for row in report.rows)


@pytest.mark.parametrize("contact", [pb.ContactImpulse(), pb.ContactConvex(), pb.ContactCompliant()])
def test_small_errors_are_found(contact):
    text, q, v, _ = touching_robot(24)
    system = pb.Articulated(pb.load(text), contact)
    for name, index in {"joint_axis": (1, 0), "joint_range": (0, 0), "mass": (2,)}.items():
        for change, status in ((1.0, AGREES), (1.0001, WRONG)):
            row = altered_row(system, name, index, lambda x, change=change: change * x, system.state(q, v), seed=24)
            assert row.status == status, (name, change)
            assert row.index == index or status == AGREES


def test_hinge_at_its_limit():
    system = pb.Articulated(pb.load(LIMITED.format("")))
    limit = system.params["joint_range"][0, 1]
    for offset, kinks in ((0.0, {"q", "joint_range"}), (1e-5, set()), (-1e-5, set()), (0.03, set())):
        state = system.state([limit + offset], [0.2])
        report = pb.check_system(system, state)
        assert {row.field for row in report.rows if row.status == KINK} == kinks
        for change in (lambda x: 0 * x, lambda x: -x, lambda x: 1.001 * x):
            assert altered_row(system, "q", (0, 0), change, state).status == WRONG
    assert altered_row(system, "joint_range", (0, 1), lambda x: x + 0.1, system.state([limit])).status == WRONG
