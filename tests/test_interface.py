"""What mypy reads is also run: a signature that is right for the checker and wrong at run time would be found here."""

import interface
import numpy as np

from pullback import plan


def test_the_interface_as_users_write_it():
    assert interface.robot_and_gradient() > 0
    assert interface.own_system() < 1e-6
    found = interface.planned()
    assert found.stopped == plan.REACHED or found.losses[-1] < found.losses[0]
    assert np.all(interface.by_torch().numpy() != 0)
