"""The protocol on missing views: what is taken away, what the three ways see, and the verdicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from multikernel_experiments.findings.missing import near_the_best, never_behind
from multikernel_experiments.missing import lost_views
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART
from multikernel_experiments.protocols import missing_views
from multikernel_experiments.results import Results
from multikernel_experiments.standins import StandIns


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.7])
def test_the_share_is_taken_and_every_sample_keeps_a_view(blocks, share):
    gone = lost_views(60, 5, share, blocks, 0)
    assert gone.sum() == round(share * gone.size)
    lost = gone.sum(axis=1)
    assert lost.max() <= 4
    if blocks:  # all views but one, or none; one sample may be in between
        assert np.isin(lost, [0, 4]).sum() >= 59


def test_with_three_views_two_thirds_can_go():
    assert (lost_views(30, 3, 0.7, False, 1).sum(axis=1) == 2).all()


def test_each_way_sees_the_same_test_samples():
    task = missing_views.task(StandIns(size=6), "mfeat, 30 % at random", 0, True)
    mask, mean, complete = (task.by_entry[key] for key in ("mask", "mean", "complete"))
    holes = np.isnan(mask.training.diagonal())
    assert holes.mean() == pytest.approx(0.3, abs=0.01)
    assert len(complete.y_train) == (~holes.any(axis=0)).sum() < len(mask.y_train) == len(mean.y_train)
    for each in (mean, complete):
        np.testing.assert_array_equal(each.y_test, mask.y_test)
    assert np.isfinite(mean.training.to_array()).all()
    known = np.isfinite(mask.testing.to_array())
    assert np.isnan(complete.testing.to_array()).all(axis=2).mean() == pytest.approx(0.3, abs=0.01)
    assert known.any(axis=(0, 2)).all()  # nobody lacks everything


def scored(mask, complete) -> Results:
    protocol = replace(missing_views.PROTOCOL, settings=("a", "b"), n_splits=2)
    results = Results(protocol)
    for setting, pair in zip("ab", zip(mask, complete)):
        for key, score in zip(("mask", "complete"), pair):
            for split in range(2):
                if score is not None:
                    results.cells[setting, split, key] = {"scores": [score]}
    return results


def test_verdicts_name_where_the_mask_is_behind():
    assert never_behind(scored((0.9, 0.8), (0.9, None)), "mask", "complete")[0] == HOLDS
    verdict, text = never_behind(scored((0.9, 0.8), (0.92, 0.5)), "mask", "complete")
    assert verdict == IN_PART
    assert "behind in 1: a: -2.0" in text
    assert near_the_best(scored((0.9, 0.8), (0.92, 0.5)), "mask", 1.0)[0] == HOLDS
    assert near_the_best(scored((0.9, 0.8), (0.93, 0.5)), "mask", 1.0) == (
        FAILS,
        "1.50 points below the best on average, 3.0 at worst (a)",
    )
