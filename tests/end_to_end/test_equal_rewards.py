"""Every row that the demo's runs keep is paid by every export what its filters found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.support import Made
from tests.support.equal_rewards import compare_rewards

pytestmark = [pytest.mark.slow, pytest.mark.real_model]


def test_rows_of_the_demo(demo_trajectories: Made, demo_bundles: Made, demo_episodes: Made, tmp_path: Path) -> None:
    runs = [each.out for each in (demo_trajectories, demo_bundles, demo_episodes)]
    compared = compare_rewards(runs, tmp_path)
    assert len(compared.equal) >= 6 and not compared.listed
