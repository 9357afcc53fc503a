"""Materials: the tables are what they say, and figures that cannot be are refused by entry."""

from dataclasses import replace

import numpy as np
import pytest

from pullback import PullbackError
from pullback.thermal import inconel_718, steel_316l, ti_6al_4v

ALL = [inconel_718(), ti_6al_4v(), steel_316l()]


@pytest.mark.parametrize("material", ALL, ids=lambda m: m.name)
def test_tables_are_those_of_metals(material):
    assert material.source
    assert np.all((material.conductivity > 5) & (material.conductivity < 40))
    assert np.all((material.capacity > 400) & (material.capacity < 850))
    assert 1500 < material.solidus < material.liquidus < 2000
    assert 2e5 < material.latent_heat < 4e5
    assert material.temperatures[0] <= 300 and material.temperatures[-1] >= material.liquidus - 1


def test_between_and_beyond_the_entries():
    inconel = inconel_718()
    assert inconel.conductivity_at(573.0) == pytest.approx((12.9 + 17.4) / 2)
    assert inconel.capacity_at(100.0) == 435 and inconel.capacity_at(5000.0) == 720
    steel = steel_316l()
    assert steel.conductivity_at(1000.0) == pytest.approx(9.248 + 15.71)


def test_tables_are_those_that_they_were_checked_against():
    """Other people's fits and tables, quoted in the docstrings, where these are to agree."""
    T = np.array([298.0, 473, 673, 873, 1273, 1443])
    inconel = inconel_718()
    np.testing.assert_allclose(inconel.conductivity_at(T), 0.5603 + 0.0294 * T - 7e-6 * T**2, rtol=0.032)
    np.testing.assert_allclose(inconel.capacity_at(T), 360.56 + 0.2621 * T - 4e-5 * T**2, rtol=0.02)
    titanium = ti_6al_4v()
    cold, hot = np.array([298.0, 500, 873, 1200]), np.array([1300.0, 1500, 1800])
    np.testing.assert_allclose(titanium.capacity_at(cold), 483.04 + 0.215 * cold, rtol=0.01)
    np.testing.assert_allclose(titanium.capacity_at(hot), 412.70 + 0.180 * hot, rtol=0.01)
    np.testing.assert_allclose(titanium.conductivity_at([298, 673, 1173, 1573, 1973]), [7, 11.35, 20.2, 23.7, 34.6])
    steel = steel_316l()
    np.testing.assert_allclose(steel.conductivity_at(T), 100 * (0.09248 + 1.571e-4 * T), rtol=1e-12)
    np.testing.assert_allclose(steel.capacity_at(T), 4184 * (0.1097 + 3.174e-5 * T), rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conductivity": [8.9, 12, 17, -1, 26, 26, 29, 29]}, "conductivity of Inconel 718 .*entry 3 is -1"),
        ({"capacity": [435, 479, 0, 558, 680, 620, 650, 720]}, "capacity of Inconel 718 .*entry 2 is 0"),
        ({"conductivity": [1, 2]}, "conductivity of Inconel 718 has 2 entries"),
        ({"temperatures": [298, 473, 673, 673, 1073, 1273, 1443, 1609]}, "temperatures .*entry 3"),
        ({"capacity": [435, 479, np.nan, 558, 680, 620, 650, 720]}, "entry 2 is nan"),
        ({"density": 0.0}, "density of Inconel 718 must be above zero"),
        ({"density": np.inf}, "density of Inconel 718"),
        ({"latent_heat": np.inf}, "latent_heat of Inconel 718"),
        ({"emissivity": 1.2}, "emissivity of Inconel 718"),
        ({"absorptivity": -0.1}, "absorptivity of Inconel 718"),
        ({"latent_heat": -1.0}, "latent_heat of Inconel 718"),
        ({"liquidus": 1500.0}, "solidus of Inconel 718 must be below"),
        ({"liquidus": 1e30}, "liquidus of Inconel 718 must be at most 100000"),
        ({"density": 10**400}, "density of Inconel 718 must be a number"),
        ({"density": True}, "density of Inconel 718 must be a number"),
    ],
)
def test_what_no_material_has_is_refused(change, message):
    with pytest.raises(PullbackError, match=message):
        replace(inconel_718(), **change)
