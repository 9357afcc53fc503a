"""What all tests share: how hypothesis runs, and which tests may be skipped."""

import os
import signal

if "PYTEST_XDIST_WORKER" in os.environ:  # a worker has about one core: threads of BLAS would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported; also for processes that tests start

import mujoco
import pytest
import warp as wp
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # else what is started in the background never hears ctrl-C
wp.config.log_level = wp.LOG_WARNING  # no notes of compilations in what tests read
mujoco.set_mju_user_warning(lambda message: None)  # read from the data instead; it would write MUJOCO_LOG.TXT
# Derandomised: a failure is the same on every machine. Kernels may compile in the first example, so no deadline. A test
# that rejects most of its examples is a failure.
SUPPRESSED = [check for check in HealthCheck if check is not HealthCheck.filter_too_much]
settings.register_profile("pullback", deadline=None, derandomize=True, database=None, suppress_health_check=SUPPRESSED)
settings.load_profile("pullback")

# A test that is skipped shows nothing, so that `make test` counts it as failed. Reasons that are accepted all the same:
# no machine of `make test` has a GPU; `make test-gpu` is for those that do.
ACCEPTED_SKIPS = ("needs a CUDA device",)


# Pages and examples are single tests of up to some minutes: they run first, so that no core waits for the last of them.
LONG = ("test_docs.py", "test_examples.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_addoption(parser):
    parser.addoption("--fail-on-skip", action="store_true", help="a skip is a failure, but for those that need CUDA")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return without_skip((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return without_skip((yield), collector.config)


def without_skip(report, config):
    """The report, failed if it was skipped for a reason that is not accepted."""
    if not config.getoption("--fail-on-skip") or not report.skipped or hasattr(report, "wasxfail"):
        return report
    path, line, reason = report.longrepr
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(ACCEPTED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped, which --fail-on-skip does not accept: {reason}"
    return report
