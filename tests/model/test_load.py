"""``load`` against MuJoCo's compiled fields, and an error for each thing a Model cannot hold."""

import dataclasses

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pullback.core.errors import PullbackError
from pullback.model import BALL, FREE, HINGE, SLIDE, Model, load

ROBOT = """
<mujoco model="robot">
  <compiler angle="radian"/>
  <option timestep="0.004" gravity="0 0.5 -9.5" density="1.2" viscosity="0.1" wind="1 0 0" {option}>
    <flag {flag}/></option>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" {floor}/>
    <camera name="eye" pos="0 -3 1" quat="0.9 0.1 0 0"/>
    <body name="torso" pos="0 0 1" {torso}>
      <freejoint name="root"/>
      <geom name="chest" type="box" size="0.2 0.1 0.3" pos="0.02 0.01 0" euler="0.1 0.2 0.3"/>
      <geom name="lump" type="sphere" size="0.1" pos="0.2 0 0.2"/>
      <site name="imu" pos="0 0 0.1" quat="1 1 0 0"/>
      <body name="thigh" pos="0.1 0 -0.3" quat="0.8 0 0.6 0">
        <joint name="hip" type="ball" damping="0.3" stiffness="2" {hip}/>
        <geom name="thigh" type="capsule" size="0.05" fromto="0 0 0 0 0 -0.3"/>
        <body name="shin" pos="0 0 -0.35" gravcomp="0.25" {shin}>
          <joint name="knee" pos="0 0 0.02" axis="0 2 0" armature="0.01" damping="0.5" stiffness="3"
            springref="0.2" ref="0.1" {knee}/>
          <joint name="shift" type="slide" axis="1 0 1" actuatorfrcrange="-4 5"/>
          <geom name="shin" type="capsule" size="0.04" fromto="0 0 0 0.05 0 -0.3"/>
          <site name="heel" pos="-0.05 0 -0.3"/>
          <body pos="0 0 -0.3"><geom name="sole" type="box" size="0.1 0.05 0.02"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  {tendon}
  <actuator>
    <motor name="push" joint="root" gear="1 2 3 0.1 0.2 0.3"/>
    <motor name="twist" jointinparent="hip" gear="1 0 2"/>
    <position name="servo" joint="knee" kp="20" kv="2" gear="3" ctrlrange="-1 1" forcerange="-6 7" group="3"/>
    <velocity name="speed" joint="shift" kv="4"/>
    <damper name="brake" joint="knee" kv="5" ctrlrange="0 1"/>
    <motor joint="shift" gear="2" armature="0.1" damping="0.2"/>
    {actuator}
  </actuator>
  {rest}
  <keyframe>
    <key name="home" qpos="0 0 2 1 0 0 0 1 0 0 0 0.3 0.1" qvel="1 2 3 4 5 6 7 8 9 10 11" ctrl="{controls}"/>
    <key qpos="0 0 3 0 1 0 0 0 0 1 0 0 0"/>
  </keyframe>
</mujoco>"""
SLOTS = "option flag floor torso hip shin knee tendon actuator rest".split()
ROUND = '<tendon><spatial name="rope" {}><site site="imu"/><geom geom="lump"/><site site="heel"/></spatial></tendon>'
ROPE = '<tendon><spatial name="rope" {}><site site="imu"/><site site="heel"/></spatial></tendon>'
TENDON = '<tendon><fixed name="cord" {}><joint joint="knee" coef="1"/></fixed></tendon>'


def xml(controls=6, **parts) -> str:
    filled = {slot: parts.get(slot, "") for slot in SLOTS}
    return ROBOT.format(**filled, controls=" ".join(str(i) for i in range(controls)))


def compiled(**parts) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(xml(**parts))


def mass_matrix(m: mujoco.MjModel) -> np.ndarray:
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    mass = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, mass)
    return mass


def refused(match: str, ignore: str | None = None, source=None, **parts) -> Model | None:
    """Loading fails with a message that matches and offers ``ignore``; with that, it succeeds."""
    source = xml(**parts) if source is None else source
    with pytest.raises(PullbackError, match=match) as caught:
        load(source)
    assert "\n" not in str(caught.value)
    if ignore is None:
        assert "ignore=" not in str(caught.value)
        return None
    assert f'ignore=("{ignore}",)' in str(caught.value)
    return load(source, ignore=(ignore,))


# fields


def test_fields_are_those_of_mujoco():
    model, m = load(xml()), compiled()
    assert (model.nq, model.nv, model.nu, model.nbody, model.njoint) == (m.nq, m.nv, m.nu, m.nbody, m.njnt)
    assert model.body_names == ("world", "torso", "thigh", "shin", "body 4")
    assert model.joint_names == ("root", "hip", "knee", "shift")
    assert model.actuator_names == ("push", "twist", "servo", "speed", "brake", "actuator 5")
    assert model.joint_type.tolist() == [FREE, BALL, HINGE, SLIDE]
    for ours, theirs in {
        "body_parent": "body_parentid", "body_pos": "body_pos", "body_quat": "body_quat", "body_mass": "body_mass",
        "body_com": "body_ipos", "body_gravcomp": "body_gravcomp", "joint_body": "jnt_bodyid",
        "joint_q": "jnt_qposadr", "joint_v": "jnt_dofadr", "joint_pos": "jnt_pos", "joint_axis": "jnt_axis",
        "joint_stiffness": "jnt_stiffness", "joint_force_limited": "jnt_actfrclimited",
        "joint_force_range": "jnt_actfrcrange", "q0": "qpos0", "q_spring": "qpos_spring",
        "actuator_gear": "actuator_gear", "control_limited": "actuator_ctrllimited",
        "control_range": "actuator_ctrlrange", "force_limited": "actuator_forcelimited",
        "force_range": "actuator_forcerange", "fluid_quat": "body_iquat",
    }.items():  # fmt: skip
        assert_array_equal(getattr(model, ours), getattr(m, theirs), err_msg=ours)
    assert (model.timestep, model.integrator, model.implicit_damping) == (0.004, "euler", True)
    assert (model.fluid_density, model.fluid_viscosity) == (1.2, 0.1)
    assert_array_equal(model.gravity, [0, 0.5, -9.5])
    assert_array_equal(model.wind, [1, 0, 0])


def test_arrays_are_read_only_and_of_exact_type():
    model = load(xml())
    integers = {
        "body_parent",
        "joint_type",
        "joint_body",
        "joint_q",
        "joint_v",
        "actuator_joint",
        "actuator_tendon",
        "actuator_site",
        "joint_lift",
        "actuator_reference",
        "actuator_body",
    }
    booleans = {"joint_force_limited", "actuator_in_parent", "control_limited", "force_limited"}
    arrays = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
    arrays = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    assert len(arrays) > 30
    for name, value in arrays.items():
        expected = np.int32 if name in integers else bool if name in booleans else np.float64
        assert value.dtype == expected, name
        assert not value.flags.writeable, name
    for frames in (model.geoms, model.sites, model.cameras):
        assert not frames.pos.flags.writeable and frames.body.dtype == np.int32
    assert not model.home.q.flags.writeable


def test_inertia_is_about_the_com_in_body_axes():
    model, m = load(xml()), compiled()
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    for b in range(1, m.nbody):
        world = data.ximat[b].reshape(3, 3) @ np.diag(m.body_inertia[b]) @ data.ximat[b].reshape(3, 3).T
        axes = data.xmat[b].reshape(3, 3)
        expected = axes.T @ world @ axes
        xx, yy, zz, xy, xz, yz = model.body_inertia[b]
        assert_allclose([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], expected, atol=1e-14)
    assert abs(model.body_inertia[1, 3:]).max() > 1e-3  # the check would pass on diagonal matrices alone


def test_fluid_box_of_a_box_is_the_box():
    box = '<mujoco><worldbody><body><freejoint/><geom type="box" size=".1 .2 .3"/></body></worldbody></mujoco>'
    model = load(box)
    assert_allclose(np.sort(model.fluid_box[1]), [0.2, 0.4, 0.6], rtol=1e-12)
    assert_array_equal(model.fluid_box[0], 0)


def test_actuators():
    model, m = load(xml()), compiled()
    assert model.actuator_joint.tolist() == [0, 1, 2, 3, 2, 3]
    assert model.actuator_in_parent.tolist() == [False, True, False, False, False, False]
    assert_array_equal(model.actuator_gain[2:5], [[20, 0, 0], [4, 0, 0], [0, 0, -5]])
    assert_array_equal(model.actuator_bias[2:5], [[0, -20, -2], [0, 0, -4], [0, 0, 0]])
    data = mujoco.MjData(m)
    rng = np.random.default_rng(0)
    mujoco.mj_integratePos(m, data.qpos, rng.normal(size=m.nv), 0.3)
    data.qvel, data.ctrl = rng.normal(size=m.nv), 2 * rng.normal(size=m.nu)
    mujoco.mj_forward(m, data)
    control = np.where(model.control_limited, np.clip(data.ctrl, *model.control_range.T), data.ctrl)
    terms = np.stack([np.ones(m.nu), data.actuator_length, data.actuator_velocity], axis=1)
    force = (model.actuator_gain * terms).sum(1) * control + (model.actuator_bias * terms).sum(1)
    force = np.where(model.force_limited, np.clip(force, *model.force_range.T), force)
    assert_allclose(force, data.actuator_force, atol=1e-12)


@pytest.mark.parametrize("joint", ["root", "hip", "knee", "shift"])
def test_actuator_armature_and_damping_are_reflected_onto_the_joint(joint):
    extra = f'<motor joint="{joint}" gear="3 1" armature="0.5" damping="0.25"/>'
    extra += f'<motor joint="{joint}" gear="2" armature="0.1" damping="0.05" group="4"/>'
    parts = {"actuator": extra, "controls": 8, "option": 'actuatorgroupdisable="4"'}
    model, m = load(xml(**parts)), compiled(**parts)
    plain = compiled()
    added = np.diag(mass_matrix(m) - mass_matrix(plain))
    assert_allclose(model.dof_armature - load(xml()).dof_armature, added, atol=1e-12)
    assert added.max() == pytest.approx(4.9)
    data = mujoco.MjData(m)
    data.qvel = 1
    mujoco.mj_forward(m, data)
    assert_allclose(model.dof_damping, -data.qfrc_damper, atol=1e-12)


def test_frames_and_keyframes():
    model, m = load(xml()), compiled()
    assert model.geoms.names == ("floor", "chest", "lump", "thigh", "shin", "sole")
    assert_array_equal(model.geoms.body, m.geom_bodyid)
    assert_array_equal(model.geoms.quat, m.geom_quat)
    assert model.sites.names == ("imu", "heel") and model.cameras.names == ("eye",)
    assert_allclose(model.sites.quat[0], np.array([1, 1, 0, 0]) / np.sqrt(2))
    assert set(model.keyframes) == {"home", "key 1"}
    assert_array_equal(model.home.q, [0, 0, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0.3, 0.1])
    assert_array_equal(model.home.v, np.arange(1, 12))
    assert_array_equal(model.home.control, np.arange(6))


def test_every_kind_of_source_gives_the_same_model(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(xml())
    spec = mujoco.MjSpec.from_string(xml())
    models = [load(source) for source in (xml(), path, str(path), spec, spec.copy().compile())]
    for model in models[1:]:
        assert_array_equal(model.body_inertia, models[0].body_inertia)
        assert model.constraints == models[0].constraints


def test_the_users_objects_are_left_alone():
    spec = mujoco.MjSpec.from_string('<mujoco><compiler fusestatic="true"/>' + xml().split('"radian"/>')[1])
    before = len(spec.bodies)
    load(spec)
    assert len(spec.bodies) == before
    m = compiled()
    model = load(m)
    m.body_mass[1] = 77
    m.opt.timestep = 1
    assert model.mujoco.body_mass[1] != 77 and model.body_mass[1] != 77 and model.mujoco.opt.timestep == 0.004


def test_a_model_without_joints_loads():
    model = load("<mujoco><worldbody><geom size='1'/><body name='mark' mocap='true'/></worldbody></mujoco>")
    assert (model.nq, model.nv, model.nu) == (0, 0, 0) and model.body_pos.shape == (2, 3)
    assert model.constraints == () and model.joint_axis.shape == (0, 3) and model.actuator_gear.shape == (0, 6)


# flags


def test_disable_flags():
    model = load(xml(flag='spring="disable"'))
    assert not model.joint_stiffness.any() and model.dof_damping.any() and model.body_gravcomp.any()
    model = load(xml(flag='damper="disable"'))
    assert not model.dof_damping.any() and model.joint_stiffness.any() and model.fluid_density == 1.2
    # with both off, MuJoCo computes no passive force at all
    model = load(xml(flag='spring="disable" damper="disable"'))
    assert not model.body_gravcomp.any() and model.fluid_density == model.fluid_viscosity == 0
    assert_array_equal(load(xml(flag='gravity="disable"')).gravity, 0)
    assert not load(xml(flag='clampctrl="disable"')).control_limited.any()
    assert not load(xml(flag='eulerdamp="disable"')).implicit_damping
    model = load(xml(flag='actuation="disable"'))
    assert not model.actuator_gain.any() and not model.actuator_bias.any() and not model.force_limited.any()
    assert model.nu == 6 and model.dof_armature[-1] == pytest.approx(0.4)  # a rotor turns whether driven or not


def test_passive_forces_vanish_together_in_mujoco():
    m = compiled(flag='spring="disable" damper="disable"')
    data = mujoco.MjData(m)
    data.qvel = 1
    mujoco.mj_forward(m, data)
    assert not data.qfrc_passive.any()


def test_disabled_actuator_group_gives_no_force():
    model = load(xml(option='actuatorgroupdisable="3"'))
    assert not model.actuator_gain[2].any() and not model.actuator_bias[2].any()
    assert model.actuator_gain[3].any()
    # unsupported, but switched off
    motor = '<motor name="late" joint="knee" delay="0.02" nsample="10" group="3"/>'
    assert load(xml(actuator=motor, controls=7, option='actuatorgroupdisable="3"')).nu == 7


def test_disabled_group_is_still_clamped_to_the_force_range():
    """As in MuJoCo, where the zero force of a disabled actuator is pulled into its range."""
    parts = {
        "actuator": '<motor name="odd" joint="knee" forcerange="1 2" group="5"/>',
        "controls": 7,
        "option": 'actuatorgroupdisable="5"',
    }
    model, m = load(xml(**parts)), compiled(**parts)
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    assert data.actuator_force[6] == 1
    assert model.force_limited[6] and np.clip(0, *model.force_range[6]) == 1 and not model.actuator_gain[6].any()


@pytest.mark.parametrize("name", ["Euler", "implicitfast", "implicit", "RK4"])
def test_integrators(name):
    m = load(xml(option=f'integrator="{name}"'), ignore=("fluid",))
    assert m.integrator == name.lower()


def test_an_unsupported_integrator_names_others():
    refused('integrator "discrete".*implicitfast', option='integrator="discrete"')


# what a Model cannot hold

ACTUATORS = {
    "dynamics of type user": '<general name="bad" joint="knee" dyntype="user"/>',
    "user": '<general name="bad" joint="knee" gaintype="user"/>',
    "user ": '<general name="bad" joint="knee" biastype="user"/>',
    "joints that limit": '<adhesion name="bad" body="shin" ctrlrange="0 1"/>',
}


@pytest.mark.parametrize("reason", ACTUATORS)
def test_unsupported_actuators_keep_their_control_when_ignored(reason):
    parts = {"actuator": ACTUATORS[reason], "controls": 7}
    model = refused(f"actuator 'bad'.*{reason.strip()}", "actuator", **parts)
    assert model.nu == 7 and model.actuator_names[6] == "bad"
    for field in ("actuator_gear", "actuator_gain", "actuator_bias", "force_limited"):
        assert not getattr(model, field)[6].any(), field
    assert model.actuator_gain[3, 0] == 4  # the others are as they were


@pytest.mark.parametrize(
    ("element", "controls"),
    [
        ('<pid name="bad" joint="knee" kp="1" delay="0.01" nsample="5"/>', 2),
        ('<orientation name="bad" joint="hip" kp="1" delay="0.01" nsample="5"/>', 3),
    ],
)
def test_actuators_with_several_controls(element, controls):
    model = refused("actuator 'bad'", "actuator", actuator=element, controls=6 + controls)
    assert model.nu == 6 + controls and model.actuator_names[6:] == tuple(f"bad[{k}]" for k in range(controls))
    assert not model.actuator_gain[6:].any() and model.home.control.shape == (6 + controls,)


def test_history_without_delay_is_harmless():
    assert load(xml(actuator='<motor joint="knee" nsample="10"/>', controls=7)).nu == 7


def test_position_feedback_on_a_ball_that_mujoco_does_not_wrap_loads():
    extra = '<general name="ok" joint="hip" gainprm="10" biastype="affine" biasprm="0 -9 0"/>'
    assert load(xml(actuator=extra, controls=7)).actuator_bias[6, 1] == -9


def test_velocity_feedback_on_ball_and_free_joints_with_implicitfast():
    for joint in ("hip", "root"):
        extra = f'<velocity name="ok" joint="{joint}" kv="2"/>'
        source = xml(actuator=extra, controls=7, option='integrator="implicitfast"')
        assert load(source.replace('density="1.2" viscosity="0.1"', "")).actuator_bias[6, 2] == -2


def test_actuator_plugin():
    extension = '<extension><plugin plugin="mujoco.pid"/></extension>'
    plugin = '<plugin name="bad" joint="knee" plugin="mujoco.pid"/>'
    try:
        compiled(rest=extension, actuator=plugin, controls=7)
    except ValueError:
        pytest.skip("MuJoCo was built without its plugins")
    model = refused("actuator 'bad' is driven by a plugin", "plugin", rest=extension, actuator=plugin, controls=7)
    assert model.nu == 7 and not model.actuator_gain[6].any()


def test_body_plugin():
    m = compiled()
    m.body_plugin[2] = 0
    refused("body 'thigh'.*plugin", "plugin", source=m)


def test_equality():
    weld = '<equality><weld name="glue" body1="shin" {}/></equality>'
    assert "equality: equality 'glue' (weld)" in load(xml(rest=weld.format(""))).constraints
    off = {"rest": weld.format('active="false"')}, *({"rest": weld.format(""), "flag": f'{flag}="disable"'} for flag in
           ("equality", "constraint"))  # fmt: skip
    for parts in off:
        assert not any("glue" in line for line in load(xml(**parts)).constraints)
    relation = '<equality><tendon name="follow" tendon1="rope"/></equality>'
    for kind in (ROPE, ROUND):
        assert "equality: equality 'follow' (tendon)" in load(xml(tendon=kind.format(""), rest=relation)).constraints


@pytest.mark.parametrize("attribute", ["stiffness", "damping", "armature"])
def test_tendon_that_moves_things(attribute):
    around = () if attribute == "armature" else (ROUND,)  # MuJoCo's compiler refuses that of those that wrap
    for kind in (TENDON, ROPE, *around):
        model = load(xml(tendon=kind.format(f'{attribute}="1"')))
        assert getattr(model.tendons, attribute) == [1] and model.acting_tendons == [0]
        assert not load(xml(tendon=kind.format(f'{attribute}="1"')), ignore=("tendon",)).acting_tendons.size


def test_tendons_that_are_not_linear():
    curved = TENDON.format('stiffness="1 2 3" damping="4 5 6"')
    model = load(xml(tendon=curved))
    assert model.tendons.stiffness_poly.tolist() == [[2, 3]] and model.tendons.damping_poly.tolist() == [[5, 6]]
    linear = load(xml(tendon=curved), ignore=("spring-poly", "damping-poly")).tendons
    assert not linear.stiffness_poly.any() and not linear.damping_poly.any() and linear.stiffness == [1]
    refused(
        "tendon 'cord' has a spring that yields", "spring-yield", tendon=TENDON.format('stiffness="1" springyield="1"')
    )


@pytest.mark.parametrize(
    ("kind", "line"),
    [("equality", "equality: "), ("limit", "limit: "), ("frictionloss", "friction loss: "), ("contact", "contact: ")],
)
def test_constraints_are_switched_off_by_kind(kind, line):
    mimic = '<equality><joint name="mimic" joint1="knee"/></equality>'
    parts = {"rest": mimic, "knee": 'range="-1 1" limited="true" frictionloss="0.1"'}
    lines, left = load(xml(**parts)).constraints, load(xml(**parts), ignore=(kind,)).constraints
    assert any(x.startswith(line) for x in lines)
    assert left == tuple(x for x in lines if not x.startswith(line))


def test_rotors_of_actuators_on_tendons():
    parts = {"actuator": '<motor tendon="cord" gear="3" armature="0.1" damping="0.2"/>', "controls": 7}
    model = load(xml(tendon=TENDON.format('armature="1"'), **parts))
    assert model.actuator_tendon.tolist() == [-1] * 6 + [0]
    np.testing.assert_allclose([*model.tendons.armature, *model.tendons.damping], [1.9, 1.8])


def test_tendon_limits_are_constraints():
    tendon = TENDON.format('range="-1 1" frictionloss="0.5"')
    lines = load(xml(tendon=tendon)).constraints
    assert "limit: tendon 'cord' between -1 and 1" in lines and "friction loss: tendon 'cord' 0.5" in lines
    assert not any("tendon" in line for line in load(xml(tendon=tendon), ignore=("tendon",)).constraints)
    assert not any("tendon" in line for line in load(xml(tendon=TENDON.format(""))).constraints)


def test_nonlinear_springs_and_dampers():
    slide = '<mujoco><worldbody><body name="b"><joint name="j" {}/><geom size=".1"/></body></worldbody></mujoco>'
    curved = slide.format('stiffness="1 2 3" damping="4 5 6"')
    model = load(curved)
    assert [*model.joint_stiffness, *model.joint_stiffness_poly[0]] == [1, 2, 3]
    assert [*model.dof_damping, *model.dof_damping_poly[0]] == [4, 5, 6]
    linear = load(curved, ignore=("spring-poly", "damping-poly"))
    assert [*linear.joint_stiffness, *linear.dof_damping] == [1, 4]
    assert not linear.joint_stiffness_poly.any() and not linear.dof_damping_poly.any()
    off = curved.replace("<worldbody>", '<option><flag spring="disable" damper="disable"/></option><worldbody>')
    assert not load(off).joint_stiffness_poly.any() and not load(off).dof_damping_poly.any()
    model = refused("joint 'j'.*yields", "spring-yield", source=slide.format('stiffness="1" springyield="1"'))
    assert model.joint_stiffness.tolist() == [1]
    motor = '<actuator><motor joint="j" gear="3" damping="0 1"/></actuator></mujoco>'
    reflected = load(slide.format('damping="4 5 6"').replace("</mujoco>", motor))
    assert reflected.dof_damping_poly.tolist() == [[14, 6]]


def test_gravity_compensation_that_counts_as_actuator_force():
    assert not load(xml(knee='actuatorgravcomp="true"')).joint_lift.any()  # nothing clamps it
    knee = 'actuatorgravcomp="true" actuatorfrcrange="-1 1"'
    at = load(xml()).joint_names.index("knee")
    assert load(xml(knee=knee)).joint_lift[at] == 1
    assert load(xml(knee='actuatorgravcomp="true"', flag='actuation="disable"')).joint_lift[at] == 2
    assert not load(xml(knee=knee), ignore=("actuatorgravcomp",)).joint_lift.any()
    assert load(xml(knee=knee, flag='gravity="disable"')).joint_lift[at] == 1  # of no weight


def test_fluid():
    dry, wet = (load(xml(), ignore=ignore) for ignore in (("fluid",), ()))
    assert dry.fluid_density == dry.fluid_viscosity == 0 < wet.fluid_density
    default = '<default><geom fluidshape="{}"/></default>'
    boxes, none = (load(xml(rest=default.format(shape))) for shape in ("none", "ellipsoid"))
    assert np.all(boxes.fluid_box[1:] > 0) and not none.fluid_box.any()


def test_flex():
    flex = """<mujoco><worldbody><flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2"
      radius=".01" rigid="{}"><edge equality="{}"/></flexcomp></worldbody></mujoco>"""
    model = refused("flex 'cloth' keeps the lengths", "flex", source=flex.format("false", "true"))
    assert model.nv == 27 and model.constraints == ()
    assert load(flex.format("true", "false")).nv == 0


def test_sleep():
    refused("sleep", "sleep", flag='sleep="enable"')


def test_one_error_names_every_kind():
    parts = {"tendon": TENDON.format('stiffness="1" springyield="1"'), "actuator": ACTUATORS["user"], "controls": 7}
    with pytest.raises(PullbackError, match="'cord'.*'bad'") as caught:
        load(xml(**parts))
    assert 'ignore=("spring-yield", "actuator")' in str(caught.value)
    with pytest.raises(PullbackError, match="'bad'") as caught:
        load(xml(**parts), ignore=("spring-yield",))
    assert "cord" not in str(caught.value)
    assert load(xml(**parts), ignore=("spring-yield", "actuator")).nu == 7


def test_unknown_kinds_are_refused():
    with pytest.raises(PullbackError, match="'gravity'.*equality.*tendon.*sleep"):
        load(xml(), ignore=("gravity",))
    with pytest.raises(PullbackError, match=r'ignore=\("tendon",\)'):
        load(xml(), ignore="tendon")


# constraints


def test_constraints_are_listed():
    lines = load(xml(knee='range="-1 2" frictionloss="0.25"')).constraints
    assert lines[0] == "limit: joint 'knee' between -1 and 2"
    assert lines[1] == "friction loss: joint 'knee' 0.25"
    # five shapes on the floor, chest and lump with shin and sole; thigh is next to both
    assert lines[2] == "contact: 9 geom pairs may touch, e.g. 'floor' and 'chest'"
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("flag", "gone"), [("limit", "limit:"), ("frictionloss", "friction"), ("contact", "contact"), ("constraint", "")]
)
def test_constraints_respect_flags(flag, gone):
    parts = {"knee": 'range="-1 2" frictionloss="0.25"'}
    before, after = load(xml(**parts)).constraints, load(xml(flag=f'{flag}="disable"', **parts)).constraints
    assert after == tuple(line for line in before if not line.startswith(gone))
    assert len(after) < len(before)


def pair_count(**parts) -> int:
    lines = [line for line in load(xml(**parts)).constraints if line.startswith("contact")]
    return int(lines[0].split()[1]) if lines else 0


def test_contact_filters():
    assert pair_count() == 9
    assert pair_count(floor='contype="0" conaffinity="0"') == 4
    assert pair_count(flag='filterparent="disable"') == 9 + 2 + 2
    assert pair_count(rest='<contact><exclude body1="torso" body2="shin"/></contact>') == 7
    assert pair_count(rest='<contact><pair geom1="chest" geom2="thigh"/></contact>') == 10
    assert pair_count(rest='<contact><pair geom1="chest" geom2="shin"/></contact>') == 9
    assert pair_count(rest='<default><geom contype="0" conaffinity="0"/></default>') == 0


def test_contacts_that_mujoco_finds_are_among_those_counted():
    """Collapse the robot so that everything overlaps, and see which pairs MuJoCo reports."""
    from pullback.model.constraints import touching_pairs

    m = compiled()
    m.body_pos[:] = 0
    m.geom_pos[1:] = 0
    m.opt.o_margin = 1
    data = mujoco.MjData(m)
    data.qpos[2] = 0
    mujoco.mj_forward(m, data)
    found = {tuple(sorted(pair)) for pair in data.contact.geom.tolist()}
    assert found == {tuple(pair) for pair in touching_pairs(m).tolist()}


# numbers


def edited(**fields) -> mujoco.MjModel:
    m = compiled()
    for name, (index, value) in fields.items():
        getattr(m, name)[index] = value
    return m


@pytest.mark.parametrize(
    ("field", "index", "value", "message"),
    [
        ("body_mass", 2, -1, "body 'thigh' has a negative mass"),
        ("body_mass", 2, np.nan, "body 'thigh'.*body_mass.*not finite"),
        ("body_inertia", 4, -1, "body 4 has a negative moment"),
        ("body_inertia", 3, [1, 1, 3], "body 'shin'.*sum of the other two"),
        ("body_quat", 1, 0, "body 'torso' has a zero quaternion in body_quat"),
        ("body_iquat", 1, 0, "body 'torso' has a zero quaternion in body_iquat"),
        ("body_pos", 3, np.inf, "body 'shin'.*body_pos"),
        ("geom_quat", 1, 0, "geom 'chest'"),
        ("jnt_axis", 2, [0, 2, 0], "joint 'knee'.*unit"),
        ("jnt_stiffness", 1, np.nan, "joint 'hip'.*jnt_stiffness"),
        ("jnt_actfrclimited", 1, True, "joint 'hip'.*hinge and slide"),
        ("jnt_actfrcrange", 3, [1, -1], "joint 'shift'.*empty"),
        ("dof_damping", 7, np.nan, "joint 'hip'.*dof_damping"),
        ("dof_armature", 9, -1, "joint 'knee'.*negative armature"),
        ("qpos0", slice(7, 11), 0, "joint 'hip'.*zero quaternion in qpos0"),
        ("qpos0", 11, np.nan, "joint 'knee'.*qpos0"),
        ("qpos_spring", slice(7, 11), 0, "joint 'hip'.*zero quaternion in qpos_spring"),
        ("key_qpos", (1, slice(3, 7)), 0, "joint 'root' has a zero quaternion in key 1"),
        ("key_qvel", 0, np.inf, "key 'home'.*key_qvel"),
        ("actuator_gear", 2, np.nan, "actuator 'servo'.*gear"),
        ("actuator_gainprm", 3, np.nan, "actuator 'speed'.*gainprm"),
        ("actuator_ctrlrange", 2, [1, -1], "actuator 'servo'.*control range"),
        ("actuator_forcerange", 2, [1, -1], "actuator 'servo'.*force range"),
    ],
)
def test_numbers_no_robot_can_have(field, index, value, message):
    with pytest.raises(PullbackError, match=message):
        load(edited(**{field: (index, value)}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("timestep", 0), ("timestep", np.nan), ("gravity", np.inf), ("density", -1), ("viscosity", np.nan)],
)
def test_options_no_world_can_have(name, value):
    m = compiled()
    setattr(m.opt, name, value)
    with pytest.raises(PullbackError, match=f"option {name}"):
        load(m)


def test_infinities_in_a_file_are_found():
    with pytest.raises(PullbackError, match="body 'b'"):
        load(
            '<mujoco><worldbody><body name="b" pos="inf 0 0"><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
        )


def test_quaternions_are_normalised():
    m = compiled()
    m.body_quat[2] *= 3
    m.key_qpos[1, 3:7] *= 2
    model, plain = load(m), load(xml())
    assert_allclose(model.body_quat, plain.body_quat, rtol=1e-15)
    assert_allclose(model.keyframes["key 1"].q, plain.keyframes["key 1"].q, rtol=1e-15)


def test_a_joint_that_moves_nothing_is_named():
    with pytest.raises(PullbackError, match="MuJoCo cannot compile.*mass and inertia"):
        load('<mujoco><worldbody><body name="ghost"><joint name="j"/></body></worldbody></mujoco>')
    m = compiled()
    m.body_mass[3:], m.body_inertia[3:] = 0, 0
    with pytest.raises(PullbackError, match="joint 'shift' moves nothing"):
        m.actuator_armature[:] = 0
        load(m)


def test_two_joints_on_one_axis_need_armature():
    twice = """<mujoco><worldbody><body><joint name="first" {}/><joint name="second"/>
      <geom size=".1" pos=".2 0 0"/></body></worldbody></mujoco>"""
    with pytest.raises(PullbackError, match="joint 'first' moves nothing"):
        load(twice.format(""))
    assert load(twice.format('armature="1e-6"')).nv == 2


def test_unknown_flags_of_a_later_mujoco_are_refused():
    m = compiled()
    m.opt.enableflags |= 1 << 20
    with pytest.raises(PullbackError, match="unknown flags"):
        load(m)


def test_folder_does_not_apply_to_objects(tmp_path):
    with pytest.raises(PullbackError, match="MjModel"):
        load(compiled(), folder=tmp_path)


def test_spec_that_does_not_compile():
    spec = mujoco.MjSpec()
    spec.modelname = "broken"
    spec.worldbody.add_body(name="ghost").add_joint()
    with pytest.raises(PullbackError, match="MjSpec 'broken'.*ghost"):
        load(spec)
