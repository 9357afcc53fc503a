"""Cloth, soft solids and ropes of MJCF, against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from oracles import mujoco_run

import pullback as pb
from pullback.rollout.check import AGREES

ROUNDING = 1e-12
# A jelly of tetrahedra, a flat cloth, a ball of curved cloth, a solid one whose vertices move along radii, and a rope
# that hangs from an arm which swings.
FLEXES = {
    "solid": """<flexcomp name="soft" type="grid" count="3 3 3" spacing=".07 .06 .08" radius=".005" dim="3" mass="2">
        <elasticity young="5e3" poisson=".3" damping=".02"/>{contact}</flexcomp>""",
    "cloth": """<flexcomp name="soft" type="grid" count="4 3 1" spacing=".07 .06 .08" radius=".005" dim="2" mass="1">
        <elasticity young="3e4" poisson=".2" damping=".02" thickness=".01" elastic2d="both"/>{contact}</flexcomp>""",
    "ball": """<flexcomp name="soft" type="ellipsoid" count="4 4 4" spacing=".07 .06 .08" radius=".005" dim="2"
        mass="1"><elasticity young="3e3" poisson=".2" damping=".02" thickness=".01" elastic2d="both"/>
        {contact}</flexcomp>""",
    "radial": """<flexcomp name="soft" type="ellipsoid" count="4 4 4" spacing=".07 .06 .08" radius=".005" dim="3"
        mass="1" dof="radial"><elasticity young="3e3" poisson=".2" damping=".02"/>{contact}</flexcomp>""",
    "rope": """<body name="arm" pos="0 0 .3"><joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/>
        <flexcomp name="soft" type="grid" count="5 1 1" spacing=".1 .1 .1" pos=".3 0 0" radius=".01" dim="1" mass="1">
        <pin id="0"/><edge stiffness="100" damping="1"/>{contact}</flexcomp></body>""",
}
MATTER = {
    "solid": ("flex_shear", "flex_lame", "flex_damping"),
    "cloth": ("flex_shear", "flex_lame", "flex_damping", "flex_bending"),
    "ball": ("flex_shear", "flex_lame", "flex_damping", "flex_bending"),
    "radial": ("flex_shear", "flex_lame", "flex_damping"),
    "rope": ("flex_edge_stiffness", "flex_edge_damping"),
}
NO_CONTACT = '<contact selfcollide="none" contype="0" conaffinity="0"/>'
FALL = """<mujoco><option timestep="0.001" cone="{cone}" integrator="{integrator}" tolerance="1e-14" iterations="200"/>
  <worldbody><geom name="floor" type="plane" size="3 3 .1" euler="2 -3 0" friction=".4"/>
  <flexcomp name="soft" type="grid" count="3 3 3" spacing=".1 .1 .1" pos="0 0 .14" radius=".01" dim="3" mass="5"
    euler="20 10 0"><elasticity young="2e4" poisson=".3" damping=".01"/>
    <contact selfcollide="{itself}" friction=".3" solref="0.03 1"/></flexcomp>{more}</worldbody></mujoco>"""
BALL = '<body pos=".02 .03 .35"><freejoint/><geom name="ball" size=".05"/></body>'


def world(kind: str, *, integrator: str = "Euler", flags: str = "") -> str:
    option = f'<option timestep="0.001" integrator="{integrator}">{flags}</option>'
    return f"<mujoco>{option}<worldbody>{FLEXES[kind].format(contact=NO_CONTACT)}</worldbody></mujoco>"


def fall(*, cone="pyramidal", integrator="Euler", itself="none", more="") -> str:
    return FALL.format(cone=cone, integrator=integrator, itself=itself, more=more)


def scattered(m: mujoco.MjModel, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return m.qpos0 + 5e-3 * rng.normal(size=m.nq), 0.3 * rng.normal(size=m.nv)


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("kind", FLEXES)
def test_a_thousand_steps_are_mujocos(kind, integrator):
    model = pb.load(world(kind, integrator=integrator))
    q, v = scattered(model.mujoco)
    system = pb.Articulated(model, contact=None)
    run = pb.rollout(system, system.state(q, v), steps=1000)
    theirs = mujoco_run(model.mujoco, q[None], v[None], np.zeros((1000, 1, 0)))
    assert np.abs(run.final.q - theirs[0][-1]).max() <= ROUNDING * np.abs(theirs[0][-1]).max()
    assert np.abs(run.final.q - q).max() > 0.01  # it moved


@pytest.mark.parametrize("kind", FLEXES)
def test_gradients(kind):
    model = pb.load(world(kind))
    q, v = scattered(model.mujoco, seed=1)
    system = pb.Articulated(model, contact=None)
    report = pb.check_system(system, system.state(q, v))
    for name in ("q", "v", "mass", *MATTER[kind]):
        assert report[name].status == AGREES and report[name].largest > 1e-7, report[name]


def test_gradients_through_the_stages_of_rk4_and_checkpoints():
    model = pb.load(world("cloth", integrator="RK4"))
    q, v = scattered(model.mujoco, seed=2)
    system = pb.Articulated(model, contact=None)
    assert pb.check_system(system, system.state(q, v), names=["q", "v", "flex_damping"])["q"].status == AGREES
    bars = [
        pb.rollout(system, system.state(q, v), steps=30, checkpoint_every=every).pullback(q_bar=np.ones((1, model.nq)))
        for every in (1, 7)
    ]
    assert np.array_equal(bars[0].params.flex_bending, bars[1].params.flex_bending)


def test_dampers_can_be_switched_off():
    model = pb.load(world("cloth", flags='<flag damper="disable"/>'))
    q, v = scattered(model.mujoco)
    system = pb.Articulated(model, contact=None)
    theirs = mujoco_run(model.mujoco, q[None], v[None], np.zeros((1, 1, 0)))[1][-1]
    assert np.abs(system.step(system.state(q, v)).v - theirs).max() <= ROUNDING
    assert system.params["flex_damping"] == 0 and model.mujoco.flex_damping > 0


def test_material_is_that_of_the_file():
    system = pb.Articulated(pb.load(world("solid")), contact=None)
    assert np.allclose(system.params["flex_shear"], 5e3 / 2 / 1.3, rtol=1e-12)
    assert np.allclose(system.params["flex_lame"], 5e3 * 0.3 / (1.3 * 0.4), rtol=1e-12)


@pytest.mark.parametrize(("cone", "integrator"), [("pyramidal", "Euler"), ("elliptic", "Euler"), ("pyramidal", "RK4")])
def test_vertices_touch_a_plane_as_in_mujoco(cone, integrator):
    """Against the file as it is, where the flex touches by itself."""
    text = fall(cone=cone, integrator=integrator)
    theirs, system = mujoco.MjModel.from_xml_string(text), pb.Articulated(pb.load(text))
    q, v = theirs.qpos0[None], np.random.default_rng(0).normal(0, 0.3, (1, theirs.nv))
    run = pb.rollout(system, system.state(q, v), steps=300)
    data, touched = mujoco.MjData(theirs), 0
    for t in range(300):
        data.qpos[:], data.qvel[:] = run.q[t, 0], run.v[t, 0]
        mujoco.mj_step(theirs, data)
        touched += data.ncon
        change = np.abs(data.qvel - run.v[t, 0]).max()
        # elliptic cones: MuJoCo stops its own search early
        assert np.abs(data.qvel - run.v[t + 1, 0]).max() <= (1e-6 if cone == "elliptic" else 1e-11) * change, t
    assert touched > 500


def test_gradients_in_contact():
    model = pb.load(fall())
    system = pb.Articulated(model)
    state = pb.rollout(system, system.state(), steps=60).final
    names = ["q", "v", "flex_shear", "flex_damping", "friction", "solref"]
    report = pb.check_system(system, state, names=names)
    for name in names:
        assert report[name].status == AGREES and report[name].largest > 1e-7, report[name]


def test_faces_are_asked_for_and_vertices_touch_in_their_place():
    for text in (fall(more=BALL), fall(itself="auto")):
        with pytest.raises(pb.PullbackError, match=r'flex .soft. may touch other shapes by its faces.*"flexface"'):
            pb.Articulated(pb.load(text))
    model = pb.load(fall(more=BALL), ignore=("flexface",))
    system, m = pb.Articulated(model), model.mujoco
    run = pb.rollout(system, system.state(), steps=300)
    found = {pair for t in (0, 100, 150, 299) for pair in run.contacts(t)[0].geoms}
    assert any("ball" in pair and "soft vertex" in "".join(pair) for pair in found)
    assert not any(all("soft" in name for name in pair) for pair in found)
    # the model that comes of it is one that MuJoCo steps likewise
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = run.q[150, 0], run.v[150, 0]
    mujoco.mj_step(m, data)
    assert np.abs(run.v[151, 0] - data.qvel).max() <= 1e-9 * np.abs(data.qvel - run.v[150, 0]).max()


def test_a_spec_is_loaded_as_a_file_is_and_a_compiled_model_is_refused():
    text = fall()
    spec = mujoco.MjSpec.from_string(text)
    geoms = len(spec.geoms)
    one, other = pb.load(spec), pb.load(text)
    assert one.geoms.names == other.geoms.names and len(spec.geoms) == geoms
    with pytest.raises(pb.PullbackError, match="give load the file or a mujoco.MjSpec"):
        pb.load(mujoco.MjModel.from_xml_string(text))
    assert pb.load(mujoco.MjModel.from_xml_string(text), ignore=("contact",)).nv == one.nv


ELASTIC = '<elasticity young="3e4" poisson=".2" damping=".02" thickness=".01" elastic2d="both"/>'


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (ELASTIC, '<edge equality="true"/>', "keeps the lengths of its edges"),
        ("></option>", '><flag spring="disable"/></option>', "switches springs off"),
        ('count="4 3 1"', 'dof="trilinear" count="4 3 3"', "moves its vertices by interpolation"),
    ],
)
def test_what_is_not_simulated_is_named(old, new, reason):
    text = world("cloth").replace(old, new)
    if "trilinear" in new:
        text = text.replace('dim="2"', 'dim="3"').replace(ELASTIC, '<elasticity young="3e4" poisson=".2"/>')
    with pytest.raises(pb.PullbackError, match=f"flex 'soft' .*{reason}.*ignore=.*flex"):
        pb.load(text)
    assert len(pb.load(text, ignore=("flex",)).flexes.edge) == 0


def test_implicitfast_is_refused_where_it_is_asked_for():
    with pytest.raises(pb.PullbackError, match="flex 'soft' is deformable.*Euler"):
        pb.load(world("cloth"), integrator="implicitfast")


def test_flexes_are_drawn():
    model = pb.load(fall())
    system = pb.Articulated(model)
    run = pb.rollout(system, system.state(), steps=20)
    drawing = system.drawing(run)
    assert drawing.problem() == "" and drawing.mesh_motion.shape[0] == 21 and drawing.paint.max() > 0
    assert np.array_equal(np.unique(drawing.shape_kind), ["mesh", "plane"])
