"""Toolpaths and births: where the laser is, what it deposits and when, and what is refused."""

import numpy as np
import pytest

from pullback import PullbackError
from pullback.thermal import (
    Toolpath,
    births,
    block,
    contour,
    follow,
    frame,
    from_gcode,
    from_table,
    printed,
    raster,
    stack,
)  # fmt: skip


def test_a_path_is_straight_between_its_points():
    path = Toolpath([1.0, 2.0, 4.0], [(0, 0, 0), (1, 0, 0), (1, 4, 0)], [1.0, 0.5, 1.0])
    places, on = path.at([0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0])
    np.testing.assert_allclose(places[:, 0], [0, 0, 0.5, 1, 1, 1, 1])
    np.testing.assert_allclose(places[:, 1], [0, 0, 0, 0, 2, 4, 4])
    np.testing.assert_array_equal(on, [0, 1, 1, 0.5, 0.5, 0, 0])
    assert path.duration == 3.0


def test_a_raster_covers_its_rectangle():
    path = raster((0, 0), (4, 3), 0.5, spacing=1.0, speed=2.0, travel=10.0)
    assert path.duration == pytest.approx(3 * 4 / 2 + 2 * 1 / 10)
    np.testing.assert_allclose(np.unique(path.points[:, 1]), [0.5, 1.5, 2.5])
    np.testing.assert_array_equal(path.on, [1, 0, 1, 0, 1, 1])
    other = raster((0, 0), (4, 3), 0.5, spacing=1.0, speed=2.0, along="y")
    np.testing.assert_allclose(np.unique(other.points[:, 0]), [0.5, 1.5, 2.5, 3.5])


def test_contours_are_stacked_with_pauses():
    square = [(0, 0), (1, 0), (1, 1), (0, 1)]
    path = stack([contour(square, z, speed=1.0) for z in (0.1, 0.2)], pause=3.0, travel=0.1)
    assert path.duration == pytest.approx(4 + 3 + 1 + 4)
    _, on = path.at([2.0, 5.0, 7.5, 10.0])
    np.testing.assert_array_equal(on, [1, 0, 0, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": [0.0, 2.0, 1.0]}, "point 2 at 1 s comes after 2 s"),
        ({"times": [0.0, 1.0, 1.0]}, "point 2"),
        ({"on": [1.0, 1.5, 0.0]}, "at point 1 it is 1.5"),
        ({"points": [(0, 0, 0), (1, 0, np.nan), (2, 0, 0)]}, "point 1 of the toolpath is not finite"),
        ({"on": [1.0, 0.0]}, "two points or more"),
    ],
)
def test_a_path_that_cannot_be_is_refused(change, message):
    good = {"times": [0.0, 1.0, 2.0], "points": [(0, 0, 0), (1, 0, 0), (2, 0, 0)], "on": [1.0, 1.0, 0.0]}
    Toolpath(**good)
    with pytest.raises(PullbackError, match=message):
        Toolpath(**good | change)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_is_read_with_and_without_names(tmp_path):
    rows = "0,0,0,1,1\n0.5,10,0,1,0\n# travel\n1.5,10,5,1,0\n"
    (tmp_path / "bare.csv").write_text(rows)
    (tmp_path / "named.csv").write_text("time, x, y, z, on\n" + rows)
    for name in ("bare", "named"):
        path = from_table(tmp_path / f"{name}.csv", unit=1e-3)
        np.testing.assert_allclose(path.times, [0, 0.5, 1.5])
        np.testing.assert_allclose(path.points[:, :2], [(0, 0), (0.01, 0), (0.01, 0.005)])
        np.testing.assert_array_equal(path.on, [1, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,0,0,0,1\n2,1,0,0,1\n\n1,2,0,0,0\n", "path.csv.*times .* must increase: line 4 at 1 s comes after 2 s"),
        ("0,0,0,0,1\n1,one,0,0,1\n", "line 2 .*not of numbers"),
        ("0,0,0,0,1\n1,0,0,1\n", "line 2 .*has 4 numbers"),
        ("0,0,0,0,1\n1,0,0,0,7\n", "path.csv.*from 0 to 1: at line 2 it is 7"),
        ("0,0,0,0,1\n1,nan,0,0,1\n", "path.csv.*line 2 of the toolpath is not finite"),
        ("0,0,0,0,1\n", "two or more"),
    ],
)
def test_broken_tables_name_the_line(tmp_path, text, message):
    (tmp_path / "path.csv").write_text(text)
    with pytest.raises(PullbackError, match=message):
        from_table(tmp_path / "path.csv")


def test_an_array_as_a_table():
    assert from_table(np.array([(0, 0, 0, 0, 1), (1, 1, 0, 0, 0)])).duration == 1
    with pytest.raises(PullbackError, match="in the table: times .* must increase: point 1 at 0 s comes after 0 s"):
        from_table([(0, 0, 0, 0, 1), (0, 1, 0, 0, 0)])


# --- G-code -----------------------------------------------------------------------------------------------------------


def test_gcode_of_a_laser():
    path = from_gcode("""%
        G21 G90 ; millimetres
        (to the start) G0 X0 Y0 Z1 F6000
        M3 S500
        G1 X10 F600
        S1000
        Y5
        G4 P250
        M5
        G0 X0 Y0
        """)
    np.testing.assert_allclose(path.points[0], 0)
    np.testing.assert_allclose(
        path.points[1:], 1e-3 * np.array([(0, 0, 1), (10, 0, 1), (10, 5, 1), (10, 5, 1), (0, 0, 1)])
    )
    travel = np.hypot(10, 5) / 10
    np.testing.assert_allclose(np.diff(path.times), [0.01, 1.0, 0.5, 0.25, travel])
    np.testing.assert_array_equal(path.on, [0, 0.5, 1, 1, 0, 0])


def test_gcode_of_a_printer_relative_and_in_inches():
    path = from_gcode("G20\nG91\nN10 G1 X1 F60 E0.5*33\nG1 Y1 E-0.1\nG1 X-1 E0.2\nM83\nM104 S200\nG92 E0\nG1 Z0.1 E0\n")
    np.testing.assert_allclose(
        path.points, 0.0254 * np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 1, 0.1)])
    )
    np.testing.assert_allclose(np.diff(path.times), [1, 1, 1, 0.1])
    np.testing.assert_array_equal(path.on, [1, 0, 1, 0, 0])


@pytest.mark.parametrize("centre", ["I-10 J0", "R10"])
@pytest.mark.parametrize(("code", "target", "sweep"), [("G3", "X0 Y10", 0.25), ("G2", "X0 Y-10", 0.25)])
def test_gcode_arcs(centre, code, target, sweep):
    path = from_gcode(f"M3 S1\nG1 X10 Y0 F600\n{code} {target} {centre}\n")
    arc = path.points[1:]
    np.testing.assert_allclose(np.hypot(*arc[:, :2].T), 0.01, rtol=1e-9)
    middles = (arc[1:] + arc[:-1]) / 2
    assert np.hypot(*middles[:, :2].T).min() >= 0.01 - 1.01e-5
    length = np.linalg.norm(np.diff(arc, axis=0), axis=1).sum()
    assert length == pytest.approx(sweep * 2 * np.pi * 0.01, rel=2e-3)
    assert np.sign(arc[len(arc) // 2, 1]) == (1 if code == "G3" else -1)


def test_a_full_circle_and_the_longer_way_round():
    circle = from_gcode("M3\nG1 X10 Y0 F600\nG2 X10 Y0 I-10 J0\n")
    assert circle.duration == pytest.approx(1 + 2 * np.pi, rel=2e-3)
    longer = from_gcode("M3\nG1 X10 Y0 F600\nG3 X0 Y10 R-10\n")
    assert longer.duration == pytest.approx(1 + 1.5 * np.pi, rel=2e-3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("G1 X1..5", "not letters with a number each"),
        ("G1 X", "not letters with a number each"),
        ("G1 X1 X2", "a letter is there twice"),
        ("G1 G0 X1", "two ways to move"),
        ("G5 X1", "G5 is not known"),
        ("M999", "M999 is not known"),
        ("G2 X5 Y5", "needs its centre"),
        ("G2 X50 Y0 R1", "does not reach"),
        ("G2 X5 Y5 I1 J0", "not at the same distance"),
        ("G1 X1 F0", "must be above zero"),
        ("G92 X0", "G92 of X, Y or Z"),
        ("G1 X" + 400 * "9", "number of X is too large"),
        ("G1 X5 F0." + 320 * "0" + "1", "must be above zero"),
        ("G1 X1.000001 F" + 30 * "9", "too short or too long"),
        ("G2 X5 R" + 20 * "9", "more than 100000 straight pieces"),
        ("G2 I100000000000", "more than 100000 straight pieces"),
        ("G1 X5 G4 P5", "in one line"),
        ("G1 X٣", "not letters with a number each"),
        ("hello", "not letters with a number each"),
        ("G1 X5 A90", "A is not known here"),
        ("G1 X5 M8 A90", "A is not known here"),
        ("G1 X5 I3 J2", "I is not known here"),
        ("G2 X5 Y5 K1", "K is not known here"),
        ("G2 X5 R9 I1 J1", "a centre, I and J, or a radius R, not both"),
        ("X5 P3", "P is not known here"),
        ("G4 X2", "X is not known here"),
        ("T1", "T is not known here"),
        ("G92", "G92 needs E"),
        ("G28", "G28 is not known after the first move"),
        ("G18", "G18 is not known"),
        ("G93", "G93 is not known"),
        ("G90.1", "G90.1 is not known"),
        ("/G1 X5", "not letters with a number each"),
    ],
)
def test_broken_gcode_names_the_line(line, message):
    with pytest.raises(PullbackError, match=rf"line 3 of the G-code: .*{message}"):
        from_gcode(f"M3 S1\nG1 X1 F600\n{line}\nG1 X7\n")


def test_one_line_of_gcode_is_no_file():
    with pytest.raises(PullbackError, match="line 1 of the G-code: .*'G1 X1 Q5'"):
        from_gcode("G1 X1 Q5")
    with pytest.raises(PullbackError, match="'G1.gcode' cannot be read"):
        from_gcode("G1.gcode")


def test_gcode_that_says_too_little(tmp_path):
    with pytest.raises(PullbackError, match="line 1 .*before any feed"):
        from_gcode("G1 X1\nG1 X2\n")
    with pytest.raises(PullbackError, match="line 2 .*before any G0 or G1"):
        from_gcode("M3\nX1 F10\n")
    with pytest.raises(PullbackError, match="never switches the laser on"):
        from_gcode("G1 X1 F10\nG1 X2\n")
    with pytest.raises(PullbackError, match="moves nothing"):
        from_gcode("G21\nM3\n")
    with pytest.raises(PullbackError, match="cannot be read"):
        from_gcode(tmp_path / "none.gcode")


def test_a_line_with_modes_still_moves_and_still_sets_the_power():
    path = from_gcode("M3 S100\nG1 X1 F600\nG90 X2\nM5 X3\nG54 M3 S50\nX4\nM204 S900 X7\n")
    np.testing.assert_allclose(path.points[:, 0], [0.0, 1e-3, 2e-3, 3e-3, 4e-3])
    np.testing.assert_allclose(path.on, [1.0, 1.0, 0.0, 0.5, 0.0])


def test_gcode_with_what_else_files_have_in_them():
    text = """%
O1000 (a program; with a name)
N5 G28 X Y
G29
T0
M6 T2
N10 G21 G17 G91.1 G64 P0.01 (one; two) ; three (
M106 P1 S255 F3
m3 s50
N20 G4 S2
G1 X1 F600
M5
M30
G1 X99 Y99 A3
"""
    path = from_gcode(text)
    np.testing.assert_allclose(path.points[:, 0], [0.0, 0.0, 1e-3])
    np.testing.assert_allclose(path.times, [0.0, 2.0, 2.1])
    np.testing.assert_array_equal(path.on, [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(path.lines, [10, 11, 11])


def test_a_laser_of_no_given_strength_is_as_strong_as_the_strongest():
    path = from_gcode("M3\nG1 X1 F600\nS200\nG1 X2\nS100\nG1 X3\n")
    np.testing.assert_allclose(path.on, [1.0, 1.0, 0.5, 0.0])


@pytest.mark.parametrize("change", [{"travel": 0}, {"travel": "a"}, {"tolerance": 0}, {"tolerance": float("nan")}])
def test_settings_of_gcode_that_cannot_be(change):
    with pytest.raises(PullbackError, match=rf"{next(iter(change))} must be a number above 0"):
        from_gcode("M3 S1\nG1 X1 F600\nG2 X5 R9\n", **change)


@pytest.mark.parametrize("source", [None, 0, [], "no\0file"])
def test_what_is_no_gcode_and_no_table(source):
    """A number would be taken for an open file, and waited for."""
    with pytest.raises(PullbackError, match="G-code"):
        from_gcode(source)
    with pytest.raises(PullbackError, match="table"):
        from_table(source)


def test_files_with_a_byte_order_mark_are_read(tmp_path):
    """Spreadsheets write one."""
    (tmp_path / "a.csv").write_text("time,x,y,z,on\n0,0,0,0,1\n1,1,0,0,0\n", encoding="utf-8-sig")
    assert from_table(tmp_path / "a.csv").duration == 1.0
    (tmp_path / "a.gcode").write_text("M3 S1\nG1 X1 F60\n", encoding="utf-8-sig")
    assert from_gcode(tmp_path / "a.gcode").duration == pytest.approx(1.0)


ENDS = [(0, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: follow(ENDS, speed="fast"), "speed must be a number above 0"),
        (lambda: follow(ENDS, speed=1.0, on=[1, 1, 1]), r"on of a path must be one number or have shape \(2,\)"),
        (lambda: follow(ENDS, speed=1.0, start="a"), "start must be a number"),
        (lambda: raster((0, 0), (1, 1), 0.0, spacing=1e-12, speed=1.0), "more than 100000 lines"),
        (lambda: raster((0, 0), (1, np.inf), 0.0, spacing=0.1, speed=1.0), "low < high"),
        (lambda: raster((0, 0), (1, 1), 0.0, spacing=0.1, speed=1.0, travel=0), "travel must be a number above 0"),
        (lambda: contour([(0, 0), (1, 0), (1, 1)], "high", speed=1.0), "z must be a number"),
        (lambda: stack([], travel=1.0), "no paths to stack"),
        (lambda: follow(ENDS, speed=1.0).then(follow(ENDS, speed=1.0), pause=float("nan")), "pause must be a number"),
        (lambda: from_table([[0, 0, 0, 0, 1], [1, 1, 1, 1, 0]], unit="mm"), "unit must be a number above 0"),
        (lambda: follow(ENDS, speed=1.0).check_over(block((1, 1, 1), (1, 1, 1)), born=[1, 2]), "born has shape"),
        (lambda: follow(ENDS, speed=1e-320), "point 1 of the toolpath is not finite"),
        (lambda: follow(ENDS, speed=10**400), "speed must be a number above 0, not 1000"),
        (lambda: follow(ENDS, speed=1.0).at([0.0, np.nan]), "a time on a toolpath is not a number"),
        (lambda: raster((0, 0), (1, 1), 0.0, spacing=0.1, speed=1.0, along="z"), "along 'x' or 'y'"),
        (lambda: Toolpath([0, 1], [(0, 0, 0), (1, 0, 0)], [1, 0], lines=[1, 2, 3]), r"lines .* \(2,\) is needed"),
    ],
)
def test_settings_of_paths_that_cannot_be(make, message):
    with pytest.raises(PullbackError, match=message):
        make()


# --- births -----------------------------------------------------------------------------------------------------------


def test_a_wall_is_born_along_the_path():
    mesh = printed(np.ones((10, 1)), 1e-3, layers=2, layer=0.5e-3, base=2e-3, base_cells=2, margin=1)
    lines = [follow([(0, 0.5e-3, z), (10e-3, 0.5e-3, z)], speed=5e-3) for z in (0.5e-3, 1e-3)]
    path = stack(lines, pause=1.0, travel=10e-3)
    born = births(mesh, path, reach=0.5e-3)
    plate = 2 * 12 * 3
    np.testing.assert_array_equal(born[:plate], -np.inf)
    np.testing.assert_allclose(born[plate : plate + 10], np.arange(10) * 0.2, atol=1e-12)
    start = 2 + 1 + np.hypot(10, 0.5) / 10
    np.testing.assert_allclose(born[plate + 10 :], start + np.arange(10) * 0.2, atol=1e-12)


def test_births_agree_with_looking_closely():
    mesh = printed(frame(8, 6), 1e-3, layers=2, layer=1e-3, base=1e-3, base_cells=1, margin=1)
    corners = np.array([(0.5, 0.5), (7.5, 0.5), (7.5, 5.5), (0.5, 5.5)]) * 1e-3
    path = stack([contour(corners, z, speed=2e-3) for z in (0.6e-3, 1.4e-3)], travel=2e-3)
    born = births(mesh, path, reach=0.8e-3)
    times = np.linspace(0, path.duration, 40001)
    places, on = path.at(times)
    for element in np.flatnonzero(born > -np.inf)[::3]:
        centre = mesh.centres[element]
        near = (np.hypot(*(places[:, :2] - centre[:2]).T) <= 0.8e-3) & (on > 0)
        near &= np.abs(places[:, 2] - centre[2]) <= 0.5e-3
        assert born[element] == pytest.approx(times[np.argmax(near)], abs=2 * path.duration / 40000)


def test_a_rising_path_reaches_each_layer_in_turn():
    mesh = block((1.0, 1.0, 4.0), (1, 1, 4))
    path = follow([(0.5, 0.5, 0.0), (0.5, 0.5, 4.0)], speed=1.0)
    np.testing.assert_allclose(births(mesh, path, base=-1.0), [0, 1, 2, 3], atol=1e-4)


def test_births_that_cannot_be():
    mesh = printed(np.ones((4, 2)), 1.0, layers=1, layer=1.0, base=1.0, base_cells=1)
    with pytest.raises(PullbackError, match="element 12 is never reached by the laser, nor are 3 others"):
        births(mesh, follow([(0, 0.5, 1), (4, 0.5, 1)], speed=1.0))
    with pytest.raises(PullbackError, match=r"outside the part: piece 0 .* from 4 s on, at \(4\.0\d*, 0\.5, 1\.0\) m"):
        births(mesh, follow([(0, 0.5, 1), (5, 0.5, 1)], speed=1.0))
    outside_but_off = follow(
        [(0, 0.5, 1), (4, 0.5, 1), (9, 9, 1), (4, 1.5, 1), (0, 1.5, 1)], speed=1.0, on=[1, 0, 0, 1, 0]
    )
    assert np.all(np.isfinite(births(mesh, outside_but_off)[8:]))


# --- material under the laser -----------------------------------------------------------------------------------------


def hollow():
    """A frame of 8 × 8 cells, two layers of 1 mm, on a plate; its hole is 6 × 6 mm."""
    return printed(frame(8, 8), 1e-3, layers=2, layer=1e-3, base=1e-3, base_cells=1)


def test_a_laser_over_a_hole_is_refused_with_piece_and_place():
    mesh = hollow()
    across = [(0.5e-3, 0.5e-3, 1e-3), (0.5e-3, 4e-3, 1e-3), (7.5e-3, 4e-3, 1e-3)]
    with pytest.raises(PullbackError, match=r"piece 1 of the toolpath .point 1 to 2. has no element under it") as error:
        follow(across, speed=1e-3).check_over(mesh)
    # A quarter of a cell beyond the wall, which ends at 1 mm: 0.75 mm along the piece, after 3.5 s.
    assert "from 4.25 s on, at (0.00125, 0.004, 0.001) m" in str(error.value)
    over_the_plate = follow([(x, y, 0.0) for x, y, _ in across], speed=1e-3)
    assert over_the_plate.check_over(mesh) is over_the_plate
    off = follow([*across[:2], (1e-3, 4e-3, 1e-3), (7e-3, 4e-3, 1e-3), across[2]], speed=1e-3, on=[1, 1, 0, 1, 0])
    assert off.check_over(mesh) is off


def test_gcode_travels_over_a_hole_and_names_the_line_that_does_not():
    mesh = hollow()
    text = "G0 X0.5 Y4 Z1 F600\nM3 S1\nG1 X1\n{} X7\nG1 X7.5\n"
    assert from_gcode(text.format("G0")).check_over(mesh).duration > 0
    with pytest.raises(PullbackError, match="line 4 of the toolpath's file has no element under it from"):
        from_gcode(text.format("G1")).check_over(mesh)
    printer = "M83\nG0 X0.5 Y4 Z1 F600\nG1 X1 E1\nG1 X7{}\nG1 X7.5 E1\n"
    assert from_gcode(printer.format("")).check_over(mesh).duration > 0
    with pytest.raises(PullbackError, match="line 4 "):
        from_gcode(printer.format(" E1")).check_over(mesh)


def test_a_pause_over_a_hole_and_elements_that_are_never_born():
    mesh = hollow()
    pause = Toolpath([0.0, 1.0], [[4e-3, 4e-3, 2e-3]] * 2, [1.0, 0.0])
    with pytest.raises(PullbackError, match=r"piece 0 .* from 0 s on, at \(0.004, 0.004, 0.002\) m"):
        pause.check_over(mesh)
    with pytest.raises(PullbackError, match="piece 0"):
        births(mesh, pause)
    wall = Toolpath([0.0, 1.0], [[0.5e-3, 4e-3, 2e-3]] * 2, [1.0, 0.0])
    wall.check_over(mesh)
    born = np.where(mesh.centres[:, 2] > 1e-3, np.inf, -np.inf)
    with pytest.raises(PullbackError, match="piece 0"):
        wall.check_over(mesh, born=born)


def test_tables_name_their_lines_too(tmp_path):
    rows = "time,x,y,z,on\n0,0.5,0.5,1,1\n# across\n1,0.5,4,1,1\n2,7.5,4,1,0\n"
    (tmp_path / "a.csv").write_text(rows)
    with pytest.raises(PullbackError, match="line 4 of the toolpath's file"):
        from_table(tmp_path / "a.csv", unit=1e-3).check_over(hollow())
