"""A System whose pullback is changed, to see that check_system finds it."""

import pullback as pb
from pullback.core.bars import Bars, Named


class Altered(pb.System):
    """Another System; ``alter`` changes a copy of each of its cotangents in place."""

    def __init__(self, inner, alter):
        self.inner, self.alter = inner, alter
        self.model, self.params, self.state, self.in_worlds = inner.model, inner.params, inner.state, inner.in_worlds
        self.worlds, self.nu, self.dtype, self.device = inner.worlds, inner.nu, inner.dtype, inner.device

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
