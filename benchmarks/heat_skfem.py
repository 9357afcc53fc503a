"""The same discrete problem by scikit-fem and scipy, independently: assembled matrices, tables by scipy's polynomials.

An explicit step with the state in temperatures: enthalpy and conduction potential at the nodes, lumped capacity and
losses, the laser at the Gauss points of faces that look up, material that is laid down at ambient temperature.
"""

import meshio
import numpy as np
from scipy.interpolate import BSpline, PPoly
from skfem import Basis, ElementHex1, FacetBasis, LinearForm
from skfem.io.meshio import from_meshio
from skfem.models.poisson import laplace

from pullback import thermal

STEFAN_BOLTZMANN = 5.670374419e-8  # [W/m²/K⁴]
ROUNDED = 0.25  # how far corners of a table are rounded, against the distance to the nearer entry
REFERENCE = 250.0  # [K] where integrals begin
TOP = 20_000.0  # [K] where polynomials end


def smooth_table(T: np.ndarray, values: np.ndarray) -> PPoly:
    """The antiderivative of a slope that turns linearly from one line's to the next's around each entry."""
    gaps = np.diff(T)
    half = ROUNDED * np.minimum(np.append(gaps, gaps[-1]), np.insert(gaps, 0, gaps[0]))
    slopes = np.concatenate([[0.0], np.diff(values) / gaps, [0.0]])
    x = np.concatenate([[REFERENCE], np.stack([T - half, T + half], axis=1).ravel(), [TOP]])
    y = np.concatenate([[0.0], np.stack([slopes[:-1], slopes[1:]], axis=1).ravel(), [0.0]])
    slope = PPoly(np.stack([np.diff(y) / np.diff(x), y[:-1]]), x)
    whole = slope.antiderivative()
    whole.c[-1] += values[0]
    return whole


class Reference:
    """Steps a Heat System's part under its default controls."""

    def __init__(self, heat: thermal.Heat):
        self.heat, material = heat, heat.material
        points, cells = heat.mesh.nodes, [("hexahedron", heat.mesh.elements)]
        self.mesh, self.element = from_meshio(meshio.Mesh(points, cells)), ElementHex1()
        assert np.array_equal(self.mesh.p.T, points)
        self.centres_order()
        self.k = smooth_table(material.temperatures, material.conductivity)
        self.c = smooth_table(material.temperatures, material.capacity)
        self.theta, self.H = self.k.antiderivative(), self.c.antiderivative()
        bump = BSpline.basis_element(np.linspace(material.solidus, material.liquidus, 4), extrapolate=False)
        self.area_of_bump = float(bump.integrate(material.solidus, material.liquidus))
        self.bump, self.melt = bump, bump.antiderivative()

    def centres_order(self) -> None:
        """Which of our elements each of scikit-fem's is, by their centres."""
        theirs = self.mesh.p[:, self.mesh.t].mean(axis=1).T
        ours = self.heat.mesh.centres
        a, b = (np.lexsort(np.rint(x * 1e9).astype(int).T) for x in (theirs, ours))
        self.born = np.empty(len(ours))
        self.born[a] = self.heat.born[b]

    def enthalpy(self, T):
        material = self.heat.material
        inside = np.clip(T, material.solidus, material.liquidus)
        return self.H(T) + material.latent_heat / self.area_of_bump * np.nan_to_num(self.melt(inside))

    def capacity(self, T):
        return self.c(T) + self.heat.material.latent_heat / self.area_of_bump * np.nan_to_num(self.bump(T))

    def warmed(self, T, energy):
        """Newton's method with short steps, from where it was."""
        target, new = self.enthalpy(T) + energy, T.copy()
        for _ in range(200):
            change = np.clip((self.enthalpy(new) - target) / self.capacity(new), -20.0, 20.0)
            new = new - change
            if np.max(np.abs(change)) < 1e-10:
                return new
        raise AssertionError("no temperature was found")

    def volumes(self, live):
        if not np.any(live):
            return np.zeros(self.mesh.p.shape[1])
        basis = Basis(self.mesh, self.element, elements=np.flatnonzero(live), intorder=3)
        return LinearForm(lambda v, w: v).assemble(basis)

    def assemble(self, live):
        """Stiffness, volumes, exposed areas, and the faces that look up, for the elements that are there."""
        basis = Basis(self.mesh, self.element, elements=np.flatnonzero(live), intorder=3)
        stiffness = laplace.assemble(basis)
        facets, count = np.unique(self.mesh.t2f[:, live], return_counts=True)
        exposed = facets[count == 1]
        side = np.where(live[self.mesh.f2t[0, exposed]], 1.0, -1.0)  # of the element that faces are seen from
        surface = FacetBasis(self.mesh, self.element, facets=exposed, intorder=3)
        area = LinearForm(lambda v, w: v).assemble(surface)
        top = []
        for sign in (1.0, -1.0):
            mine = exposed[side == sign]
            if len(mine):
                part = FacetBasis(self.mesh, self.element, facets=mine, intorder=3)
                looks_up = mine[np.any(sign * part.normals[2] > 1e-9, axis=1)]
                if len(looks_up):
                    top.append((sign, FacetBasis(self.mesh, self.element, facets=looks_up, intorder=3)))
        return stiffness, self.volumes(live), area, top

    def run(self, steps: int) -> np.ndarray:
        heat, material = self.heat, self.heat.material
        ambient, convection = float(heat.params["ambient"]), float(heat.params["convection"])
        power, _, radius = heat.default_controls(1)[0, 0]
        T, s = np.full(heat.n, ambient), float(heat.toolpath.times[0])
        live = self.born <= s
        stiffness, volume, area, top = self.assemble(live)
        for _ in range(steps):
            place, on = heat.toolpath.at(s + 0.5 * heat.dt)
            peak = 3 * material.absorptivity * power * on / (np.pi * radius**2)
            flux = np.zeros(heat.n)
            for sign, basis in top if on else ():
                form = LinearForm(
                    lambda v, w, sign=sign, place=place, peak=peak: v * peak * np.maximum(sign * w.n[2], 0.0)
                    * np.exp(-3 * sum((w.x[i] - place[i]) ** 2 for i in range(3)) / radius**2)
                )  # fmt: skip
                flux += form.assemble(basis)
            loss = convection * (T - ambient) + STEFAN_BOLTZMANN * material.emissivity * (T**4 - ambient**4)
            heat_in = flux - stiffness @ self.theta(T) - area * loss
            s = s + heat.dt
            now = self.born <= s
            energy = np.zeros(heat.n)
            if np.any(now != live):
                live, old = now, volume
                stiffness, volume, area, top = self.assemble(live)
                there = volume > 0
                cold = (volume - old) * (self.enthalpy(np.array([ambient])) - self.enthalpy(T))
                energy[there] = ((heat.dt * heat_in / material.density + cold)[there]) / volume[there]
            else:
                there = volume > 0
                energy[there] = heat.dt * heat_in[there] / material.density / volume[there]
            T = self.warmed(T, energy)
        return T
