"""What soft bodies are given in place of what they need: each is an error of one line that names it."""

import numpy as np
import pytest

import pullback as pb
from pullback import soft
from pullback.soft import Shape

JELLY = soft.NeoHookean(young=2e3, poisson=0.3, density=1000.0)
COTTON = soft.Membrane(young=300.0, density=0.2)
UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


def particles(**others) -> soft.Particles:
    body = soft.block((0.3, 0.3, 0.3), (0.5, 0.5, 0.5), (2, 2, 2), JELLY)
    return soft.Particles(**{"bodies": body, "dx": 0.1, "cells": (11, 11, 11), "dt": 1e-2} | others)


def cloth(**others) -> soft.Elastic:
    body = soft.sheet((0, 0, 0), (1, 0, 0), (0, 1, 0), (2, 2), COTTON)
    return soft.Elastic(**{"bodies": body, "dt": 0.01} | others)


def shape(kind="box", size=(1.0, 1.0, 1.0), position=(0, 0, 0), quat=UPRIGHT) -> Shape:
    return Shape(kind, np.array(size), np.array(position), np.array(quat))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: particles(cells=11), "cells must be some whole numbers"),
        (lambda: particles(cells="11"), "cells must be some whole numbers"),
        (lambda: particles(bodies=None), "a body must be a Body"),
        (lambda: particles(walls=3), "a wall must be a Wall"),
        (lambda: particles(shapes=3), "a shape must be a Shape"),
        (lambda: particles().among("ball"), "a shape must be a Shape"),
        (lambda: soft.block((0, 0), (1, 1), 3, JELLY), "counts must be some whole numbers"),
        (lambda: soft.Snow(young=1.0, poisson=0.3, density=1.0, compression=2.0), "compression must be below 1"),
        (lambda: cloth(bodies=None), "bodies must be some"),
        (lambda: cloth(shapes=3), "a shape must be a Shape"),
        (lambda: cloth(handles=3), "handles must be lists of vertices"),
        (lambda: soft.sheet((0, 0, 0), (1, 0, 0), (0, 1, 0), 3, COTTON), "cells must be some whole numbers"),
        (lambda: soft.sheet((0, 0, 0), (1, 0, 0), (0, 1, 0), (3, 3, 3), COTTON), "must be two numbers, not 3"),
        (lambda: shape("cone"), "no kind of Shape 'cone'"),
        (lambda: shape(size=(1.0, 1.0)), "size of a Shape must be 3 finite numbers"),
        (lambda: shape(position=(0, np.nan, 0)), "position of a Shape must be 3 finite numbers"),
        (lambda: shape(size=(1.0, 0.0, 1.0)), "a box needs sizes above zero"),
        (lambda: shape("sphere", size=(0.0, 1.0, 1.0)), "a sphere needs sizes above zero"),
        (lambda: shape(quat=np.zeros(4)), "a quaternion that is not zero"),
        (
            lambda: pb.Coupled(pb.Articulated(pb.load(pb.robots.pendulum())), particles(dt=0.005), shapes=3),
            "a name in shapes",
        ),
    ],
)
def test_refused(wrong, says):
    with pytest.raises(pb.PullbackError, match=says) as error:
        wrong()
    assert "\n" not in str(error.value)


def test_a_quaternion_of_any_length_is_a_rotation():
    np.testing.assert_allclose(shape(quat=(2.0, 0.0, 0.0, 2.0)).rotation[:, 0], (0.0, 1.0, 0.0), atol=1e-15)
