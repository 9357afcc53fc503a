"""What a file says about contacts, field by field against MuJoCo's own contacts; and what is refused."""

import mujoco
import numpy as np
import pytest
from oracles import precise
from scenes import scene

import pullback as pb
from pullback.contact import Scene

TOUCHING = '<geom type="plane" size="1 1 1"/><body pos="0 0 0.09"><freejoint/><geom name="ball" size="0.1" {}/></body>'


def mixed(scene: Scene) -> dict[tuple[int, int], dict]:
    """How the contacts of each pair are parametrised, by geoms: the materials that a Scene names, mixed."""
    m = scene.model.mujoco
    own = m.geom_friction[scene.geoms][:, [0, 0, 1, 2, 2]]
    friction = np.concatenate([own, m.pair_friction[scene.explicit]])
    solref = np.concatenate([m.geom_solref[scene.geoms], m.pair_solref[scene.explicit]])
    solimp = np.concatenate([m.geom_solimp[scene.geoms], m.pair_solimp[scene.explicit]])
    found = {}
    for k, ((i, j), (a, b), share) in enumerate(
        zip(scene.pair_shapes, scene.pair_materials, scene.pair_share, strict=True)
    ):
        direct = solref[a, 0] <= 0 or solref[b, 0] <= 0
        weighted = lambda x: share * x[a] + (1 - share) * x[b]  # noqa: B023, E731
        found[tuple(sorted((int(scene.geoms[i]), int(scene.geoms[j]))))] = {
            "dim": scene.pair_dim[k],
            "includemargin": scene.pair_margin[k],
            "friction": np.maximum(np.maximum(friction[a], friction[b]), mujoco.mjMINMU),
            "solref": np.minimum(solref[a], solref[b]) if direct else weighted(solref),
            "solimp": weighted(solimp),
            "solreffriction": scene.pair_solref_friction[k],
        }
    return found


def compare_with_mujoco(xml: str) -> Scene:
    """Every pair that may touch does, in a copy of the model whose shapes lie on top of each other."""
    model = pb.load(xml)
    m, data = model.mujoco, mujoco.MjData(model.mujoco)
    mujoco.mj_forward(m, data)
    ours = Scene.of(model)
    pairs = mixed(ours)
    theirs = {tuple(sorted(map(int, pair))): k for k, pair in enumerate(data.contact.geom)}
    assert set(pairs) == set(theirs)
    assert pairs
    for pair, k in theirs.items():
        for name, value in pairs[pair].items():
            np.testing.assert_allclose(value, getattr(data.contact, name)[k], rtol=1e-14, err_msg=f"{name} of {pair}")
    return ours


def spheres(seed: int, count: int = 9) -> str:
    """Free balls in one place, on one of them a welded body and a hinged one, with everything about them random."""
    rng = np.random.default_rng(seed)

    def geom(i: int) -> str:
        direct = rng.random() < 0.3
        solref = -rng.uniform(10, 1000, 2) if direct else rng.uniform(0.02, 1, 2)
        solimp = [*rng.uniform(0.1, 0.99, 2), rng.uniform(1e-3, 0.1), rng.uniform(0.1, 0.9), rng.integers(1, 4)]
        text = lambda x: " ".join(f"{v:.17g}" for v in x)  # noqa: E731
        return (
            f'<geom name="g{i}" size="0.1" contype="{rng.integers(0, 4)}" conaffinity="{rng.integers(0, 4)}" '
            f'priority="{rng.integers(0, 2)}" solmix="{rng.choice([0, 1, rng.uniform(0.1, 5)])}" '
            f'condim="{rng.choice([1, 3, 4, 6])}" margin="{rng.uniform(0, 0.1)}" gap="{rng.uniform(0, 0.1)}" '
            f'friction="{text(rng.choice([0, 1]) * rng.uniform(0.001, 1, 3))}" solref="{text(solref)}" '
            f'solimp="{text(solimp)}"/>'
        )

    bodies = "".join(f'<body name="b{i}"><freejoint/>{geom(i)}</body>' for i in range(count - 3))
    joints = ("<freejoint/>", "", "<joint/>")
    tail = "".join(f'<body name="b{i}">{joint}{geom(i)}' for i, joint in enumerate(joints, start=count - 3))
    pairs = rng.permutation([(a, b) for a in range(count) for b in range(a)])
    explicit = "".join(
        f'<pair geom1="g{a}" geom2="g{b}" condim="{rng.choice([1, 3, 4, 6])}" margin="{rng.uniform(0, 0.1)}" '
        f'friction="{rng.uniform(0, 1)} {rng.uniform(0, 1)} 0.3 0.2 0.1" solref="0.05 0.7" solreffriction="0.03 0.9"/>'
        for a, b in pairs[:3]
    )
    excluded = "".join(f'<exclude body1="b{a}" body2="b{b}"/>' for a, b in pairs[2:6])
    return scene(bodies + tail + "</body>" * 3, rest=f"<contact>{explicit}{excluded}</contact>")


@pytest.mark.parametrize("seed", range(20))
def test_pairs_and_how_they_are_mixed(seed):
    compare_with_mujoco(spheres(seed))


def test_explicit_pairs_go_past_every_filter():
    """One body, parent and child, excluded, and bits that do not match: a pair is a pair."""
    world = """<body name="a"><freejoint/><geom name="g0" size="0.1"/><geom name="g1" size="0.1"/>
      <body name="b"><joint/><geom name="g2" size="0.1" contype="0" conaffinity="0"/></body></body>
      <body name="c"><freejoint/><geom name="g3" size="0.1" contype="0" conaffinity="0"/></body>"""
    contact = """<contact><pair geom1="g1" geom2="g2"/><pair geom1="g3" geom2="g0" condim="6"/>
      <exclude body1="a" body2="c"/></contact>"""
    found = compare_with_mujoco(scene(world, rest=contact))
    assert len(found.pair_dim) == 2 and found.rows == 6


def test_pairs_that_are_listed_twice_make_contacts_twice():
    """As in MuJoCo 4: the Shadow hand's thumb has such pairs. ContactLongRange has one potential for two shapes."""
    balls = "".join(f'<body pos="0 0 {z}"><freejoint/><geom name="g{z}" size="0.1"/></body>' for z in (0.09, 0.27))
    pair = '<pair geom1="{}" geom2="g0.09" condim="{}" solref="{} 1"/>'
    pairs = [("g0.27", 3, 0.02), ("g0.27", 1, 0.05), ("floor", 3, 0.02), ("floor", 4, 0.03), ("floor", 3, 0.04)]
    twice = f"<contact>{''.join(pair.format(*each) for each in pairs)}</contact>"
    model = pb.load(scene('<geom name="floor" type="plane" size="1 1 1"/>' + balls, rest=twice))
    system = pb.Articulated(model)
    m = precise(model.mujoco)
    data = mujoco.MjData(m)
    rng = np.random.default_rng(0)
    for _ in range(5):
        v = 0.1 * rng.normal(size=system.nv)
        data.qpos[:], data.qvel[:] = model.home.q, v
        mujoco.mj_step(m, data)
        assert data.ncon == 5
        assert np.allclose(system.step(system.state(v=v)).v[0], data.qvel, rtol=0, atol=1e-9)
    report = pb.check_system(system, system.state(v=v))
    assert all(report[name].largest > 1e-6 for name in ("pair_friction", "pair_solref"))
    with pytest.raises(pb.PullbackError, match="geom 'floor' and geom 'g0.09'.*listed 3 times"):
        pb.Articulated(model, pb.ContactLongRange())


@pytest.mark.parametrize("flag", ["", 'filterparent="disable"'])
def test_parents_and_children(flag):
    world = """<geom name="ground" size="0.1"/><body><geom name="stand" size="0.1"/>
      <body><joint/><geom name="upper" size="0.1"/><body><joint/><geom name="lower" size="0.1"/>
      <body><geom name="hand" size="0.1"/></body></body></body></body>"""
    found = compare_with_mujoco(scene(world, flag=flag))
    assert len(found.pair_dim) == (8 if flag else 6)  # what is fixed to the world meets all that moves


def test_the_gap_is_no_part_of_the_margin():
    """A contact is listed within margin and gap, and pushes within the margin."""
    floor = '<geom type="plane" size="1 1 1" margin="0.01" gap="0.02"/>'
    world = floor + '<body pos="0 0 {}"><freejoint/><geom size="0.1"/></body>'
    for height, pushes in ((0.1095, True), (0.1105, False)):
        model = pb.load(scene(world.format(height)))
        data = mujoco.MjData(model.mujoco)
        mujoco.mj_forward(model.mujoco, data)
        system = pb.Articulated(model)
        state = system.state(None, [0, 0, -5.0, 0, 0, 0])
        assert data.ncon == 1
        assert (data.nefc > 0) == pushes
        assert (system.step(state).v[0, 2] > -5.0) == pushes


def test_what_is_switched_off_is_not_there():
    world = f"{TOUCHING.format('')}<body><joint range='-1 1' frictionloss='1'/><geom size='0.1' pos='3 0 0'/></body>"
    counts = lambda s: (len(s.pair_dim), len(s.limited), len(s.lossy))  # noqa: E731
    assert counts(Scene.of(pb.load(scene(world)))) == (3, 1, 1)
    for flag, left in (("contact", (0, 1, 1)), ("limit", (3, 0, 1)), ("frictionloss", (3, 1, 0))):
        assert counts(Scene.of(pb.load(scene(world, flag=f'{flag}="disable"')))) == left
    model = pb.load(scene(world, flag='constraint="disable"'))
    assert model.constraints == () and counts(Scene.of(model)) == (0, 0, 0)
    system = pb.Articulated(model)
    assert system.contact is None
    # asked for, but with nothing to do: the motion without contacts
    forced = pb.Articulated(model, contact=pb.ContactConvex())
    np.testing.assert_allclose(forced.step(forced.state()).v, system.step(system.state()).v, rtol=1e-14)


# what is refused

HFIELD = """<mujoco><asset><hfield name="hills" nrow="400" ncol="300" size="1 1 1 1"/></asset><worldbody>
  <geom name="hills" type="hfield" hfield="hills"/><body pos="0 0 2"><freejoint/><geom size="0.1"/></body>
  </worldbody></mujoco>"""
REFUSED = {
    "height field": (HFIELD, "geom 'hills' is a height field of more than 100,000 cells.*contact=None"),
    "adhesion": (scene(TOUCHING.format('adhesion="1"')), "geom 'ball' has adhesion"),
    "surface velocity": (scene(TOUCHING.format('surfacevel="1 0 0"')), "geom 'ball' has a surface velocity"),
    "override": (scene(TOUCHING.format(""), flag='override="enable"'), "overrides contact parameters"),
    "exact diagonal": (scene(TOUCHING.format(""), flag='diagexact="enable"'), "exact diagonals"),
    "speculative": (scene(TOUCHING.format(""), flag='speculative="enable"'), "speculative"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_simulated_is_named(kind):
    xml, message = REFUSED[kind]
    model = pb.load(xml)
    with pytest.raises(pb.PullbackError, match=message):
        pb.Articulated(model)
    assert pb.Articulated(model, contact=None).contact is None


def test_a_shape_that_touches_nothing_may_be_anything():
    xml = HFIELD.replace('type="hfield"', 'type="hfield" contype="0" conaffinity="0"')
    assert pb.Articulated(pb.load(xml)).contact is None


# room

ROW = "".join(f'<body pos="{i} 0 1"><freejoint/><geom name="b{i}" size="0.1"/></body>' for i in range(3))


def test_too_many_contacts_name_world_and_step():
    """Balls fall one after the other; in the second world they start lower, and the third ball is one too many."""
    model = pb.load(scene(f'<geom type="plane" size="9 9 1"/>{ROW}', timestep=0.01))
    system = pb.Articulated(model, contact=pb.ContactConvex(max_contacts=2), worlds=3)
    q = np.tile(model.q0, (3, 1))
    q[:, [2, 9, 16]] = [2.0, 2.0, 2.0], [0.1, 0.15, 0.2], [0.1, 2.0, 0.1]
    with pytest.raises(pb.PullbackError, match=r"in world 1 at step (\d+) than the 2 that.*max_contacts") as error:
        pb.rollout(system, system.state(q), steps=60)
    step = int(str(error.value).split("at step ")[1].split()[0])
    roomy = pb.Articulated(model, worlds=3)
    height = pb.rollout(roomy, roomy.state(q), steps=60).q[:, 1, 16]
    assert height[step] < 0.1 <= height[step - 1]  # the state at which the third touches
    enough = pb.Articulated(model, contact=pb.ContactConvex(max_contacts=3), worlds=3)
    np.testing.assert_array_equal(
        pb.rollout(enough, enough.state(q), steps=60).q, pb.rollout(roomy, roomy.state(q), steps=60).q
    )


def test_there_is_room_for_what_a_model_can_need():
    """A box on a floor: four contacts, which is its bound."""
    model = pb.load(scene('<geom type="plane" size="1 1 1"/><body><freejoint/><geom type="box" size="1 1 1"/></body>'))
    system = pb.Articulated(model)
    assert system.max_contacts == 4
    system.step(system.state([0, 0, 0.99, 1, 0, 0, 0]))
    with pytest.raises(pb.PullbackError, match="than the 3 that the workspace holds"):
        few = pb.Articulated(model, contact=pb.ContactConvex(max_contacts=3))
        few.step(few.state([0, 0, 0.99, 1, 0, 0, 0]))


# bad parameters

BAD = {
    "friction": ("friction", (1, 0), -0.1, "'friction' of 'ball'.*negative"),
    "size": ("geom_size", (1, 0), 0.0, "'geom_size' of 'ball'.*positive"),
    "quat": ("geom_quat", (1, slice(None)), 0.0, "'geom_quat' of 'ball'.*no direction"),
    "solref": ("solref", (1, 0), -1.0, "'solref' of 'ball'.*two positive|'solref'.*two positive"),
    "range": ("joint_range", (1, 0), 9.0, "'joint_range' of 'hip'.*lower limit first"),
    "loss": ("frictionloss", 6, -1.0, "'frictionloss'.*negative"),
    "nan": ("solimp", (1, 2), np.nan, "'solimp'.*not finite"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_parameters_are_named(kind):
    name, where, value, message = BAD[kind]
    joint = '<body><joint name="hip" range="-1 1" frictionloss="1"/><geom size="0.1" pos="3 0 0"/></body>'
    system = pb.Articulated(pb.load(scene(TOUCHING.format("") + joint)))
    bad = np.array(system.params[name])
    bad[where] = value
    with pytest.raises(pb.PullbackError, match=message):
        system.step(system.state(), None, {name: bad})
    with pytest.raises(pb.PullbackError, match=message):
        system.params[name] = bad
