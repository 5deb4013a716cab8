"""Blocks in one store: the order of sums, and lanes that come and go."""

import numpy as np
import pytest

from streams.endpoints.block_store import BlockStore, blocks_of, sum_in_order
from tests.seeds import seeds

LENGTH = 60
FIELDS = ("inflight", "heard", "waiting")


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 64, 300])
@pytest.mark.parametrize("rows", [1, 4, 9, 60])
def test_rows_are_added_from_the_first_to_the_last(rows: int, columns: int) -> None:
    random = np.random.default_rng(rows * 1000 + columns)
    cube = random.random((2, rows, columns)) * 10.0 ** random.integers(-6, 6, (2, rows, columns))
    expected = cube[:, 0].copy()
    for row in range(1, rows):
        expected += cube[:, row]
    assert (sum_in_order(cube) == expected).all()
    assert (sum_in_order(cube[1]) == expected[1]).all()


@pytest.mark.parametrize("seed", seeds(20, quick=4))
def test_what_is_read_depends_on_the_lane_alone(seed: int) -> None:
    """Many lanes or few, side by side or apart, alone or together, and when others were given back in between."""
    random = np.random.default_rng(seed)
    store, held = BlockStore(LENGTH), {}
    for step in range(12):
        lanes = store.take(int(random.choice((1, 3, 40, 400))))
        first_s = int(random.integers(0, 500)) * 5
        sums = random.random((len(FIELDS), len(lanes), LENGTH)) * 10.0 ** random.integers(-5, 5)
        counts = random.integers(0, 6, sums.shape).astype(np.float64)
        store.write(FIELDS, first_s, lanes, sums, counts)
        held[step] = lanes, first_s, sums, counts
        if random.random() < 0.3:
            store.give_back(held.pop(int(random.choice(list(held))))[0])
    for lanes, first_s, sums, counts in held.values():
        skipped = int(random.integers(0, LENGTH))
        names = list(random.permutation(FIELDS)[: int(random.integers(1, 4))])
        found, known = store.read(names, first_s + 5 * skipped, LENGTH - skipped, lanes)
        for index, name in enumerate(names):
            expected = sums[FIELDS.index(name), :, skipped].copy()
            for block in range(skipped + 1, LENGTH):
                expected += sums[FIELDS.index(name), :, block]
            assert (found[index] == expected).all()
            assert (known[index] == counts[FIELDS.index(name), :, skipped:].sum(axis=1)).all()
        one = int(random.integers(len(lanes)))
        alone, _ = store.read(names, first_s + 5 * skipped, LENGTH - skipped, lanes[one : one + 1])
        assert (alone[:, 0] == found[:, one]).all()


def test_unknown_seconds_and_those_left_out_do_not_count() -> None:
    nan = np.nan
    matrix = np.array([[1.0, nan, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0, 5.0, nan]])
    left_out = np.zeros(matrix.shape, np.bool_)
    left_out[0, 5:7] = True
    sums, counts = blocks_of([matrix], left_out)
    assert sums.tolist() == [[[10.0, 10.0]]]
    assert counts.tolist() == [[[4.0, 2.0]]]
