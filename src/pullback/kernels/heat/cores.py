"""Several cores, or the threads of a CUDA block, that work on one part and wait for each other."""

import warp as wp

# Nodes that a core takes at a time. Unborn ones are quickly done, and they lie together: shares are interleaved.
BLOCK = wp.constant(128)


@wp.struct
class Share:
    """What a core does: its worlds, and in them its share among the cores that have the same."""

    first_world: int
    end_world: int
    core: int
    cores: int
    lane: int  # where its sums go
    arrived: wp.array(dtype=wp.int32)  # zero at the start


@wp.func_native(
    """
    #if defined(__CUDA_ARCH__)
    __syncthreads();
    #else
    if (cores > 1) {
        __atomic_add_fetch(&arrived.data[0], 1, __ATOMIC_SEQ_CST);
        for (int spins = 0; __atomic_load_n(&arrived.data[0], __ATOMIC_SEQ_CST) < cores * meeting; ++spins) {
            #if defined(__linux__)  // elsewhere the name is another, and waiting is all there is
            if (spins > 4000) { extern int give_way(void) __asm__("sched_yield"); give_way(); }
            #endif
        }
    }
    #endif
    """
)
def meet(arrived: wp.array(dtype=wp.int32), cores: int, meeting: int):
    """Waits until all cores are here, for the meeting-th time (from 1). A core that waits long gives way to others.

    On CUDA the cores are the threads of a block, and ``arrived`` is not looked at.
    """


@wp.struct
class Crew:
    """The cores that share a world, seen from one of them."""

    core: int
    cores: int
    base: int  # place of the first of them in ``sums``
    block: int  # nodes at a time
    arrived: wp.array(dtype=wp.int32)
    sums: wp.array2d(dtype=wp.float64)  # [0 or 1, core]


@wp.func(inline=True)
def total(crew: Crew, mine: wp.float64, meeting: int):
    """The sum of all cores' numbers, the same to the last bit for each. Meets once.

    Two rows take turns: nobody can write to a row again before everybody has read it and met over the other.
    """
    row = meeting % 2
    crew.sums[row, crew.base + crew.core] = mine
    meet(crew.arrived, crew.cores, meeting)
    result = wp.float64(0.0)
    for c in range(crew.cores):
        result += crew.sums[row, crew.base + c]
    return result
