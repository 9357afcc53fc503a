"""Reachability maps and the plans made with them: are they right, and fast?

    python benchmarks/reach.py [--json FILE] [--quick] [--only NAME ...]

What is asked is in the files beside this one.
"""

from common import main
from reach_maps import QUESTIONS as MAPS
from reach_plans import QUESTIONS as PLANS

if __name__ == "__main__":
    main(MAPS | PLANS)
