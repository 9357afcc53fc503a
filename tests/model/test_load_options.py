"""An integrator and a timestep that stand for those of the file, contact models by name, and refusals in one line."""

import mujoco
import numpy as np
import pytest
from oracles import mujoco_run, relative_error

import pullback as pb

ROBOTS = ("cartpole", "quadruped", "humanoid", "arm")
# Whatever MuJoCo's compiler computes from other numbers: servos from damping ratios, springs from time constants.
DERIVED = """<mujoco><option timestep="0.003" integrator="Euler"/><worldbody>
  <body><joint name="a" axis="0 1 0" springdamper="0.1 0.7" solreflimit="-100 -1" range="-1 1" limited="true"/>
    <geom size="0.1" pos="0.2 0 0"/><body pos="0.4 0 0"><joint name="b" axis="1 0 0" armature="0.1"/>
    <geom type="box" size="0.1 0.1 0.2"/></body></body></worldbody>
  <actuator><position name="p" joint="b" kp="20" dampratio="0.5"/></actuator></mujoco>"""


def source(name: str) -> str:
    return DERIVED if name == "derived" else getattr(pb.robots, name)()


def edited(xml: str, integrator: str, timestep: float) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_string(xml)
    spec.option.timestep = timestep
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    return spec.compile()


@pytest.mark.parametrize("integrator", ["euler", "implicitfast", "implicit", "rk4"])
@pytest.mark.parametrize("name", [*ROBOTS, "derived"])
def test_it_is_as_if_the_file_were_edited(name, integrator):
    ours, theirs = (
        pb.load(source(name), integrator=integrator, timestep=0.0013),
        edited(source(name), integrator, 0.0013),
    )
    assert (ours.integrator, ours.timestep) == (integrator, 0.0013)
    sizes = [field for field in dir(theirs) if isinstance(getattr(theirs, field), np.ndarray)]
    assert len(sizes) > 200
    for field in sizes:
        np.testing.assert_array_equal(getattr(ours.mujoco, field), getattr(theirs, field), err_msg=field)
    for field in dir(theirs.opt):
        if not field.startswith("_"):
            np.testing.assert_array_equal(getattr(ours.mujoco.opt, field), getattr(theirs.opt, field), err_msg=field)


@pytest.mark.parametrize("integrator", ["euler", "implicitfast", "implicit", "rk4"])
def test_the_motion_is_that_of_the_edited_file(integrator):
    model = pb.load(DERIVED, integrator=integrator, timestep=0.001)
    system = pb.Articulated(model, contact=None)
    start, controls = system.state([0.3, 0.2], [1.0, -2.0]), np.full((200, 1, 1), 0.4)
    theirs = edited(DERIVED, integrator, 0.001)
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    q, v = mujoco_run(theirs, start.q, start.v, controls)
    run = pb.rollout(system, start, controls)
    assert relative_error(run.q, q) < 1e-11 and relative_error(run.v, v) < 1e-11
    unchanged = pb.rollout(pb.Articulated(pb.load(DERIVED), contact=None), start, controls)
    assert relative_error(unchanged.q, q) > 1e-3


def test_each_by_itself(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(DERIVED)
    for given in (path, DERIVED, mujoco.MjSpec.from_string(DERIVED), mujoco.MjModel.from_xml_string(DERIVED)):
        assert (pb.load(given, timestep=0.5).timestep, pb.load(given, timestep=0.5).integrator) == (0.5, "euler")
        assert (pb.load(given, integrator="rk4").timestep, pb.load(given, integrator="rk4").integrator) == (
            0.003,
            "rk4",
        )
    assert given.opt.timestep == 0.003 and path.read_text() == DERIVED
    implicit = DERIVED.replace("Euler", "discrete")
    assert pb.load(implicit, integrator="implicitfast").integrator == "implicitfast"


@pytest.mark.parametrize("timestep", [0, -1.0, np.nan, np.inf])
def test_a_timestep_that_is_none(timestep):
    with pytest.raises(pb.PullbackError, match="timestep must be a number above 0"):
        pb.load(DERIVED, timestep=timestep)


@pytest.mark.parametrize("integrator", ["Euler", "discrete", "verlet"])
def test_an_integrator_that_is_not_known(integrator):
    with pytest.raises(pb.PullbackError, match="integrator must be one of euler, rk4, implicitfast, implicit"):
        pb.load(DERIVED, integrator=integrator)


def test_every_element_that_is_refused_is_named():
    slow = "".join(f'<general name="m{i}" joint="b" dyntype="user"/>' for i in range(3))
    cord = '<tendon><fixed name="cord" stiffness="1" springyield="1"><joint joint="b" coef="1"/></fixed></tendon>'
    xml = DERIVED.replace("Euler", "discrete").replace("<actuator>", f"{cord}<actuator>{slow}")
    with pytest.raises(pb.PullbackError) as caught:
        pb.load(xml)
    said = str(caught.value)
    for part in ('the integrator "discrete"', "tendon 'cord'", "actuator 'm0'", "(also actuator 'm1', actuator 'm2')"):
        assert part in said, said
    assert 'ignore=("spring-yield", "actuator")' in said and "\n" not in said
    assert pb.load(xml, ignore=("spring-yield", "actuator"), integrator="euler").nu == 4


def test_contact_models_by_name():
    model = pb.load(pb.robots.quadruped())
    for name, kind in {
        "convex": pb.ContactConvex,
        "impulse": pb.ContactImpulse,
        "compliant": pb.ContactCompliant,
        "longrange": pb.ContactLongRange,
    }.items():
        assert pb.Articulated(model, contact=name).contact == kind()
    assert pb.Articulated(model, contact="model").contact == pb.ContactConvex()
    assert pb.Articulated(model, contact=None).contact is None
    with pytest.raises(pb.PullbackError, match="'convex', 'impulse', 'compliant', 'longrange'"):
        pb.Articulated(model, contact="none")


def test_a_kind_that_is_misspelt():
    with pytest.raises(pb.PullbackError, match=r"no kind of element to ignore: 'equalty'; did you mean 'equality'\?"):
        pb.load(pb.robots.pendulum(), ignore=("equalty",))
