"""A few bytes that ask for more than any machine has are refused before MuJoCo sees them."""

import time

import pytest

import pullback as pb

BODY = '<body><joint/><geom size=".1"/></body>'


def refusal(source, **options) -> str:
    """The message, which must be one line and come within a second."""
    began = time.process_time()
    with pytest.raises(pb.PullbackError) as error:
        pb.load(source, **options)
    assert time.process_time() - began < 1
    assert "\n" not in str(error.value)
    return str(error.value)


def world(inside: str) -> str:
    return f"<mujoco><worldbody>{inside}</worldbody></mujoco>"


def replicated(count, inside: str = BODY) -> str:
    return f'<replicate count="{count}" offset="1 0 0">{inside}</replicate>'


@pytest.mark.parametrize("anywhere", [False, True])
def test_replicate(anywhere):
    message = refusal(world(replicated(10**9)), anywhere=anywhere)
    assert "<replicate> on line 1 makes 1000000000 copies" in message and "MjSpec" in message


@pytest.mark.parametrize(
    "inside",
    [
        replicated(1000, replicated(1000)),
        replicated(100, replicated(100, replicated(100, BODY))),
        replicated(15000, '<body><geom size=".1"/><geom size=".2"/></body>'),
        replicated(300, '<flexcomp name="f" type="grid" spacing=".1 .1 .1" radius=".01"/>'),
        '<flexcomp name="f" type="grid" count="1000 1000 1000" spacing=".1 .1 .1" radius=".01"/>',
        '<flexcomp name="f" type="grid" dof="trilinear" cellcount="100 100 100" radius=".01"/>',
    ],
)
def test_what_repeats_in_other_ways(inside):
    assert "more than 20000" in refusal(world(inside))


@pytest.mark.parametrize(
    "inside",
    [
        '<size nkey="1000000000"/>',
        '<size nuserdata="1000000000"/>',
        '<custom><numeric name="n" size="1000000000" data="1"/></custom>',
        '<asset><hfield name="h" nrow="40000" ncol="40000" size="1 1 1 1"/></asset>',
        '<asset><texture name="t" type="2d" builtin="checker" width="40000" height="40000"/></asset>',
        '<asset><mesh name="m" builtin="supersphere" params="20000 1 1"/></asset>',
        '<asset><mesh name="m" builtin="wedge" params="20000 20000 30 30 0"/></asset>',
        '<sensor><user name="u" dim="1000000000"/></sensor>',
    ],
)
def test_tables(inside):
    assert "more than" in refusal(f"<mujoco>{inside}</mujoco>")


def test_replicates_that_meet_through_includes(tmp_path):
    (tmp_path / "main.xml").write_text(world(replicated(1000, '<include file="part.xml"/>')))
    inner = replicated(10, '<include file="leaf.xml"/>')
    (tmp_path / "part.xml").write_text(f"<mujocoinclude>{inner}</mujocoinclude>")
    (tmp_path / "leaf.xml").write_text(f"<mujocoinclude>{replicated(10)}</mujocoinclude>")
    assert "leaf.xml: <replicate> on line 1 makes 100000 copies" in refusal(tmp_path / "main.xml")
    (tmp_path / "main.xml").write_text(world(replicated(2, '<include file="part.xml"/>')))
    assert pb.load(tmp_path / "main.xml").nbody == 201


def attaching(name: str, times: int) -> str:
    attached = "".join(f'<attach model="m" body="b" prefix="{i}"/>' for i in range(times))
    asset = f'<asset><model name="m" file="{name}"/></asset>'
    return f'<mujoco>{asset}<worldbody><body name="b">{attached}</body></worldbody></mujoco>'


def test_models_inside_models(tmp_path):
    (tmp_path / "0.xml").write_text(world(f'<body name="b">{BODY}</body>'))
    for level in range(1, 8):
        (tmp_path / f"{level}.xml").write_text(attaching(f"{level - 1}.xml", 10))
    assert "unfolds to" in refusal(tmp_path / "7.xml")
    assert pb.load(tmp_path / "2.xml").nbody == 1 + 1 + 10 * (1 + 10 * 2)


def test_a_model_inside_itself(tmp_path):
    (tmp_path / "self.xml").write_text(attaching("self.xml", 1))
    assert "holds itself" in refusal(tmp_path / "self.xml")


def test_what_is_large_and_honest_loads():
    assert pb.load(world(replicated(30, replicated(10)))).nv == 300
    geoms = "".join(f'<geom name="g{i}" size=".1"/>' for i in range(25_000))  # written out: as large as its file
    with pytest.raises(pb.PullbackError, match="cannot compile"):  # refused by MuJoCo, and not for its size
        pb.load(world(geoms + "<nonsense/>"))
