"""Heat in a part: closed forms, balances, births, checkpoints, sharing among cores, bad input."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from parts import controls_near, crooked_part, warm_state

import pullback as pb
from pullback import thermal
from pullback.thermal.law import Pieces
from pullback.thermal.stepper import ELEMENT_STEPS, Phases

METHODS = ("explicit", "implicit")
STILL = thermal.Toolpath([0.0, 1e6], np.zeros((2, 3)), [0.0, 0.0])


def plain(k=20.0, c=500.0, latent=0.0) -> thermal.Material:
    """Figures that do not depend on temperature."""
    return thermal.Material("plain", 8000.0, [300.0], [k], [c], 1500.0, 1600.0, latent, 1.0, 0.0)


# --- the material -----------------------------------------------------------------------------------------------------


def test_tables_are_smooth_and_stay_near_their_straight_lines():
    material = thermal.inconel_718()
    pieces = Pieces.of(material.temperatures, material.solidus, material.liquidus)
    T = np.linspace(200.0, 2500.0, 200_001)
    k = pieces.at(T, pieces.table @ material.conductivity)
    straight = material.conductivity_at(T)
    assert np.max(np.abs(k - straight)) < 0.03 * np.max(straight)
    middle = (material.temperatures[1:] + material.temperatures[:-1]) / 2
    np.testing.assert_allclose(
        pieces.at(middle, pieces.table @ material.conductivity), material.conductivity_at(middle)
    )
    slope = np.gradient(k, T)
    # A slope that jumped would do so by about 0.02 at once; a parabola's changes little in 0.01 K.
    assert np.max(np.abs(np.diff(slope))) < 2e-4 * np.max(np.abs(slope)) + 1e-4


def test_latent_heat_is_all_there():
    pieces = Pieces.of(np.array([300.0]), 1500.0, 1600.0)
    total = pieces.integral(np.array([1400.0, 1700.0]), pieces.latent)
    assert total[1] - total[0] == pytest.approx(1.0, abs=1e-13)
    assert pieces.at(1550.0, pieces.latent) == pytest.approx(0.75 * 3 / 100.0)


# --- physics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_an_insulated_part_keeps_its_heat(method):
    heat = crooked_part(method=method, convection=0.0, born=None, dt=0.02 if method == "explicit" else 0.5)
    heat.params["emissivity"] = 0.0
    start = warm_state(heat)
    controls = heat.default_controls(50)
    controls[..., 0] = 0.0
    run = pb.rollout(heat, start, controls)
    assert np.ptp(run.T[-1]) < 0.7 * np.ptp(run.T[0])  # something happened
    assert heat.energy(run.final) == pytest.approx(heat.energy(start), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_what_the_laser_gives_and_new_material_brings_is_what_the_part_has(method):
    heat = crooked_part(method=method, convection=0.0)
    heat.params["emissivity"] = 0.0
    wide = thermal.block((20e-3, 20e-3, 4e-3), (20, 20, 4), origin=(-8e-3, -9e-3, -2e-3))
    flat = thermal.Heat(
        wide, heat.material, thermal.Toolpath([0.0, 2.0], [[0, 0, 2e-3], [4e-3, 2e-3, 2e-3]], [1, 0]),
        dt=0.02, method=method, convection=0.0, spot_radius=1.5e-3, power=100.0,
    )  # fmt: skip
    flat.params["emissivity"] = 0.0
    run = pb.rollout(flat, flat.state(), steps=50)
    given = 50 * 0.02 * 100.0
    # The spot is far from every edge, so that Gauss points see all of it, to what they miss of a Gaussian.
    assert (flat.energy(run.final) - flat.energy(flat.state()))[0] == pytest.approx(given, rel=2e-3)
    # Births: a cold part that gets cold material has the energy of all its volume.
    controls = heat.default_controls(60)
    controls[..., 0] = 0.0
    run = pb.rollout(heat, heat.state(T=300.0), controls)
    np.testing.assert_allclose(run.T[-1], 300.0, rtol=1e-13)


def test_new_material_takes_heat_from_what_it_lies_on():
    heat = crooked_part(convection=0.0)
    heat.params["emissivity"] = 0.0
    start = heat.state(T=900.0, s=0.999)  # the last element is born in the next steps
    controls = heat.default_controls(3)
    controls[..., 0] = 0.0
    run = pb.rollout(heat, start, controls)
    volume = heat.mesh.volumes()[np.argmax(heat.born)]
    capacity = heat.hold_params().capacity[0]
    cold = heat.material.density * volume * heat.pieces.integral(np.array([300.0]), capacity)
    gained = heat.energy(run.final) - heat.energy(start)
    assert gained == pytest.approx(cold, rel=1e-9, abs=1e-9 * heat.energy(start)[0])
    assert run.T[-1].min() < 890.0


@pytest.mark.parametrize("method", METHODS)
def test_a_cooling_bar_follows_the_closed_form_with_order_two(method):
    k, c, rho, length = 20.0, 500.0, 8000.0, 10e-3
    rate = k / (rho * c) * (np.pi / length) ** 2
    errors = []
    for cells in (4, 8, 16):
        mesh = thermal.block((length, 1e-3, 1e-3), (cells, 1, 1))
        steps = cells**2  # dt like h², so that both errors fall alike
        heat = thermal.Heat(mesh, plain(k, c), STILL, dt=0.5 / rate / steps, method=method, convection=0.0)
        x = mesh.nodes[:, 0]
        run = pb.rollout(
            heat, heat.state(600.0 + 100.0 * np.cos(np.pi * x / length)), steps=steps, checkpoint_every=steps
        )
        exact = 600.0 + 100.0 * np.cos(np.pi * x / length) * np.exp(-0.5)
        errors.append(np.max(np.abs(run.T[-1, 0] - exact)))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 0.3
    np.testing.assert_allclose(orders, 2.0, atol=0.1)


def test_a_melting_interval_of_one_kelvin_is_stepped_through():
    """Capacity is some hundred times larger inside than beside it: Newton's method goes back and forth for long."""
    part = crooked_part()
    steep = dataclasses.replace(thermal.ti_6al_4v(), solidus=1899.5, liquidus=1900.5)
    heat = thermal.Heat(part.mesh, steep, part.toolpath, born=part.born, dt=0.1, method="implicit", power=100.0)
    start = heat.state(np.random.default_rng(2).uniform(1800.0, 1990.0, heat.n), s=0.5)
    run = pb.rollout(heat, start, steps=3)
    assert np.sum(np.abs(run.T[-1] - 1900.0) < 0.5) > np.sum(np.abs(run.T[0] - 1900.0) < 0.5)  # latent heat holds them
    assert 300.0 < run.T.min() and run.T.max() < 2500.0


def test_the_two_methods_meet_as_steps_get_shorter():
    apart = []
    for dt in (4e-3, 2e-3, 1e-3):
        ends = [pb.rollout(h, warm_state(h), steps=round(0.04 / dt)).T[-1] for h in
                (crooked_part(method=m, dt=dt) for m in METHODS)]  # fmt: skip
        apart.append(np.max(np.abs(ends[0] - ends[1])))
    assert apart[0] > 0.5 and 1.6 < apart[0] / apart[1] < 2.6 and 1.6 < apart[1] / apart[2] < 2.6


# --- the contract -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_checkpoints_change_nothing(method):
    heat = crooked_part(method=method, worlds=2)
    start, controls = warm_state(heat), controls_near(heat, 30)
    bar = np.random.default_rng(1).standard_normal((31, 2, heat.n))
    runs = {every: pb.rollout(heat, start, controls, checkpoint_every=every) for every in (1, 7, "sqrt", (20, 6, 2))}
    assert len(runs["sqrt"].kept) == 6 and len(runs[20, 6, 2].kept) == 3
    wanted = runs[1].pullback(T_bar=bar)
    asked = []

    def bars(steps, states):
        asked.extend(steps)
        np.testing.assert_array_equal(states.T, runs[1].T[steps])
        return bar[steps]

    for every, run in runs.items():
        np.testing.assert_array_equal(run.T, runs[1].T[run.kept])
        for given in (bar, bars):
            got = run.pullback(T_bar=given)
            np.testing.assert_array_equal(got.state.T, wanted.state.T, err_msg=str(every))
            np.testing.assert_array_equal(got.controls, wanted.controls)
            for name, value in wanted.params.items():
                np.testing.assert_allclose(got.params[name], value, rtol=1e-12)
    assert sorted(asked) == sorted(4 * list(range(31)))


def test_controls_may_be_held():
    heat = crooked_part(worlds=2)
    start, controls = warm_state(heat), controls_near(heat, 4)
    run, fine = pb.rollout(heat, start, controls, hold=3), pb.rollout(heat, start, np.repeat(controls, 3, axis=0))
    np.testing.assert_array_equal(run.T, fine.T[::3])
    bar = np.random.default_rng(0).normal(size=run.T.shape)
    spread = np.zeros(fine.T.shape)
    spread[::3] = bar
    found, wanted = run.pullback(T_bar=bar), fine.pullback(T_bar=spread)
    np.testing.assert_allclose(found.state.T, wanted.state.T, rtol=1e-12)
    np.testing.assert_allclose(found.controls, wanted.controls.reshape(4, 3, 2, 3).sum(axis=1), rtol=1e-10)
    assert np.abs(found.controls[..., 0]).min() > 0


@pytest.mark.parametrize("method", METHODS)
def test_how_many_steps_a_launch_does_is_of_no_account(method, monkeypatch):
    heat = crooked_part(method=method)
    start, controls = warm_state(heat), controls_near(heat, 20)
    results = []
    for at_once in (1, 7, 100):
        monkeypatch.setitem(ELEMENT_STEPS, method, at_once * len(heat.mesh.elements))
        assert heat._stepper.launches(20)[0] == (0, min(at_once, 20))
        run = pb.rollout(heat, start, controls, checkpoint_every=3)
        results.append((run.T, *run.pullback(T_bar=run.T).state, run.pullback(T_bar=run.T).controls))
    for other in results[1:]:
        for got, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("method", METHODS)
def test_worlds_and_cores_do_not_matter(method):
    mesh = thermal.block((10e-3, 10e-3, 8e-3), (10, 10, 8))
    path = thermal.follow([(2e-3, 2e-3, 8e-3), (8e-3, 7e-3, 8e-3)], speed=5e-3)
    born = np.where(mesh.centres[:, 2] > 6e-3, 50.0 * mesh.centres[:, 0], -np.inf)
    results = []
    for worlds, threads in ((1, 1), (1, 2), (3, 2)):
        heat = thermal.Heat(
            mesh, thermal.steel_316l(), path, born=born, dt=0.02, method=method, worlds=worlds, threads=threads
        )
        start = heat.state(300.0 + 1e5 * mesh.nodes[:, 0], s=0.1)
        run = pb.rollout(heat, start, steps=10)
        bars = run.pullback(T_bar=np.ones((worlds, heat.n)))
        results.append((run.T[:, 0], bars.state.T[0], bars.controls[:, 0], bars.params))
    for other in results[1:]:
        for got, wanted in zip(other[:3], results[0][:3], strict=True):
            # Sums over nodes are taken in another order, and what they decide in a solver.
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11 * np.max(np.abs(wanted)))
    if method == "explicit":
        np.testing.assert_array_equal(results[1][0], results[0][0])
        np.testing.assert_array_equal(results[1][1], results[0][1])
    for name, value in results[0][3].items():
        np.testing.assert_allclose(results[1][3][name], value, rtol=1e-9)
        np.testing.assert_allclose(results[2][3][name], 3 * value, rtol=1e-9)


def test_launches_by_phases_give_the_same():
    """As on CUDA, but here."""
    heat = crooked_part(worlds=2)
    start, controls = warm_state(heat), controls_near(heat, 30)
    bar = np.random.default_rng(1).standard_normal((31, 2, heat.n))
    runs, grads = [], []
    for stepper in (heat._stepper, Phases(heat)):
        heat._stepper = stepper
        runs.append(pb.rollout(heat, start, controls, checkpoint_every=4))
        grads.append(runs[-1].pullback(T_bar=bar))
    np.testing.assert_array_equal(runs[1].T, runs[0].T)
    np.testing.assert_array_equal(grads[1].state.T, grads[0].state.T)
    np.testing.assert_allclose(grads[1].controls, grads[0].controls, rtol=1e-9)
    for name, value in grads[0].params.items():
        np.testing.assert_allclose(grads[1].params[name], value, rtol=1e-9, err_msg=name)


def test_single_precision_is_near_double():
    double, single = (crooked_part(dtype=d) for d in ("float64", "float32"))
    runs = [pb.rollout(h, warm_state(h), controls_near(h, 40)) for h in (double, single)]
    np.testing.assert_allclose(runs[1].T[-1], runs[0].T[-1], rtol=2e-5)
    grads = [r.pullback(T_bar=np.ones((1, double.n))) for r in runs]
    assert np.linalg.norm(grads[1].controls - grads[0].controls) < 1e-3 * np.linalg.norm(grads[0].controls)
    for name, value in grads[0].params.items():
        assert np.linalg.norm(grads[1].params[name] - value) < 2e-3 * np.linalg.norm(value), name


def test_the_clock_of_a_long_path_loses_nothing_in_single_precision():
    """Sums of float32 would be 0.017 s behind after so many steps, and the laser and the births with them."""
    mesh = thermal.block((1e-3, 1e-3, 1e-3), (1, 1, 1))
    path = thermal.Toolpath([0.0, 300.0], [[0, 0, 1e-3], [1e-3, 0, 1e-3]], [1.0, 0.0])
    heat = thermal.Heat(mesh, plain(), path, dt=0.02, power=0.0, dtype="float32")
    controls = heat.default_controls(13_000)
    controls[:, 0, 1] = np.random.default_rng(0).uniform(0.9, 1.1, 13_000)
    wanted = np.append(0.0, np.cumsum(0.02 * controls[:, 0, 1].astype(float)))
    runs = [pb.rollout(heat, heat.state(), controls, checkpoint_every=every) for every in (1, 130)]
    for run in runs:
        np.testing.assert_allclose(run.s.astype(float).sum(axis=-1)[:, 0], wanted[run.kept], rtol=0, atol=1e-9)
        np.testing.assert_allclose(run.s[:, 0, 0], wanted[run.kept], rtol=1e-6)
    np.testing.assert_array_equal(runs[1].every_state().s, runs[0].s)
    double = heat.in_worlds(1, dtype="float64").state(s=0.1)
    np.testing.assert_array_equal(heat.state(s=double.s).s, heat.state(s=0.1).s)
    state = heat.state(s=0.1)  # one step at a time
    for _ in range(3):
        state = heat.step(state)
    assert state.s.astype(float).sum() == pytest.approx(0.16, abs=1e-12)
    grads = runs[1].pullback(s_bar=np.array([[1.0, 0.0]], dtype=np.float32))
    np.testing.assert_allclose(grads.controls[:, 0, 1], 0.02, rtol=1e-6)
    np.testing.assert_array_equal(grads.state.s, [[1.0, 1.0]])


def test_a_birth_late_on_the_path_is_in_its_own_step():
    """At 260 s two float32 numbers are 3e-5 s apart: a birth there must not come a step early or late."""
    mesh = thermal.block((2e-3, 1e-3, 1e-3), (2, 1, 1))
    path = thermal.Toolpath([0.0, 300.0], [[0, 0, 1e-3], [1e-3, 0, 1e-3]], [0.0, 0.0])
    for late, there in ((1e-6, False), (-1e-6, True)):
        heat = thermal.Heat(mesh, plain(), path, dt=0.02, born=[-np.inf, 260.0 + late], dtype="float32")
        run = pb.rollout(heat, heat.state(T=400.0), heat.default_controls(13_000), checkpoint_every=13_000)
        assert (run.T[-1, 0, 2] == 400.0) != there  # a node of the second element alone


def test_parameters_may_differ_between_worlds():
    heat = crooked_part(worlds=2)
    start, controls = warm_state(heat), controls_near(heat, 5)
    params = {"convection": np.array([10.0, 500.0]), "conductivity": heat.params["conductivity"] * [[1.0], [1.3]]}
    both = pb.rollout(heat, start, controls, params=params)
    bars = both.pullback(T_bar=np.ones((2, heat.n)))
    assert bars.params.convection.shape == (2,) and bars.params.conductivity.shape == (2, 8)
    alone = heat.in_worlds(1)
    for w in range(2):
        one = {name: value[w] for name, value in params.items()}
        run = pb.rollout(alone, thermal.HeatState(*(x[w : w + 1] for x in start)), controls[:, w : w + 1], params=one)
        np.testing.assert_array_equal(run.T[:, 0], both.T[:, w])
        got = run.pullback(T_bar=np.ones((1, heat.n)))
        np.testing.assert_allclose(got.params.conductivity, bars.params.conductivity[w], rtol=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_an_unstable_step_is_refused_with_the_limit_and_the_limit_is_near():
    with pytest.raises(pb.PullbackError, match=r"dt=0.5 s is unstable.*longest.*0\.0\d+ s.*implicit"):
        crooked_part(dt=0.5)
    limit = crooked_part().explicit_limit
    heat = crooked_part(dt=0.99 * limit, convection=0.0)
    run = pb.rollout(heat, warm_state(heat), heat.default_controls(300) * [0.0, 1.0, 1.0], checkpoint_every=300)
    assert run.T[-1].max() < 1900.0
    # What a cube of 1 mm allows, at the largest diffusivity of the table; these are bent and a bit smaller.
    assert 0.5 < limit / (2 * 1e-3**2 / (4 * 5.2e-6)) < 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dt": -1.0}, "dt must be"),
        ({"dt": float("nan")}, "dt must be"),
        ({"dt": True}, "dt must be a number above 0, not True"),
        ({"method": "magic"}, "'magic' is not known"),
        ({"method": np.array(["explicit", "implicit"])}, "is not known"),
        ({"power": -1.0}, "power must be a number of at least 0, not -1"),
        ({"ambient": np.zeros((2, 2))}, r"ambient must be a number above 0, not array\(\[\[0., 0.\], \[0., 0.\]\]\)$"),
        ({"convection": 1e308}, "unstable"),
        ({"worlds": 10**400}, "worlds must be a whole number of at most 2147483647, not 1000"),
        ({"dtype": ["float64"]}, "dtype .* is not supported"),
        ({"dtype": {}}, "dtype .* is not supported"),
        ({"worlds": 0}, "worlds must be"),
        ({"spot_radius": 0.0}, "spot_radius must be"),
        ({"dtype": "float16"}, "float16"),
        ({"threads": 0}, "threads must be"),
        ({"born": np.zeros(3)}, r"born has shape \(3,\)"),
        ({"born": np.full(24, np.nan)}, "birth of element 0"),
    ],
)
def test_bad_settings_are_named(change, message):
    with pytest.raises(pb.PullbackError, match=message):
        crooked_part(**change)


def test_bad_states_controls_and_parameters_are_named():
    heat = crooked_part(worlds=2)
    start = heat.state()
    with pytest.raises(pb.PullbackError, match="T is not finite at worlds 1"):
        heat.step(start._replace(T=np.where(np.arange(2)[:, None] == 1, np.nan, start.T)))
    with pytest.raises(pb.PullbackError, match="T has shape"):
        heat.step(start._replace(T=start.T[:, 1:]))
    for wrong in (np.full(heat.n, -1.0), np.full((1, 2, heat.n), -1.0), 0.0):
        with pytest.raises(pb.PullbackError, match="T has shape"):
            heat.step(start._replace(T=wrong))
        with pytest.raises(pb.PullbackError, match="T has shape"):
            heat.energy(start._replace(T=wrong))
    for wrong in (np.nan, "late", -1.0, 1e300, 10**400):
        with pytest.raises(pb.PullbackError, match="time must"):
            heat.steps_until(wrong)
    for wrong in (0, 1.5, "two"):
        with pytest.raises(pb.PullbackError, match="worlds must be a whole number"):
            heat.in_worlds(wrong)
    for wrong in ("", 0, ["float32"]):
        with pytest.raises(pb.PullbackError, match="dtype .* is not supported"):
            heat.in_worlds(1, dtype=wrong)
    with pytest.raises(pb.PullbackError, match="steps must be a whole number"):
        heat.default_controls(-1)
    with pytest.raises(pb.PullbackError, match="T must be above zero .K.: that of node 5 in world 1 is -3"):
        heat.step(heat.state(np.where(np.arange(2 * heat.n).reshape(2, -1) == heat.n + 5, -3.0, 300.0)))
    with pytest.raises(pb.PullbackError, match="laser is on outside the part: piece 0"):
        away = thermal.Toolpath([0.0, 1.0], [[0, 0, 2e-3], [1.0, 0, 2e-3]], [1.0, 0.0])
        thermal.Heat(heat.mesh, heat.material, away, dt=0.01)
    controls = heat.default_controls(4)
    controls[2, 1, 2] = 0.0
    with pytest.raises(pb.PullbackError, match="radius of the laser must be above zero: at step 2 in world 1"):
        pb.rollout(heat, start, controls)
    controls[2, 1] = (100.0, -1.0, 1e-3)
    with pytest.raises(pb.PullbackError, match="speed of the laser must not be negative"):
        pb.rollout(heat, start, controls)
    with pytest.raises(pb.PullbackError, match="'conductivity' at entry 2 must be positive, but is -3"):
        heat.params["conductivity"] = [1, 2, -3, 4, 5, 6, 7, 8]
    with pytest.raises(pb.PullbackError, match="no parameter 'mass'"):
        heat.step(start, params={"mass": 1.0})
    with pytest.raises(pb.PullbackError, match="unstable"):
        heat.step(start, params={"density": 80.0})
    with pytest.raises(pb.PullbackError, match="checkpoint_every"):
        pb.rollout(heat, start, steps=4, checkpoint_every=(2, 3))
    with pytest.raises(pb.PullbackError, match="cotangent function gave shape"):
        pb.rollout(heat, start, steps=4).pullback(T_bar=lambda steps, states: np.zeros(3))


def test_too_much_power_is_an_error_and_no_number_that_is_none():
    heat = crooked_part()
    controls = heat.default_controls(50)
    controls[10:, 0, 0] = 1e300
    with pytest.raises(pb.PullbackError, match="grew beyond all bounds: at step 1"):
        pb.rollout(heat, heat.state(), controls)


def test_copies_are_the_same_system():
    heat = crooked_part(worlds=2)
    heat.params["convection"] = [10.0, 90.0]
    start = warm_state(heat)
    wanted = heat.step(start)
    for other in (copy.deepcopy(heat), pickle.loads(pickle.dumps(heat))):
        np.testing.assert_array_equal(other.step(start).T, wanted.T)
        assert other._part is not heat._part


def test_a_copy_keeps_what_the_system_began_with():
    """An insulated part may take longer steps than one with the usual convection, and so may its copy."""
    dt = crooked_part(convection=0.0).explicit_limit
    heat = pickle.loads(pickle.dumps(crooked_part(worlds=2, dt=dt, convection=0.0, ambient=310.0)))
    heat.params["ambient"] = [300.0, 320.0]
    other = heat.in_worlds(1)  # whose parameters are as at first, where they differed between worlds
    assert other.params["ambient"] == 310.0 and other.params["convection"] == 0.0


def test_ambient_temperatures_of_as_many_worlds_as_there_are_nodes():
    mesh = thermal.block((1e-3, 1e-3, 1e-3), (1, 1, 1))
    heat = thermal.Heat(mesh, thermal.inconel_718(), STILL, dt=1e-3, worlds=8)
    heat.params["ambient"] = 300.0 + np.arange(8)
    np.testing.assert_array_equal(heat.state().T, np.repeat(300.0 + np.arange(8)[:, None], 8, axis=1))


def test_a_material_of_one_entry_and_replaced_figures_work():
    heat = crooked_part()
    assert dataclasses.replace(heat.material, absorptivity=0.3).absorptivity == 0.3
    flat = thermal.Heat(heat.mesh, plain(latent=1e5), heat.toolpath, dt=0.02)
    assert np.all(np.isfinite(flat.step(flat.state()).T))


def test_a_row_of_temperatures_that_kernels_cannot_step_over():
    heat = crooked_part()
    with pytest.raises(pb.PullbackError, match="rows of less than 2 GiB: use fewer worlds"):
        heat.in_worlds(2**31 // (8 * heat.n) + 1)


@pytest.mark.parametrize("method", METHODS)
def test_temperatures_that_end_the_motion(method):
    """The error has the world, the step and the states before it."""
    heat = crooked_part(worlds=2, dt=2e-3, method=method)
    controls = heat.default_controls(40)
    controls[20:, 1, 0] = 1e14
    with pytest.raises(pb.SimulationError) as error:
        pb.rollout(heat, heat.state(), controls)
    found = error.value
    assert found.world == 1 and found.step >= 20
    good = pb.rollout(heat, heat.state(), controls[: found.step])
    assert np.array_equal(found.states.T, good.T) and np.array_equal(found.states.s, good.s)
    with pytest.raises(pb.PullbackError, match="the state given is absurd"):
        crooked_part().step(crooked_part().state(1e8))
