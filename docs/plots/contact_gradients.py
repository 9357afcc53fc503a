"""The pictures of docs/choose-a-contact-model.md: gradients across touch-down, stick-slip and lift-off.

Every pullback is shown next to central differences of the same simulation, and next to what a user would like to know:
the trend over a wider range, or the closed form of rigid bodies with Coulomb friction. Nothing here is random.

Run: python docs/plots/contact_gradients.py [FOLDER]        (FOLDER: docs/images unless told)
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import pullback as pb

GRAVITY, MASS, FRICTION = 9.81, 1.0, 0.5
TEXT, GRID, GREY = "#2b313b", "#e3e6eb", "#b5bbc6"
BLUE, ORANGE, GREEN, PURPLE, RED = "#2f6fde", "#e07b1a", "#1f9d6b", "#8a4fd0", "#c8323c"
SLIDES = "".join(
    f'<joint name="{name}" type="slide" axis="{axis}"/>'
    for name, axis in (("x", "1 0 0"), ("y", "0 1 0"), ("z", "0 0 1"))
)


def scene(geom: str, *, timestep: float = 0.002, surface: str = "", push: str = "x") -> pb.Model:
    """A body that moves without turning above a floor, and a motor that pushes it."""
    return pb.load(f"""<mujoco><option timestep="{timestep}"/><default><geom {surface}/></default>
      <worldbody><geom name="floor" type="plane" size="9 9 1" friction="0.01"/>
        <body pos="0 0 0.1">{SLIDES}<geom name="body" {geom} mass="{MASS}" friction="{FRICTION}"/></body></worldbody>
      <actuator><motor joint="{push}"/></actuator></mujoco>""")


def along(axis: int, count: int) -> np.ndarray:
    """The cotangent (count, 3) that picks one coordinate of every world."""
    return np.tile(np.eye(3)[axis], (count, 1))


# --- touch-down: a ball falls, and its height is looked at half a second later ----------------------------------------

BOUNCY = 'condim="1" solref="0.05 0.3"'
STIFF = {"contact_stiffness": 1e4, "contact_dissipation": 0.3}
DROPS = {  # name: contact model, attributes of the shapes, colour
    "ContactConvex\nsolref 0.05 0.3": (pb.ContactConvex(), BOUNCY, BLUE),
    "ContactImpulse\nrestitution 0.5": (pb.ContactImpulse(restitution=0.5), 'condim="1"', ORANGE),
    "ContactCompliant\n10 kN/m, smoothing 0.1 mm": (pb.ContactCompliant(**STIFF), 'condim="1"', GREEN),
    "ContactConvex\nsolref 0.05 0.3, solimp from 0": (
        pb.ContactConvex(),
        BOUNCY + ' solimp="0 0.95 0.05 0.5 1"',
        PURPLE,
    ),
    "ContactCompliant\n10 kN/m, smoothing 1 cm": (pb.ContactCompliant(**STIFF, smoothing=1e-2), 'condim="1"', RED),
}


def drop(contact, surface: str, heights: np.ndarray, timestep: float = 0.002, refine: float | None = None):
    """Height after half a second [m], its derivative by the height the ball falls from, and the trend of that."""
    count = len(heights)
    model = scene('size="0.1"', timestep=timestep, surface=surface)
    system = pb.Articulated(model, contact, worlds=count, refine=refine)
    start = system.state(heights[:, None] * [0, 0, 1], np.zeros((count, 3)))
    run = pb.rollout(system, start, steps=round(0.5 / timestep))
    value, slope = run.q[-1, :, 2], run.pullback(q_bar=along(2, count), wants_params=False).state.q[:, 2]
    middle = heights.mean()
    return value, slope, np.polyval(np.polyder(np.polyfit(heights - middle, value, 3)), heights - middle)


def touch_down(folder: Path, file: str, names: list[str], title: str) -> None:
    figure = Figure(figsize=(3.4 * len(names) + 0.4, 5.4), layout="constrained")
    axes = figure.subplots(2, len(names), sharex=True, sharey="row")
    heights, small = np.linspace(0.35, 0.45, 201), 1e-7
    few = heights[::8]
    for column, name in enumerate(names):
        contact, surface, colour = DROPS[name]
        value, slope, trend = drop(contact, surface, heights)
        high, low = (drop(contact, surface, few + d)[0] for d in (small, -small))
        axes[0, column].plot(heights, value, color=colour)
        axes[0, column].set_title(name, fontsize=10, color=TEXT)
        below = axes[1, column]
        below.plot(heights, trend, color=GREY, linewidth=5, label="trend: slope of a cubic through all")
        below.plot(heights, slope, color=colour, linewidth=1.2, label="pullback")
        below.plot(few, (high - low) / (2 * small), "k+", markersize=6, label="differences over ±0.1 µm")
        below.set_xlabel("drop height [m]")
        below.set_ylim(-7.5, 2.5)
        below.legend(fontsize=8, loc="lower left", frameon=False)
    axes[0, 0].set_ylabel("height after 0.5 s [m]")
    axes[1, 0].set_ylabel("its derivative [m/m]")
    save(figure, folder / file, title)


def smaller_steps(folder: Path) -> None:
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    axes = figure.subplots()
    heights, timesteps = np.linspace(0.35, 0.45, 61), np.array([4, 2, 1, 0.5, 0.25, 0.125])
    for name, (contact, surface, colour) in DROPS.items():
        found = [drop(contact, surface, heights, 1e-3 * h) for h in timesteps]
        errors = [np.sqrt(np.mean((slope - trend) ** 2)) for _, slope, trend in found]
        axes.loglog(timesteps, errors, "o-", color=colour, label=name.replace("\n", ", "), markersize=4)
    axes.set_xticks(timesteps, [f"{h:g}" for h in timesteps])
    axes.minorticks_off()
    axes.set_xlabel("timestep [ms]")
    axes.set_ylabel("pullback minus trend, root mean square [m/m]")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(
        figure,
        folder / "smaller_steps.png",
        "Smaller steps help if the force does not jump, or jumps on time",
    )


def refined(folder: Path) -> None:
    """ContactConvex again, with refinement: the gradient, and how it tends to the trend with the tolerance."""
    figure = Figure(figsize=(10.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    heights = np.linspace(0.35, 0.45, 201)
    contact, surface, colour = DROPS["ContactConvex\nsolref 0.05 0.3"]
    _, plain, _ = drop(contact, surface, heights)
    _, slope, trend = drop(contact, surface, heights, refine=1e-3)
    left.plot(heights, trend, color=GREY, linewidth=5, label="trend")
    left.plot(heights, plain, color=colour, linewidth=1.2, label="pullback through MuJoCo's steps")
    left.plot(heights, slope, color=PURPLE, linewidth=1.2, label="pullback with refine=1e-3")
    left.set_xlabel("drop height [m]")
    left.set_ylabel("derivative of the height after 0.5 s [m/m]")
    left.set_ylim(top=2.2)
    left.legend(fontsize=8, frameon=False, loc="upper right")
    tolerances = np.array([8e-3, 4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4])
    found = [drop(contact, surface, heights[::4], refine=tolerance) for tolerance in tolerances]
    errors = [np.sqrt(np.mean((slope - trend) ** 2)) for _, slope, trend in found]
    right.loglog(1e3 * tolerances, errors, "o-", color=PURPLE, markersize=4, label="refined")
    right.axhline(np.sqrt(np.mean((plain - trend) ** 2)), color=colour, label="MuJoCo's steps")
    right.set_xticks(1e3 * tolerances, [f"{1e3 * tolerance:g}" for tolerance in tolerances])
    right.minorticks_off()
    right.set_xlabel("tolerance [mm]")
    right.set_ylabel("pullback minus trend, root mean square [m/m]")
    right.legend(fontsize=8, frameon=False, loc="lower right")
    save(figure, folder / "refined_steps.png", "With refined steps the pullback is the slope of the trajectory")


# --- pushing and lifting a block: the force grows for half a second, and stays for another ----------------------------

MODELS = {
    "ContactConvex": (pb.ContactConvex(), BLUE),
    "ContactImpulse": (pb.ContactImpulse(), ORANGE),
    "ContactCompliant": (pb.ContactCompliant(), GREEN),
}
TIMESTEP = 0.002
PROFILE = np.minimum(np.arange(round(1.0 / TIMESTEP)) * TIMESTEP / 0.5, 1.0)


def push(contact, axis: int, force: np.ndarray, mu: np.ndarray):
    """How far a block has come from where it lay [m], and its derivatives by force [m/N] and by friction [m]."""
    model = scene('type="box" size="0.1 0.1 0.1"', push="xyz"[axis], timestep=TIMESTEP)
    alone = pb.Articulated(model, contact)
    rest = pb.rollout(alone, alone.state(), steps=1000).final
    system = alone.in_worlds(len(force))
    friction = np.tile(system.params["friction"], (len(force), 1, 1))
    friction[:, 1, 0] = mu
    controls = PROFILE[:, None, None] * force[:, None]
    run = pb.rollout(system, system.state(rest.q[0], rest.v[0]), controls, params={"friction": friction})
    grads = run.pullback(q_bar=along(axis, len(force)))
    by_force = np.einsum("t,tw->w", PROFILE, grads.controls[:, :, 0])
    return np.array([run.q[-1, :, axis] - rest.q[0, axis], by_force, grads.params["friction"][:, 1, 0]])


def rigid(force: np.ndarray, threshold: float) -> np.ndarray:
    """The same of a rigid block that moves as soon as the force is above the threshold [N]."""
    excess = np.maximum(PROFILE[:, None] * force - threshold, 0.0)
    return np.cumsum(np.cumsum(excess, axis=0), axis=0)[-1] * TIMESTEP**2 / MASS


def block(
    folder: Path, file: str, title: str, axis: int, force: np.ndarray, threshold, models: dict, low, high
) -> None:
    """``threshold``: the force [N] at which a rigid block begins to move, by the coefficient of friction."""
    names = ["way after 1 s [m]", "its derivative by force [m/N]", "its derivative by friction [m]"][: len(low)]
    figure = Figure(figsize=(4.4 * len(names), 4.2), layout="constrained")
    plots = figure.subplots(1, len(names))
    few, small, mu = force[::8], 1e-6, FRICTION
    exact = [rigid(force, threshold(mu)), rigid(force + small, threshold(mu)), rigid(force, threshold(mu + small))]
    exact[1:] = [(x - exact[0]) / small for x in exact[1:]]
    for axes, curve in zip(plots, exact, strict=False):
        axes.plot(force, curve, color=GREY, linewidth=5, label="rigid body")
    for name, (contact, colour) in models.items():
        curves = push(contact, axis, force, np.full(force.shape, mu))
        # central differences by force and by friction, all in one run
        moved = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]) * small
        many = push(contact, axis, *(np.add.outer(moved[:, i], x).ravel() for i, x in enumerate((few, 0 * few + mu))))
        ends = many[0].reshape(4, -1)
        slopes = [None, (ends[0] - ends[1]) / (2 * small), (ends[2] - ends[3]) / (2 * small)]
        for axes, curve, slope in zip(plots, curves, slopes, strict=False):
            axes.plot(force, curve, color=colour, linewidth=1.4, label=name)
            if slope is not None:
                axes.plot(few, slope, "+", color=colour, markersize=7)
    for row, axes in enumerate(plots):
        axes.set_ylim(low[row], high[row])
        axes.set_xlabel(("force along the floor [N]", "", "force upwards [N]")[axis])
        axes.set_ylabel(names[row])
        if row:
            axes.plot([], [], "k+", label="differences over ±1 µN" if row == 1 else "differences over ±1e-6")
        axes.legend(fontsize=8, frameon=False)
    save(figure, folder / file, title)


def save(figure: Figure, path: Path, title: str) -> None:
    figure.suptitle(title, color=TEXT, fontsize=12, fontweight="bold")
    for axes in figure.axes:
        axes.grid(True, color=GRID)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8, labelcolor=TEXT)
    figure.savefig(path, dpi=100)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "images"
    target.mkdir(parents=True, exist_ok=True)
    names = list(DROPS)
    touch_down(target, "touch_down.png", names[:3], "The pullback is the slope of each tooth, not the trend")
    touch_down(target, "touch_down_smooth.png", names[3:], "If the force sets in smoothly, slope and trend agree")
    smaller_steps(target)
    refined(target)
    title, forces = "Below the friction limit the gradient is zero, or that of creep", np.linspace(3.0, 7.0, 161)
    limits = (-0.02, -0.02, -3.4), (0.5, 0.3, 0.2)
    block(target, "stick_slip.png", title, 0, forces, lambda mu: mu * MASS * GRAVITY, MODELS, *limits)
    title, forces = "Before lift-off the force has almost no effect", np.linspace(9.0, 10.6, 161)
    soft = {"ContactCompliant, smoothing 1 cm": (pb.ContactCompliant(smoothing=1e-2), RED)}
    limits = (-0.01, -0.08), (0.17, 0.26)
    block(target, "lift_off.png", title, 2, forces, lambda mu: MASS * GRAVITY, MODELS | soft, *limits)
