"""A model file reads its own folder and nothing else, and whatever is wrong with it is said in one clear line."""

import os
import time
from pathlib import Path

import mujoco
import pytest

from pullback.core.errors import PullbackError
from pullback.model import load

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
LINK = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
JOINT = """<joint name="elbow" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="3" velocity="1"/></joint>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for models, with a file outside it that they must not read."""
    (tmp_path / "secret.obj").write_text(TETRAHEDRON)
    (tmp_path / "secret.xml").write_text("<mujoco><worldbody><body name='secret'/></worldbody></mujoco>")
    folder = tmp_path / "home"
    (folder / "sub").mkdir(parents=True)
    (folder / "shape.obj").write_text(TETRAHEDRON)
    (folder / "sub" / "shape.obj").write_text(TETRAHEDRON)
    return folder


def write(path: Path, body: str) -> Path:
    path.write_text(f"<mujoco>{body}</mujoco>")
    return path


def mesh(file, compiler=""):
    return f'<compiler {compiler}/><asset><mesh name="hand" file="{file}"/></asset>'


def urdf(mesh_path, part="collision", compiler=""):
    extension = f"<mujoco><compiler {compiler}/></mujoco>" if compiler else ""
    return f"""<robot name="r">{extension}<link name="base">{LINK}</link><link name="arm">{LINK}
    <{part}><geometry><mesh filename="{mesh_path}"/></geometry></{part}></link>{JOINT}</robot>"""


# what is allowed


@pytest.mark.parametrize(
    ("file", "compiler"),
    [
        ("shape.obj", ""),
        ("sub/shape.obj", ""),
        ("sub/../shape.obj", ""),
        ("shape.obj", 'meshdir="sub"'),
        ("../shape.obj", 'meshdir="sub"'),
        ("shape.obj", 'assetdir="sub"'),
        ("sub\\shape.obj", ""),
        ("../../elsewhere/shape.obj", 'strippath="true"'),
    ],
)
def test_files_inside_the_folder_are_read(home, file, compiler):
    assert load(write(home / "main.xml", mesh(file, compiler))).mujoco.nmesh == 1


def test_absolute_path_inside_the_folder_is_read(home):
    assert load(str(write(home / "main.xml", mesh(home / "shape.obj")))).mujoco.nmesh == 1


def test_path_relative_to_working_directory(home, monkeypatch):
    write(home / "main.xml", mesh("sub/shape.obj"))
    monkeypatch.chdir(home)
    assert load("main.xml").mujoco.nmesh == 1


@pytest.mark.parametrize("nested", ["sub/inner.xml", "inner.xml"])
def test_nested_include_relative_to_main_or_to_including_file(home, nested):
    write(home / "sub" / "inner.xml", "<worldbody><body name='inner'/></worldbody>")
    write(home / "sub" / "outer.xml", f'<include file="{nested}"/>')
    assert "inner" in load(write(home / "main.xml", '<include file="sub/outer.xml"/>')).body_names


def test_sub_model_reads_from_its_own_folder(home):
    body = '<worldbody><body name="palm"><geom type="mesh" mesh="hand"/></body></worldbody>'
    write(home / "sub" / "child.xml", mesh("shape.obj") + body)
    main = '<asset><model name="child" file="sub/child.xml"/></asset>'
    main += '<worldbody><attach model="child" body="palm" prefix="p_"/></worldbody>'
    assert "p_palm" in load(write(home / "main.xml", main)).body_names


def test_string_reads_from_the_folder_it_is_given(home, monkeypatch):
    monkeypatch.chdir("/")
    write(home / "sub" / "inner.xml", "<worldbody><body name='inner'/></worldbody>")
    model = load(f'<mujoco>{mesh("shape.obj")}<include file="sub/inner.xml"/></mujoco>', folder=home)
    assert model.mujoco.nmesh == 1 and "inner" in model.body_names


def test_folder_widens_what_a_file_may_read(home):
    main = write(home / "sub" / "main.xml", mesh("../shape.obj"))
    with pytest.raises(PullbackError, match="outside the folder"):
        load(main)
    assert load(main, folder=home).mujoco.nmesh == 1


def test_anywhere_lets_a_trusted_file_read_outside(home):
    main = write(home / "main.xml", mesh("../secret.obj") + '<include file="../secret.xml"/>')
    assert "secret" in load(main, anywhere=True).body_names


# what is refused


@pytest.mark.parametrize(
    ("file", "compiler"),
    [
        ("../secret.obj", ""),
        ("sub/../../secret.obj", ""),
        ("..\\secret.obj", ""),
        ("sub\\..\\..\\secret.obj", ""),
        ("&#46;&#46;/secret.obj", ""),
        ("secret.obj", 'meshdir=".."'),
        ("secret.obj", 'assetdir="../"'),
        ("secret.obj", 'meshdir="sub/../.."'),
        ("../secret.obj", 'meshdir="."'),
        ("../home2/secret.obj", ""),
    ],
)
def test_paths_that_leave_the_folder_are_refused(home, file, compiler):
    (home.parent / "home2").mkdir()
    (home.parent / "home2" / "secret.obj").write_text(TETRAHEDRON)
    with pytest.raises(PullbackError, match=r"<mesh> 'hand'.*secret\.obj.*anywhere=True"):
        load(write(home / "main.xml", mesh(file, compiler)))


@pytest.mark.parametrize("scheme", ["file://", "http://host", "package://robot", "C:", "HTTP:"])
def test_schemes_and_drives_are_refused(home, scheme):
    with pytest.raises(PullbackError, match="'hand'.*scheme or a drive"):
        load(write(home / "main.xml", mesh(f"{scheme}/secret.obj")))


def test_absolute_path_outside_is_refused(home):
    with pytest.raises(PullbackError, match="outside the folder"):
        load(write(home / "main.xml", mesh(home.parent / "secret.obj")))
    with pytest.raises(PullbackError, match="outside the folder"):
        load(write(home / "main.xml", mesh("secret.obj", f'meshdir="{home.parent}"')))


def test_symbolic_links_are_followed_before_judging(home):
    (home / "link.obj").symlink_to(home.parent / "secret.obj")
    (home / "up").symlink_to(home.parent, target_is_directory=True)
    (home / "fine.obj").symlink_to(home / "shape.obj")
    for file in ("link.obj", "up/secret.obj", "up/home/../secret.obj"):
        with pytest.raises(PullbackError, match="outside the folder"):
            load(write(home / "main.xml", mesh(file)))
    assert load(write(home / "main.xml", mesh("fine.obj"))).mujoco.nmesh == 1


def test_a_file_reached_through_a_link_may_be_loaded(home, tmp_path):
    """The user named the link; its own folder is where the link stands."""
    real = write(tmp_path / "real.xml", mesh("shape.obj"))
    (home / "main.xml").symlink_to(real)
    assert load(home / "main.xml").mujoco.nmesh == 1


@pytest.mark.parametrize("target", ["../secret.xml", "{outside}/secret.xml", "sub/../../secret.xml"])
def test_includes_outside_are_refused(home, target):
    target = target.format(outside=home.parent)
    with pytest.raises(PullbackError, match=r"<include>.*secret\.xml.*anywhere=True"):
        load(write(home / "main.xml", f'<include file="{target}"/>'))


def test_include_chain_that_ends_outside_is_refused(home):
    write(home / "sub" / "two.xml", mesh("../../secret.obj"))
    write(home / "sub" / "one.xml", '<include file="two.xml"/>')
    with pytest.raises(PullbackError, match=r"two\.xml: <mesh> 'hand'.*outside"):
        load(write(home / "main.xml", '<include file="sub/one.xml"/>'))


def test_compiler_in_an_include_counts(home):
    write(home / "settings.xml", '<compiler meshdir=".."/>')
    with pytest.raises(PullbackError, match="'hand'.*outside"):
        load(write(home / "main.xml", '<include file="settings.xml"/>' + mesh("secret.obj")))


def test_sub_model_that_leads_outside_is_refused(home):
    write(home / "sub" / "child.xml", mesh("../../secret.obj") + "<worldbody><body name='palm'/></worldbody>")
    with pytest.raises(PullbackError, match="child.xml: <mesh> 'hand'.*outside"):
        load(write(home / "main.xml", '<asset><model name="child" file="sub/child.xml"/></asset>'))
    with pytest.raises(PullbackError, match="<model> 'child'.*outside"):
        load(write(home / "main.xml", '<asset><model name="child" file="../secret.xml"/></asset>'))
    # strippath does not apply to sub-models
    stripped = '<compiler strippath="true"/><asset><model name="child" file="../secret.xml"/></asset>'
    with pytest.raises(PullbackError, match="<model> 'child'.*outside"):
        load(write(home / "main.xml", stripped))


@pytest.mark.parametrize(
    "element",
    [
        '<asset><texture name="x" type="2d" file="../secret.png"/></asset>',
        '<asset><texture name="x" type="cube" fileleft="../secret.png"/></asset>',
        '<asset><hfield name="x" size="1 1 1 1" file="../secret.png"/></asset>',
        '<asset><skin name="x" file="../secret.skn"/></asset>',
        '<worldbody><flexcomp name="x" type="mesh" dim="2" file="../secret.obj"/></worldbody>',
        '<compiler texturedir=".."/><asset><texture name="x" type="2d" file="secret.png"/></asset>',
    ],
)
def test_every_kind_of_file_is_checked(home, element):
    with pytest.raises(PullbackError, match=r"'x'.*secret.*outside"):
        load(write(home / "main.xml", element))


def test_plugin_setting_that_is_a_path_is_checked(home):
    config = '<instance name="i"><config key="file" value="/etc/passwd"/></instance>'
    element = f'<extension><plugin plugin="p">{config}</plugin></extension>'
    with pytest.raises(PullbackError, match="<config>.*passwd.*outside"):
        load(write(home / "main.xml", element))


@pytest.mark.parametrize(
    "trick",
    [
        # MuJoCo ends a document type at the first ">" and reads what a real parser takes for a comment inside it
        '<!DOCTYPE mujoco [ <!-- > <mujoco><include file="../secret.xml"/></mujoco> --> ]><mujoco/>',
        '<!DOCTYPE m [<!ENTITY a "../secret.obj">]><mujoco><asset><mesh file="&a;"/></asset></mujoco>',
        "<!DOCTYPE mujoco><mujoco/>",
    ],
)
def test_document_types_are_refused(home, trick):
    (home / "main.xml").write_text(trick)
    with pytest.raises(PullbackError, match="DOCTYPE"):
        load(home / "main.xml")


def test_exponential_entities_do_not_hang(home):
    entities = '<!ENTITY a0 "haha">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    started = time.monotonic()
    with pytest.raises(PullbackError, match="DOCTYPE"):
        load(f'<!DOCTYPE m [{entities}]><mujoco model="&a11;"/>')
    assert time.monotonic() - started < 5


def test_a_comment_mark_in_a_name_hides_nothing(home):
    body = '<worldbody><body name="&lt;!--"/></worldbody><include file="../secret.xml"/><!-- -->'
    with pytest.raises(PullbackError, match="<include>.*outside"):
        load(write(home / "main.xml", body))
    with pytest.raises(PullbackError):  # a raw "<" is not well-formed, whatever MuJoCo would make of it
        load(write(home / "main.xml", body.replace("&lt;", "<")))


def test_line_break_in_a_path_is_refused(home):
    """Strict parsers read it as a blank, MuJoCo does not: they would open different files."""
    with pytest.raises(PullbackError, match="line break or a tab"):
        load(write(home / "main.xml", mesh("a\nb/shape.obj")))


def test_pipes_are_refused(home):
    os.mkfifo(home / "pipe.obj")
    with pytest.raises(PullbackError, match="neither a file nor a folder"):
        load(write(home / "main.xml", mesh("pipe.obj")))


def test_includes_that_go_in_circles_end(home):
    write(home / "a.xml", '<include file="b.xml"/>')
    write(home / "b.xml", '<include file="a.xml"/>')
    with pytest.raises(PullbackError, match="already included"):
        load(write(home / "main.xml", '<include file="a.xml"/>'))
    (home / "here").symlink_to(home, target_is_directory=True)
    write(home / "c.xml", '<include file="here/c.xml"/>')
    with pytest.raises(PullbackError):
        load(write(home / "main.xml", '<include file="c.xml"/>'))


# URDF


def test_urdf_meshes_stay_inside(home):
    (home / "arm.urdf").write_text(urdf("sub/shape.obj"))
    model = load(home / "arm.urdf")
    assert model.mujoco.nmesh == 1 and model.joint_names == ("elbow",)
    assert model.joint_force_limited.all() and model.joint_force_range.tolist() == [[-3, 3]]
    for path, compiler in [("../secret.obj", ""), ("secret.obj", 'meshdir=".."'), ("file:///etc/passwd", "")]:
        (home / "arm.urdf").write_text(urdf(path, compiler=compiler))
        with pytest.raises(PullbackError, match=r"<mesh>.*(outside|scheme)"):
            load(home / "arm.urdf")


def test_urdf_visuals_are_not_read_unless_kept(home):
    (home / "arm.urdf").write_text(urdf("package://robot/skin.dae", part="visual"))
    assert load(home / "arm.urdf").mujoco.nmesh == 0
    (home / "arm.urdf").write_text(urdf("../secret.obj", part="visual", compiler='discardvisual="false"'))
    with pytest.raises(PullbackError, match="outside"):
        load(home / "arm.urdf")


def test_urdf_package_paths_with_strippath(home):
    (home / "arm.urdf").write_text(urdf("package://robot/meshes/shape.obj", compiler='strippath="true"'))
    assert load(home / "arm.urdf").mujoco.nmesh == 1


# strings


def test_string_without_folder_may_not_name_files(home, monkeypatch):
    monkeypatch.chdir(home)
    for body in (mesh("shape.obj"), '<include file="main.xml"/>'):
        with pytest.raises(PullbackError, match="folder="):
            load(f"<mujoco>{body}</mujoco>")
    assert load(f"\ufeff\n <mujoco>{mesh('shape.obj')}</mujoco>", anywhere=True).mujoco.nmesh == 1


def test_string_with_folder_may_not_leave_it(home):
    with pytest.raises(PullbackError, match="outside the folder"):
        load(f"<mujoco>{mesh('../secret.obj')}</mujoco>", folder=home)
    with pytest.raises(PullbackError, match="not a folder"):
        load("<mujoco/>", folder=home / "nowhere")


# plain mistakes


def test_missing_files_are_named(home):
    with pytest.raises(PullbackError, match=r"<mesh> 'hand'.*'gone\.obj'.*does not exist"):
        load(write(home / "main.xml", mesh("gone.obj")))
    with pytest.raises(PullbackError, match=r"<include>.*gone\.xml.*does not exist"):
        load(write(home / "main.xml", '<include file="gone.xml"/>'))
    with pytest.raises(PullbackError, match=r"<model> 'child'.*gone\.xml.*does not exist"):
        load(write(home / "main.xml", '<asset><model name="child" file="gone.xml"/></asset>'))


def test_things_that_are_no_model(home):
    for source, message in [
        (home / "gone.xml", "there is no file"),
        (home, "is a folder"),
        ("", "empty string"),
        ("   ", "empty string"),
        (42, "not int"),
        (None, "not NoneType"),
        (b"<mujoco/>", "not bytes"),
        ("a\0b", "no path and no XML"),
        ("x" * 5000, "no path and no XML"),
        ("bodies:\n  - torso", "no path and no XML"),
        (Path("a\0b"), "a.b"),
    ]:
        with pytest.raises(PullbackError, match=message):
            load(source)


def test_files_that_are_no_xml(home):
    for content, message in [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\x7fELF\0\0", "not XML"),
        (b"hello", "not XML"),
        (b"<mujoco>", "not well-formed"),
        (b"<mujoco><worldbody></mujoco>", "line 1"),
        ("<mujoco model='é'/>".encode("latin-1"), "UTF-8"),
        (b"<html/>", "main.xml: MuJoCo cannot compile"),
    ]:
        (home / "main.xml").write_bytes(content)
        with pytest.raises(PullbackError, match=message) as caught:
            load(home / "main.xml")
        assert "main.xml" in str(caught.value) and "\n" not in str(caught.value)


def test_binary_model_says_how_to_load_it(home):
    path = home / "model.mjb"
    mujoco.mj_saveModel(mujoco.MjModel.from_xml_string("<mujoco/>"), str(path))
    with pytest.raises(PullbackError, match="from_binary_path"):
        load(path)


def test_compile_errors_name_file_and_reason(home):
    with pytest.raises(PullbackError, match=r"main\.xml: .*unrecognized element.*hand") as caught:
        load(write(home / "main.xml", "<worldbody><hand/></worldbody>"))
    assert "\n" not in str(caught.value)


def test_written_nan_is_refused(home):
    with pytest.raises(PullbackError, match="<geom> 'ball'.*mass=\"nan\""):
        load('<mujoco><worldbody><body><geom name="ball" size="1" mass="nan"/></body></worldbody></mujoco>')
    write(home / "inner.xml", '<worldbody><body name="b" pos="0 NaN 0"/></worldbody>')
    with pytest.raises(PullbackError, match=r"inner\.xml: <body> 'b'"):
        load(write(home / "main.xml", '<include file="inner.xml"/>'))
    assert "nan" in load("<mujoco><worldbody><body name='nan'/></worldbody></mujoco>").body_names


def test_comments_with_dashes_load():
    assert load("<mujoco><!-- ---- arms ---- --><worldbody><body name='a'/></worldbody></mujoco>").nbody == 2


def test_deeply_nested_and_long_text_is_quick():
    started = time.monotonic()
    with pytest.raises(PullbackError):
        load("<mujoco>" + "<body>" * 100_000)
    with pytest.raises(PullbackError):
        load("<mujoco " + " " * 1_000_000)
    assert time.monotonic() - started < 20


def test_a_mesh_written_anew_at_once_is_read_anew(tmp_path):
    """MuJoCo caches meshes by their time of change, which may not tell two writes apart."""
    xml = tmp_path / "robot.xml"
    xml.write_text(
        '<mujoco><asset><mesh name="m" file="m.obj"/></asset>'
        '<worldbody><body><joint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>'
    )
    masses = []
    for size in (1.0, 2.0):
        corners = [(0, 0, 0), (size, 0, 0), (0, size, 0), (0, 0, size)]
        lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]
        (tmp_path / "m.obj").write_text("\n".join(lines))
        masses.append(load(xml).body_mass[1])
    assert masses[1] == pytest.approx(8 * masses[0])
