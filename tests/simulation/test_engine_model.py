"""The shipped figures against the data that they were fitted to, and against engines that were measured."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulation.engine_model import ENGINE_MODELS, H100, EngineModel, Polynomial, kv_token_bytes, kv_tokens

SYSTEMS = {"H100": ("h100_sxm", "1"), "L40S": ("l40s", "1"), "H100x4": ("h100_sxm", "4")}
SIZES = {"llama-3.1-8b": "8B", "llama-3.1-70b": "70B"}


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open() as lines:
        return list(csv.DictReader(lines))


def of_model(rows: list[dict[str, str]], model: EngineModel) -> list[dict[str, str]]:
    wanted = (SIZES[model.name], *SYSTEMS[model.hardware])
    return [row for row in rows if (row["model"], row["system"], row["tp"]) == wanted]


@pytest.mark.parametrize("name", ENGINE_MODELS)
def test_the_coefficients_are_the_fitted_ones(name: str, recordings: Path) -> None:
    model = ENGINE_MODELS[name]
    (fitted,) = of_model(rows_of(recordings / "replicas" / "fitted_replica_models.csv"), model)
    shipped = (
        *(model.prefill.constant_ms, model.prefill.linear_ms, model.prefill.quadratic_ms),
        *(model.decode.constant_ms, model.decode.linear_ms, model.decode.quadratic_ms),
    )
    assert shipped == pytest.approx([float(value) for value in list(fitted.values())[3:]], rel=1e-3)


@pytest.mark.parametrize("name", ENGINE_MODELS)
def test_the_forms_fit_the_operator_tables(name: str, recordings: Path) -> None:
    model = ENGINE_MODELS[name]
    errors: dict[str, list[float]] = {"prefill": [], "decode": []}
    for row in of_model(rows_of(recordings / "replicas" / "aic_vllm_sweep.csv"), model):
        batch, tokens = np.array([float(row["batch"])]), np.array([float(row["tokens_or_ctx"])])
        is_prefill = row["phase"] == "prefill"
        seconds = model.prefill_s(tokens) if is_prefill else model.step_s(batch, batch * tokens)
        errors[row["phase"]].append(abs(float(seconds[0]) * 1000 / float(row["ms"]) - 1))
    assert (len(errors["prefill"]), len(errors["decode"])) == (8, 27)
    assert np.mean(errors["prefill"]) < 0.08
    assert np.mean(errors["decode"]) < 0.03
    assert max(*errors["prefill"], *errors["decode"]) < 0.16


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Runs of a model on GPUs, and how far our times per token may be off: the median's range, the mean's limit."""

    name: str
    path: str
    backend: str
    runs: int
    median_error: tuple[float, float]
    mean_error_max: float


MEASURED = (
    Measured(
        name="llama-3.1-8b/H100",
        path="meta-llama/Llama-3.1-8B-Instruct",
        backend="trtllm",
        runs=42,
        median_error=(-0.1, 0.03),
        mean_error_max=0.03,
    ),
    Measured(
        name="llama-3.1-70b/H100x4",
        path="meta-llama/Llama-3.1-70B",
        backend="vllm",
        runs=15,
        median_error=(0.1, 0.36),
        mean_error_max=0.27,
    ),
)


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.name)
def test_time_per_token_against_measured_engines(measured: Measured, recordings: Path) -> None:
    """Each of c clients asks again at once: its tokens wait for c - 1 prefills of others. The 70B ran in 8 bits."""
    model = ENGINE_MODELS[measured.name]
    system, width = SYSTEMS[model.hardware]
    errors = []
    for row in rows_of(recordings / "replicas" / "silicon_sample.csv"):
        which = (row["model_path"], row["system"], row["backend"], row["tp_size"], row["mode"])
        if which != (measured.path, system, measured.backend, width, "agg"):
            continue
        prompt, output, clients = (float(row[column]) for column in ("isl", "osl", "batch_size"))
        step_s = model.step_s(np.array([clients]), np.array([clients * (prompt + output / 2)]))
        expected_s = step_s + (clients - 1) * model.prefill_s(np.array([prompt])) / output
        errors.append(float(expected_s[0]) * 1000 / float(row["silicon_tpot_ms"]) - 1)
    assert len(errors) == measured.runs
    low, high = measured.median_error
    assert low < np.median(errors) < high
    assert np.mean(np.abs(errors)) < measured.mean_error_max


def test_the_cache_is_as_large_as_published_where_it_was_and_else_as_computed(recordings: Path) -> None:
    """The formula meets the published size of the 70B within 5 %."""
    published = {
        int(row["kv_tokens"]) for row in rows_of(recordings / "replicas" / "cold_start_h100.csv") if row["tp"] == "4"
    }
    assert published == {ENGINE_MODELS["llama-3.1-70b/H100x4"].kv_cache_tokens}
    token_bytes = kv_token_bytes(layers=80, kv_heads=8, head_size=128)
    computed = kv_tokens(gpu=H100, gpus=4, weights_bytes=141.1e9, token_bytes=token_bytes)
    assert computed == pytest.approx(published.pop(), rel=0.05)
    # 0.9 x 80 GiB - 2 GiB - 16.06 GB over 131,072 bytes a token.
    assert ENGINE_MODELS["llama-3.1-8b/H100"].kv_cache_tokens == 450_911


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus": 0}, "gpus must be at least 1, got 0"),
        ({"max_num_seqs": 0}, "max_num_seqs must be at least 1, got 0"),
        ({"step_tokens": 0}, "step_tokens must be at least 1, got 0"),
        ({"waiting_max": -1}, "waiting_max must be at least 0, got -1"),
        ({"kv_cache_tokens": 1000}, "context_tokens_max must be in 2..992 (the whole blocks of kv_cache_tokens)"),
        ({"context_tokens_max": 1}, "context_tokens_max must be in 2..450896"),
        (
            {"decode": Polynomial(constant_ms=0, linear_ms=1, quadratic_ms=0)},
            "decode.constant_ms must be above 0, got 0",
        ),
    ],
    ids=str,
)
def test_a_model_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the message is compared below
        replace(ENGINE_MODELS["llama-3.1-8b/H100"], **changes)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_coefficient_is_no_less_than_nothing(value: float) -> None:
    with pytest.raises(ValueError, match=f"linear_ms must be at least 0, got {value}"):
        Polynomial(constant_ms=1, linear_ms=value, quadratic_ms=0)
