"""Shapes, parameters and settings that cannot be, or hardly: an error that names them, or a finite answer."""

import numpy as np
import pytest
from scenes import scene

import pullback as pb

MODELS = {"convex": pb.ContactConvex(), "impulse": pb.ContactImpulse(), "compliant": pb.ContactCompliant()}
each_model = pytest.mark.parametrize("model", MODELS)
FLOOR = '<geom name="floor" type="plane" size="1 1 1"/>'
BALL = '<body name="ball"><freejoint/><geom name="ball" size="0.1" mass="1"/></body>'
HINGE = """<body pos="3 0 1"><joint name="hip" axis="0 1 0" range="-30 30" frictionloss="0.1"/>
  <geom name="leg" size="0.1"/></body>"""


def simulate(model: str, xml: str, q=None, v=None, *, steps: int = 3, dtype: str = "float64"):
    """States and gradients, all finite."""
    system = pb.Articulated(pb.load(xml), MODELS[model], dtype=dtype)
    run = pb.rollout(system, system.state(q, v), steps=steps)
    bars = run.pullback(q_bar=np.ones(run.q.shape), v_bar=np.ones(run.v.shape))
    for array in (run.q, run.v, bars.state.q, bars.state.v, *bars.params.values()):
        assert np.all(np.isfinite(array))
    return run, bars


# shapes

NO_SIZE = {
    "sphere": 'size="0"',
    "capsule": 'type="capsule" size="0.1 0"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.1 0"',
    "cylinder": 'type="cylinder" size="0 0.1"',
    "box": 'type="box" size="0.1 0 0.1"',
    "negative": 'size="-0.1"',
    "missing": 'type="box" size="0.1"',
    "nan": 'size="nan"',
}


@pytest.mark.parametrize("kind", NO_SIZE)
def test_shapes_without_size_are_named(kind):
    xml = scene(FLOOR + f'<body><freejoint/><geom name="thing" {NO_SIZE[kind]}/></body>')
    with pytest.raises(pb.PullbackError, match="(?i)size|nan"):
        pb.load(xml)


@each_model
@pytest.mark.parametrize(
    ("name", "where", "value", "message"),
    [
        ("geom_size", (1, 0), 0.0, "'geom_size' of 'ball'.*positive"),
        ("geom_size", (1, 0), -0.1, "'geom_size' of 'ball'.*positive"),
        ("geom_size", (1, 0), np.nan, "geom_size.*not finite"),
        ("geom_size", (1, 0), np.inf, "geom_size.*not finite"),
        ("friction", (1, 0), -0.5, "'friction' of 'ball'.*negative"),
        ("friction", (2, 2), np.nan, "friction.*not finite"),
        ("geom_quat", (1, slice(None)), 0.0, "'geom_quat' of 'ball'.*no direction"),
        ("geom_pos", (0, 1), np.nan, "geom_pos.*not finite"),
        ("joint_range", (1, 0), 5.0, "'joint_range' of 'hip'.*lower limit first"),
        ("frictionloss", 6, -1.0, "'frictionloss'.*negative"),
        ("frictionloss", 6, np.nan, "frictionloss.*not finite"),
    ],
)
def test_bad_parameters_are_named(model, name, where, value, message):
    system = pb.Articulated(pb.load(scene(FLOOR + BALL + HINGE)), MODELS[model], worlds=2)
    bad = np.array(system.params[name])
    bad[where] = value
    each = np.stack([system.params[name], bad])
    for given in (bad, each):
        with pytest.raises(pb.PullbackError, match=message) as error:
            system.step(system.state(), None, {name: given})
        if given is each:
            assert "world 1" in str(error.value) or "[1" in str(error.value) or "1," in str(error.value), error.value
        with pytest.raises(pb.PullbackError, match=message):
            system.params[name] = given


@each_model
@pytest.mark.parametrize("name", ["geom_size", "geom_pos", "geom_quat", "friction", "joint_range", "frictionloss"])
def test_parameters_of_another_shape_are_named(model, name):
    system = pb.Articulated(pb.load(scene(FLOOR + BALL + HINGE)), MODELS[model], worlds=2)
    value = np.array(system.params[name])
    for bad in (value[:-1], np.stack([value] * 3), value[..., None], np.zeros(0), "large", None, [[1.0], [2.0, 3.0]]):
        with pytest.raises(pb.PullbackError, match=name):
            system.params[name] = bad
    np.testing.assert_array_equal(system.params[name], value)


def test_unknown_parameters_are_named():
    system = pb.Articulated(pb.load(scene(FLOOR + BALL)), pb.ContactImpulse())
    with pytest.raises(pb.PullbackError, match="there is no parameter 'solref'"):
        system.step(system.state(), None, {"solref": np.ones((2, 2))})
    with pytest.raises(pb.PullbackError, match="there is no parameter 'restitution'"):
        other = pb.Articulated(pb.load(scene(FLOOR + BALL)), pb.ContactCompliant())
        other.params["restitution"] = [1.0, 1.0]


def test_restitution_above_one():
    with pytest.raises(pb.PullbackError, match="restitution of ContactImpulse.*between 0 and 1"):
        pb.ContactImpulse(restitution=1.01)
    system = pb.Articulated(pb.load(scene(FLOOR + BALL)), pb.ContactImpulse())
    with pytest.raises(pb.PullbackError, match="'restitution' of 'ball'.*between 0 and 1"):
        system.params["restitution"] = [0.5, 1.01]


# meshes


def mesh(vertex: str, face: str = "", inertia: str = "") -> str:
    faces = f'face="{face}"' if face else ""
    asset = f'<asset><mesh name="m" vertex="{vertex}" {faces} {inertia}/></asset>'
    return scene(
        FLOOR + '<body name="b"><freejoint/><geom name="thing" type="mesh" mesh="m" mass="1"/></body>', rest=asset
    )


FLAT = "0 0 0  1 0 0  0 1 0  1 1 0"
BAD_MESHES = {
    "a point": "0 0 0  0 0 0  0 0 0  0 0 0",
    "two points": "0 0 0  1 0 0",
    "a line": "0 0 0  1 0 0  2 0 0  3 0 0",
    "flat": FLAT,
    "almost flat": "0 0 0  1 0 0  0 1 0  1 1 1e-14",
}


@pytest.mark.parametrize("kind", BAD_MESHES)
def test_degenerate_meshes(kind):
    """MuJoCo's compiler refuses them."""
    with pytest.raises(pb.PullbackError, match="mesh 'm'|Element name '(m|b)'"):
        pb.load(mesh(BAD_MESHES[kind]))


CUBE = "0 0 0  1 0 0  0 1 0  1 1 0  0 0 1  1 0 1  0 1 1  1 1 1"
ODD_MESHES = {
    # three triangles that share an edge, and one that hangs on a corner
    "not a manifold": ("0 0 0  1 0 0  0 1 0  0 0 1  0 -1 0.5", "0 1 2  0 1 3  0 1 4  1 2 3"),
    "a hole": (CUBE, "0 1 2  1 3 2  0 4 5  0 5 1"),
    "inside out": (CUBE, "0 2 1  1 2 3  4 5 6  5 7 6  0 1 4  1 5 4  2 6 3  3 6 7  0 4 2  2 4 6  1 3 5  3 7 5"),
    "doubled": (CUBE + "  " + CUBE, ""),
    "a sliver": ("0 0 0  1 0 0  0 1 0  1 1 1e-5", ""),
    "tiny": ("0 0 0  1e-4 0 0  0 1e-4 0  0 0 1e-4", ""),
}


@each_model
@pytest.mark.parametrize("kind", ODD_MESHES)
def test_odd_meshes(model, kind):
    """What counts is the convex hull: it is simulated."""
    vertex, face = ODD_MESHES[kind]
    for inertia in ("", 'inertia="convex"', 'inertia="shell"'):
        simulate(model, mesh(vertex, face, inertia), [0, 0, 0.1, 0.9, 0.1, 0.3, 0.2], [0, 0, -1, 1, 2, 3])


HFIELD = """<mujoco><asset><hfield name="hills" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody>
  <geom name="hills" type="hfield" hfield="hills"/><body pos="0 0 2"><freejoint/><geom size="0.1"/></body>
  </worldbody></mujoco>"""


def test_height_fields_from_afar_are_named():
    with pytest.raises(pb.PullbackError, match="geom 'hills' is of type hfield, unsupported by ContactLongRange"):
        pb.Articulated(pb.load(HFIELD), pb.ContactLongRange())
    with pytest.raises(pb.PullbackError, match="geom 'hills' is a height field, unsupported by far=Far\\(\\)"):
        pb.Articulated(pb.load(HFIELD), pb.ContactConvex(far=pb.Far()))


# what a file asks for that is not simulated

CORD = '<tendon><fixed name="cord" {}><joint joint="hip" coef="1"/></fixed></tendon>'


@each_model
@pytest.mark.parametrize(
    ("attribute", "what"),
    [('range="-0.1 0.1"', "a limit"), ('frictionloss="0.5"', "friction loss")],
)
def test_limits_and_friction_loss_of_tendons_are_not_of_long_range(model, attribute, what):
    xml = scene(FLOOR + HINGE, rest=CORD.format(attribute))
    pb.Articulated(pb.load(xml), MODELS[model])
    with pytest.raises(pb.PullbackError, match=r"tendon 'cord' acts, .*ignore=\(\"tendon\",\).*contact=None"):
        pb.Articulated(pb.load(xml), "longrange")
    pb.Articulated(pb.load(xml), contact=None)
    left = pb.load(xml, ignore=("tendon",))
    assert left.ignored == ("tendon",) and not any("tendon" in line for line in left.constraints)
    pb.Articulated(left, MODELS[model])


@each_model
@pytest.mark.parametrize("element", ['joint name="tie" joint1="hip"', 'tendon name="tie" tendon1="cord"'])
def test_equalities_are_not_of_long_range(model, element):
    loaded = pb.load(scene(FLOOR + HINGE, rest=CORD.format("") + f"<equality><{element}/></equality>"))
    assert any(line.startswith("equality: equality 'tie'") for line in loaded.constraints)
    pb.Articulated(loaded, MODELS[model])
    with pytest.raises(pb.PullbackError, match=r"equality 'tie'.*ContactConvex.*ignore=\(\"equality\",\)"):
        pb.Articulated(loaded, "longrange")


def test_refined_steps_know_no_limits_of_tendons():
    loaded = pb.load(scene(FLOOR + HINGE, rest=CORD.format('range="-0.1 0.1"')))
    with pytest.raises(pb.PullbackError, match="refine.*tendon 'cord'"):
        pb.Articulated(loaded, refine=1e-3)


def test_tendons_whose_limits_are_off_do_no_harm():
    xml = scene(FLOOR + HINGE, rest=CORD.format('range="-0.1 0.1"'))
    pb.Articulated(pb.load(xml.replace("<option", '<option><flag limit="disable"/></option><option', 1)))


def test_flexes_that_may_touch_are_named():
    flex = """<flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2" radius=".01" rigid="true">
      </flexcomp>"""
    with pytest.raises(pb.PullbackError, match="flex 'cloth' may touch.*ignore=.*flex.*contact=None"):
        pb.Articulated(pb.load(scene(FLOOR + BALL + flex)))
    pb.Articulated(pb.load(scene(FLOOR + BALL + flex), ignore=("flex",)))


MIXED_SOLREF = {
    "solref of geom 'ball' is -100 1": (FLOOR + BALL.replace("mass", 'solref="-100 1" mass'), ""),
    "solref of pair 0 .geom 'floor' and geom 'ball'. is 0.02 0": (
        FLOOR + BALL,
        '<contact><pair geom1="floor" geom2="ball" solref="0.02 0"/></contact>',
    ),
    "solreffriction of pair 'feet' .geom 'floor' and geom 'ball'. is 0.02 -1": (
        FLOOR + BALL,
        '<contact><pair name="feet" geom1="floor" geom2="ball" solreffriction="0.02 -1"/></contact>',
    ),
    "solreflimit of joint 'hip' is 0.02 -1": (FLOOR + HINGE.replace("range", 'solreflimit="0.02 -1" range'), ""),
    "solreffriction of joint 'hip' is -1 1": (FLOOR + HINGE.replace("range", 'solreffriction="-1 1" range'), ""),
}


@pytest.mark.parametrize("message", MIXED_SOLREF)
def test_a_solref_of_mixed_signs_is_named(message):
    """MuJoCo replaces it by its default, with a warning that is easily missed."""
    world, rest = MIXED_SOLREF[message]
    model = pb.load(scene(world, rest=rest))
    with pytest.raises(pb.PullbackError, match=f"{message}, but must be two positive numbers"):
        pb.Articulated(model)
    pb.Articulated(model, pb.ContactImpulse())  # which has no solref


def test_a_solref_that_nothing_reads_is_not_judged():
    ghost = BALL.replace("ball", "ghost").replace("mass", 'contype="0" conaffinity="0" solref="-100 1" mass')
    system = pb.Articulated(pb.load(scene(FLOOR + BALL + ghost)))
    system.params["solref"] = system.params["solref"]
    bad = np.array(system.params["solref"])
    bad[1] = 0.02, -1.0
    with pytest.raises(pb.PullbackError, match="'solref' of 'ball' must be two positive"):
        system.params["solref"] = bad


@each_model
@pytest.mark.parametrize("condim", [1, 3])
def test_different_friction_in_two_directions(model, condim):
    pair = f'<pair name="skate" geom1="floor" geom2="ball" friction="0.1 0.8" condim="{condim}"/>'
    made = pb.load(scene(FLOOR + BALL, rest=f"<contact>{pair}</contact>"))
    if model == "convex" or condim == 1:  # a frictionless pair does not read them
        pb.Articulated(made, MODELS[model])
        return
    with pytest.raises(pb.PullbackError, match="pair 'skate' .*different friction.*0.1 and 0.8.*ContactConvex"):
        pb.Articulated(made, MODELS[model])


@pytest.mark.parametrize("model", ["impulse", "compliant"])
def test_torsional_friction_names_where_it_comes_from(model):
    ball = BALL.replace("mass", 'condim="4" mass')
    with pytest.raises(pb.PullbackError, match="geom 'ball' has condim 4, torsional and rolling"):
        pb.Articulated(pb.load(scene(FLOOR + ball)), MODELS[model])
    floor = FLOOR.replace("type", 'priority="1" condim="6" type')
    with pytest.raises(pb.PullbackError, match="geom 'floor' has condim 6, torsional and rolling"):
        pb.Articulated(pb.load(scene(floor + ball)), MODELS[model])
    pair = '<contact><pair geom1="floor" geom2="ball" condim="6"/></contact>'
    with pytest.raises(pb.PullbackError, match="pair 0 .geom 'floor' and geom 'ball'. has condim 6"):
        pb.Articulated(pb.load(scene(FLOOR + ball, rest=pair)), MODELS[model])


# states

DEEP = {
    "a ball below the floor": (FLOOR + BALL, [0, 0, -5.0, 1, 0, 0, 0]),
    "a box half in": (
        FLOOR + '<body><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body>',
        [0, 0, 0.0, 0.9, 0.3, 0.1, 0],
    ),
    "concentric balls": (BALL + BALL.replace("ball", "other"), [0, 0, 0, 1, 0, 0, 0] * 2),
    "concentric boxes": (
        '<body><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>' * 2,
        [0, 0, 0, 1, 0, 0, 0] * 2,
    ),
    "a capsule on the axis of another": (
        '<body><freejoint/><geom type="capsule" size="0.1 0.3"/></body>' * 2,
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0.1, 1, 0, 0, 0],
    ),
    "a ball in a box": (BALL + '<body><freejoint/><geom type="box" size="1 1 1"/></body>', [0, 0, 0, 1, 0, 0, 0] * 2),
}


@each_model
@pytest.mark.parametrize("kind", DEEP)
def test_deep_penetration_is_finite(model, kind):
    world, q = DEEP[kind]
    run, _ = simulate(model, scene(world), q)
    assert np.abs(run.q).max() < 1e3


@each_model
def test_states_that_are_not_finite(model):
    system = pb.Articulated(pb.load(scene(FLOOR + BALL)), MODELS[model])
    for bad in (np.nan, np.inf):
        with pytest.raises(pb.PullbackError, match="q.*finite"):
            system.step(system.state([0, 0, bad, 1, 0, 0, 0]))
        with pytest.raises(pb.PullbackError, match="v.*finite"):
            system.step(system.state(None, [0, 0, bad, 0, 0, 0]))
    with pytest.raises(pb.SimulationError, match="the state given is absurd in world 0: v of joint"):
        system.step(system.state(None, [0, 0, -1e200, 0, 0, 0]))


# room

ROW = "".join(f'<body pos="{i} 0 1"><freejoint/><geom name="b{i}" size="0.1" mass="1"/></body>' for i in range(3))


@each_model
def test_too_many_contacts_name_world_and_step(model):
    """The second world's balls start lower; its third ball is one too many."""
    contact = type(MODELS[model])(max_contacts=2)
    m = pb.load(scene(f"{FLOOR}{ROW}", timestep=0.01))
    system = pb.Articulated(m, contact, worlds=3)
    q = np.tile(m.q0, (3, 1))
    q[:, [2, 9, 16]] = [2.0, 2.0, 2.0], [0.1, 0.15, 0.2], [0.1, 2.0, 0.1]
    name = type(contact).__name__
    with pytest.raises(pb.PullbackError, match=rf"world 1 at step \d+ than the 2 that.*{name}\(max_contacts"):
        pb.rollout(system, system.state(q), steps=60)


@each_model
@pytest.mark.parametrize("count", [0, -1, 1.5, True, "many"])
def test_room_that_makes_no_sense(model, count):
    with pytest.raises(pb.PullbackError, match="max_contacts.*at least 1.*contact=None"):
        type(MODELS[model])(max_contacts=count)


@pytest.mark.parametrize("contact", ["unknown", "none", "ContactConvex", 3, True, pb.ContactConvex, object()])
def test_unknown_contact_models(contact):
    with pytest.raises(pb.PullbackError, match="contact.*is not known.*'model'.*ContactConvex"):
        pb.Articulated(pb.load(scene(FLOOR + BALL)), contact)


def test_settings_are_keywords_and_fixed():
    with pytest.raises(TypeError):
        pb.ContactImpulse(10)
    with pytest.raises(TypeError):
        pb.ContactConvex(sweeps=10)
    with pytest.raises(AttributeError):
        pb.ContactImpulse().sweeps = 3


def test_everything_that_is_refused_is_in_one_message():
    model = pb.load(
        """<mujoco><option noslip_iterations="3" integrator="RK4"/>
        <worldbody><geom name="floor" type="plane" size="1 1 1" condim="4"/>
          <body><joint name="hinge"/><geom name="ball" size="0.1" condim="6"/></body>
          <body pos="1 0 0"><joint name="other"/><geom name="second" size="0.1" condim="6"/></body></worldbody>
        <tendon><fixed name="cord" limited="true" range="0 1"><joint joint="hinge" coef="1"/></fixed>
          <fixed name="rope" limited="true" range="0 1"><joint joint="other" coef="1"/></fixed></tendon></mujoco>"""
    )
    for contact, parts in {
        pb.ContactImpulse(): ("geom 'ball' has condim 6", "(also geom 'second')"),
        pb.ContactLongRange(): ("tendon 'cord'", "(also tendon 'rope')", 'ignore=("tendon",)'),
    }.items():
        with pytest.raises(pb.PullbackError) as error:
            pb.Articulated(model, contact)
        said = str(error.value)
        for part in (*parts, "noslip_iterations", "asks for RK4", "contact=None"):
            assert part in said, said
        assert "\n" not in said


# what is hard to solve


def test_an_overlap_that_ends_the_motion_is_called_that():
    """Contact forces beyond what can be found, or a motion that is thrown out: it was the start."""
    body = '<body><freejoint/><geom name="{}" type="box" size="0.1 0.1 0.1"/></body>'
    model = pb.load(scene(FLOOR + body.format("one") + body.format("other")))
    system = pb.Articulated(model, worlds=2)
    q = np.tile(model.q0, (2, 1))
    q[:, [2, 9]] = 0.5, 1.0
    assert system.step(system.state(q)).q.shape == q.shape
    q[1, [2, 9]] = -1e7, -1e7 + 1.0
    with pytest.raises(pb.SimulationError, match="the state given is absurd in world 1: .*'one'.* overlap by"):
        pb.rollout(system, system.state(q), steps=20)


def stack(light: float, heavy: float) -> tuple[str, list]:
    """A heavy ball on a light one on the floor."""
    body = '<body><freejoint/><geom size="0.1" mass="{}"/></body>'
    q = [0, 0, 0.1 - 1e-4, 1, 0, 0, 0, 0, 0, 0.3 - 2e-4, 1, 0, 0, 0]
    return scene(FLOOR + body.format(light) + body.format(heavy)), q


@each_model
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("masses", [(1e-6, 1e6), (1e6, 1e-6), (1e-6, 1e-6), (1e6, 1e6)])
def test_extreme_masses(model, masses, dtype):
    """Solved, or, by stiff springs in float32, refused: never an answer that is not finite."""
    xml, q = stack(*masses)
    try:
        simulate(model, xml, q, dtype=dtype)
    except pb.PullbackError as error:
        assert "world 0 at step" in str(error), error
        assert dtype == "float32" and model == "compliant", error


@each_model
def test_extreme_stiffness(model):
    """A light chain on a heavy floor, with limits that fight each other."""
    world = (
        FLOOR
        + """<body pos="0 0 0.1"><joint axis="0 1 0" range="0 0.001"/><joint axis="1 0 0" range="0 0.001"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 -0.09" size="0.02" mass="1e-3"/>
      <body pos="0.3 0 -0.09"><joint type="ball" range="0 0.001"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1e3"/></body></body>"""
    )
    m = pb.load(scene(world))
    simulate(model, scene(world), m.q0 + 0.1, 10 * np.ones(5))
