"""A System whose pullback a test changes, to see that check_system finds it."""

import pullback as pb
from pullback.core.system import Bars, Named


class Altered(pb.System):
    """Another System, with a pullback that is deliberately wrong."""

    def __init__(self, inner, alter):
        self.inner, self.alter = inner, alter
        self.model, self.params = inner.model, inner.params
        self.worlds, self.nu, self.dtype, self.device = inner.worlds, inner.nu, inner.dtype, inner.device

    def state(self):
        return self.inner.state()

    def in_worlds(self, worlds):
        return self.inner.in_worlds(worlds)

    def step(self, state, control, params=None):
        return self.inner.step(state, control, params)

    def pullback(self, state, control, next_bar, params=None):
        bars = self.inner.pullback(state, control, next_bar, params)
        copies = Bars(
            pb.State(*(x.copy() for x in bars.state)),
            bars.control.copy(),
            Named({name: bar.copy() for name, bar in bars.params.items()}),
        )
        self.alter(copies)
        return copies
