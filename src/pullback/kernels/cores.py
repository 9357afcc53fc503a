"""Several cores, or the threads of a CUDA block, that work on one thing and wait for each other."""

import warp as wp

# Nodes that a core takes at a time. Those of unborn elements are cheap and adjacent, so shares are interleaved.
BLOCK = wp.constant(128)


@wp.struct
class Share:
    """What a core does: its worlds, and in them its share among the cores that have the same."""

    first_world: int
    end_world: int
    core: int
    cores: int
    lane: int  # where its sums go
    threads: int  # of a CUDA block, which shares a world; 1 on the CPU
    gate: wp.array(dtype=wp.int32)  # zero at the start; negative if one of the cores cannot come
    sums: wp.array2d(dtype=wp.float64)  # [0 or 1, core], for totals


@wp.func_native(
    """
    #if defined(__CUDA_ARCH__)
    __syncthreads();
    #else
    if (cores > 1) {
        int here = __atomic_add_fetch(&gate.data[0], 1, __ATOMIC_SEQ_CST);
        for (int spins = 0; 0 <= here && here < cores * meeting; ++spins) {
            #if defined(__linux__)  // elsewhere the name is another, and waiting is all there is
            if (spins > 4000) { extern int give_way(void) __asm__("sched_yield"); give_way(); }
            #endif
            here = __atomic_load_n(&gate.data[0], __ATOMIC_SEQ_CST);
        }
        return here >= 0;
    }
    #endif
    return true;
    """
)
def meet(gate: wp.array(dtype=wp.int32), cores: int, meeting: int) -> bool:
    """Waits until all cores are here, for the meeting-th time (from 1). A core that waits long yields to others.

    False if not all cores could be started, which only the first meeting has to ask: whoever has started comes to the
    others too. On CUDA the cores are the threads of a block, and ``gate`` is not looked at.
    """


@wp.struct
class Team:
    """The cores that share a world, seen from one of them."""

    core: int
    cores: int
    base: int  # place of the first of them in ``sums``
    block: int  # nodes at a time
    gate: wp.array(dtype=wp.int32)
    sums: wp.array2d(dtype=wp.float64)


@wp.func(inline=True)
def team_of(share: Share, thread: int):
    """On the CPU a core is its share; on CUDA the threads of a block are the team of a world."""
    team = Team()
    team.core = share.core + thread % share.threads
    team.cores = share.cores
    team.base = share.lane - share.core + thread - thread % share.threads
    team.block = wp.where(share.threads > 1, 1, BLOCK)
    team.gate = share.gate
    team.sums = share.sums
    return team


@wp.func(inline=True)
def total(team: Team, mine: wp.float64, meeting: int):
    """The sum of all cores' numbers, the same to the last bit for each. Meets once.

    Two rows take turns: nobody can write to a row again before everybody has read it and met over the other.
    """
    row = meeting % 2
    team.sums[row, team.base + team.core] = mine
    meet(team.gate, team.cores, meeting)
    result = wp.float64(0.0)
    for c in range(team.cores):
        result += team.sums[row, team.base + c]
    return result
