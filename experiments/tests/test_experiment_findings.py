"""Verdicts tell what was found to be wrong from what cannot be told."""

from dataclasses import replace

import pytest
from multikernel_experiments.findings.against import better_over_settings
from multikernel_experiments.findings.epochs import fewer_to_a_score
from multikernel_experiments.findings.labels import at_least_as_good
from multikernel_experiments.findings.lines import cheaper_than, near_the_end
from multikernel_experiments.findings.norms import better_in_each_pair, better_than_last, sparse_is_robust
from multikernel_experiments.findings.scores import above_and_level, ahead_of_several, alike
from multikernel_experiments.findings.sizes import excess_is_steady
from multikernel_experiments.findings.wins import saturates, wins_as_often
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNDECIDED, Entry, along
from multikernel_experiments.protocols import cskl_caltech, grand
from multikernel_experiments.results import Results

NOISE = (0.0, 0.03, -0.03)


def made(scores, settings=("all",), entries=(), **numbers):
    """Results on three splits; ``scores`` by key, each a function of the setting, and noise in all but "flat"."""
    entries = entries or tuple(Entry(key, "mkl", key) for key in scores)
    results = Results(replace(grand.PROTOCOL, settings=tuple(settings), entries=entries, n_splits=3))
    for setting in settings:
        for entry in entries:
            for split, noise in enumerate(NOISE):
                value = scores[entry.key](setting) + noise * (entry.key != "flat")
                numbers_of = {name: [of(entry.key)] for name, of in numbers.items()}
                results.cells[setting, split, entry.key] = {"scores": [value], "weights": [[1.0]], **numbers_of}
    return results


@pytest.mark.parametrize(("lead", "verdict"), [(0.2, HOLDS), (0.01, UNDECIDED), (-0.01, UNDECIDED), (-0.2, FAILS)])
def test_a_lead_within_its_error_is_undecided(lead, verdict):
    results = made({"flat": lambda s: 0.5, "a": lambda s: 0.5 + lead})
    assert ahead_of_several(results, "a", {"flat": "flat"})[0] == verdict


@pytest.mark.parametrize(("lead", "verdict"), [(0.2, HOLDS), (0.01, IN_PART), (-0.2, IN_PART)])
def test_being_level_with_one_is_not_being_above_another(lead, verdict):
    results = made({"flat": lambda s: 0.5 - lead, "a": lambda s: 0.5, "b": lambda s: 0.51})
    assert above_and_level(results, "a", "A", ("flat", "flat"), ("b", "B"))[0] == verdict


def test_only_methods_of_the_comparison_are_held_against_each_other():
    results = made({"a": lambda s: 0.5, "b": lambda s: 0.51, "other": lambda s: 0.7})
    verdict, text = alike(results, among=("a", "b"))
    assert verdict == HOLDS
    assert "the others from 70.0 to 70.0" in text
    assert alike(results, among=("a", "other"))[0] == FAILS
    assert alike(results, among=("a", "missing")) is None


@pytest.mark.parametrize(("lead", "verdict"), [(0.2, HOLDS), (0.01, UNDECIDED), (-0.1, FAILS)])
def test_the_best_of_several_norms_is_not_better_by_chance(lead, verdict):
    results = made({"p1": lambda s: 0.5 + lead, "flat": lambda s: 0.5})
    assert better_than_last(results, {"p1": 1.0, "flat": 2.0})[0] == verdict


@pytest.mark.parametrize(("dense", "verdict"), [((-0.1, -0.1), HOLDS), ((-0.1, 0.0), IN_PART), ((-0.02, 0.0), FAILS)])
def test_all_dense_methods_have_to_lose_where_the_sparse_one_is_robust(dense, verdict):
    losses = {"sparse": -0.02, "a": dense[0], "b": dense[1]}
    results = made({key: lambda s, loss=loss: 0.5 + loss * int(s) for key, loss in losses.items()}, ("0", "1"))
    assert sparse_is_robust(results, ["sparse"], ["a", "b"])[0] == verdict


@pytest.mark.parametrize(("wins", "verdict"), [(12, HOLDS), (7, UNDECIDED), (5, UNDECIDED), (0, FAILS)])
def test_what_may_be_chance_is_no_verdict(wins, verdict):
    settings = [str(k) for k in range(12)]
    results = made({"a": lambda s: 0.5 + 0.1 * (int(s) < wins), "b": lambda s: 0.55}, settings)
    assert better_over_settings(results, "a", "b")[0] == verdict


@pytest.mark.parametrize(
    ("wins", "verdict"), [((12, 12), HOLDS), ((12, 6), IN_PART), ((0, 6), UNDECIDED), ((0, 0), FAILS)]
)
def test_pairs_hold_together_or_in_part(wins, verdict):
    settings = [str(k) for k in range(12)]
    ways = {f"a{k}": lambda s, n=n: 0.5 + 0.1 * (int(s) < n) for k, n in enumerate(wins)}
    results = made({**ways, "b": lambda s: 0.55}, settings)
    assert better_in_each_pair(results, {key: (key, "b") for key in ways})[0] == verdict


@pytest.mark.parametrize(("lag", "verdict"), [(0.0, HOLDS), (0.004, HOLDS), (0.006, FAILS)])
def test_published_scores_are_whole_points(lag, verdict):
    results = made({"a": lambda s: 0.5 - lag, "b": lambda s: 0.5})
    assert at_least_as_good(results, "a", ["b"], "b")[0] == verdict


def lines(first, second, budgets=(1, 10, 100)):
    """Two lines of scores by budget, whose fits take as many seconds and SVMs as their budgets."""
    entries = [e for key in ("a", "b") for e in along(Entry(key, "mkl", key), budgets)]
    scores = dict(zip((e.key for e in entries), (*first, *second)))
    cost = {e.key: float(e.params["max_iter"]) for e in entries}
    of = {key: lambda s, value=value: value for key, value in scores.items()}
    return made(of, entries=tuple(entries), fit_seconds=cost.__getitem__, n_svms=cost.__getitem__)


def test_time_that_a_rival_spends_at_its_best_does_not_count():
    assert near_the_end(lines((0.5, 0.5, 0.5), (0.3, 0.5, 0.5)), "a", "b", faster=10.0)[0] == HOLDS
    assert near_the_end(lines((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), "a", "b", faster=10.0)[0] == FAILS


def test_staying_at_a_low_score_early_is_not_being_cheap():
    assert cheaper_than(lines((0.3, 0.5, 0.5), (0.3, 0.3, 0.5)), "a", "b")[0] == HOLDS
    assert cheaper_than(lines((0.3, 0.3, 0.3), (0.5, 0.5, 0.5)), "a", "b")[0] == FAILS
    assert cheaper_than(lines((0.3, 0.3, 0.5), (0.3, 0.5, 0.5)), "a", "b")[0] == FAILS


def test_an_accuracy_that_no_setting_reaches_tells_nothing():
    scores = {"e1": lambda s: 0.2, "e2": lambda s: 0.3, "sdca": lambda s: 0.6}
    results = made(scores, ("2", "5"), fit_seconds=lambda key: 1.0)
    assert fewer_to_a_score(results, {"e1": 1, "e2": 2}, "sdca", 0.02)[0] == UNDECIDED


@pytest.mark.parametrize(("far", "verdict"), [((1.1, 1.15), HOLDS), ((1.1, 1.5), FAILS)])
def test_an_excess_that_grows_with_the_samples_is_not_steady(far, verdict):
    sizes = {"100": 100, "200": 200}
    results = made(dict.fromkeys(("a", "best"), lambda s: 0.5), sizes, fit_seconds=lambda key: 1.0)
    results.protocol.entries[0].params["max_iter"] = 100
    for (setting, _, key), record in results.cells.items():
        value = far[setting == "200"] if key == "a" else 1.0
        record |= {"objectives": [value], "gaps": [0.0], "fit_seconds": [float(setting)]}
    assert excess_is_steady(results, "a", "best", {"data": sizes})[0] == verdict


def caltech(score):
    results = Results(replace(cskl_caltech.PROTOCOL, n_splits=20))
    for entry in cskl_caltech.PROTOCOL.entries:
        for setting in cskl_caltech.PROTOCOL.settings:
            for split in range(20):
                record = {"scores": [score(entry, split)], "parameters": [{"t": 4}], "weights": [[1.0] * 20]}
                results.cells[setting, split, entry.key] = record
    return results


def test_a_share_of_wins_is_judged_as_published_and_losses_do_not_matter():
    results = caltech(
        lambda entry, split: 0.5 + 0.1 * (split < 7) * (entry.key == "nu-validated") + 0.05 * (entry.key == "simple")
    )  # 7 wins of 20
    place = ("pairs", "nu", "validation", "simple")
    assert wins_as_often(results, cskl_caltech.CONTEST, place, share=0.29)[0] == HOLDS
    assert wins_as_often(results, cskl_caltech.CONTEST, place, share=0.5)[0] == FAILS


def test_scores_that_fall_again_do_not_saturate():
    scores = {1: 0.4, 2: 0.45, 4: 0.5, 8: 0.5, 20: 0.5}
    assert (
        saturates(caltech(lambda e, split: scores.get(e.params.get("t"), 0.5)), cskl_caltech.CONTEST, 4)[0] == HOLDS
    )
    scores[20] = 0.45
    assert (
        saturates(caltech(lambda e, split: scores.get(e.params.get("t"), 0.5)), cskl_caltech.CONTEST, 4)[0] == FAILS
    )
