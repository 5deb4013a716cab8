"""How fast one replica of a model on its hardware is, and how much it holds: closed forms and a few shipped figures.

Source of the coefficients: fits to the vLLM operator tables of ai-dynamo/aiconfigurator 0.12.0 (Apache-2.0), batches
1 to 256, 128 to 16,384 prompt tokens, contexts 512 to 8,192; weights and cache in 16 bits. Mean error of the fit (8B
on H100, 8B on L40S, 70B): prefill 6, 8, 5 %, decoding 2, 3, 2 %; the largest is 16 %.

Against engines measured on GPUs (the same project's silicon data), time per output token of c clients without a pause,
`step(c) + (c - 1) prefill / output tokens`: 8B on H100 in 16 bits 3 % mean error (42 runs of TensorRT-LLM; 5 % where
the prefill's constant is left out); 70B on four H100 26 % too slow (15 runs of vLLM in 8 bits).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from simulation.arrays import Floats

BLOCK_TOKENS = 16
"""Tokens of a block of KV cache (vLLM's default)."""

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU: its memory, and the power that it draws at rest and at most (its maker's data sheet)."""

    name: str
    memory_bytes: int
    idle_w: float
    limit_w: float


@dataclass(frozen=True, kw_only=True)
class Polynomial:
    """`constant_ms + linear_ms x + quadratic_ms y`; what x and y are is the caller's."""

    constant_ms: float
    linear_ms: float
    quadratic_ms: float

    def __post_init__(self) -> None:
        for name in ("constant_ms", "linear_ms", "quadratic_ms"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be at least 0, got {value}")


@dataclass(frozen=True, kw_only=True)
class EngineModel:
    """One replica: an engine with its GPUs.

    `prefill`: engine time of a prompt, x = uncached prompt tokens, y = x squared.
    `decode`: time of one step that gives each of B sequences a token, x = B, y = their context in all, in 1,000 tokens.
    `step_tokens`: most prompt tokens that one step takes in (vLLM's max_num_batched_tokens); longer prompts are
    taken in chunks, and decoding goes on between these.
    `waiting_max`: requests that may wait; more are rejected (vLLM's max_num_queued_reqs).
    `context_tokens_max`: longest prompt and output together (vLLM's max_model_len).

    Of the limits, `step_tokens` is vLLM's default on such a GPU. `max_num_seqs`, `waiting_max` and
    `context_tokens_max` are choices without a source; a scenario sets the first two.
    """

    name: str
    hardware: str
    gpu: Gpu
    gpus: int
    prefill: Polynomial
    decode: Polynomial
    kv_cache_tokens: int
    max_num_seqs: int = 128
    waiting_max: int = 128
    step_tokens: int = 8192
    context_tokens_max: int = 32_768

    def __post_init__(self) -> None:
        for name in ("gpus", "max_num_seqs", "step_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.waiting_max < 0:
            raise ValueError(f"waiting_max must be at least 0, got {self.waiting_max}")
        if self.decode.constant_ms <= 0:
            raise ValueError(f"decode.constant_ms must be above 0, got {self.decode.constant_ms}")
        if not 2 <= self.context_tokens_max <= self.kv_blocks * BLOCK_TOKENS:
            raise ValueError(
                f"context_tokens_max must be in 2..{self.kv_blocks * BLOCK_TOKENS} "
                f"(the whole blocks of kv_cache_tokens), got {self.context_tokens_max}"
            )

    @property
    def kv_blocks(self) -> int:
        """Blocks of the KV cache."""
        return self.kv_cache_tokens // BLOCK_TOKENS

    def prefill_s(self, uncached_tokens: Floats) -> Floats:
        """Engine seconds that prompts take, each alone; `uncached_tokens` of any shape."""
        form = self.prefill
        ms = form.constant_ms + form.linear_ms * uncached_tokens + form.quadratic_ms * uncached_tokens**2
        return ms / 1000

    def step_s(self, sequences: Floats, context_tokens: Floats) -> Floats:
        """Seconds from one token to the next of `sequences` that hold `context_tokens` together; of one shape."""
        form = self.decode
        ms = form.constant_ms + form.linear_ms * sequences + form.quadratic_ms * context_tokens / 1000
        return ms / 1000

    @property
    def chunk_s(self) -> float:
        """Engine seconds of the longest prompt that fits one step."""
        return float(self.prefill_s(np.array(float(self.step_tokens))))


H100 = Gpu(name="H100", memory_bytes=80 * GIB, idle_w=70.0, limit_w=700.0)
L40S = Gpu(name="L40S", memory_bytes=45 * GIB, idle_w=35.0, limit_w=350.0)


def kv_token_bytes(*, layers: int, kv_heads: int, head_size: int) -> int:
    """Bytes that a token takes in the KV cache: a key and a value of 16 bits each, in every layer and KV head."""
    return 2 * layers * kv_heads * head_size * 2


def kv_tokens(*, gpu: Gpu, gpus: int, weights_bytes: float, token_bytes: int) -> int:
    """Tokens of KV cache beside a model's weights: 90 % of the memory (vLLM's gpu_memory_utilization), less the weights
    and 2 GiB a GPU for activations and graphs, over the bytes of a token."""
    return int((gpus * (0.9 * gpu.memory_bytes - 2 * GIB) - weights_bytes) / token_bytes)


def _llama_8b(gpu: Gpu, prefill: Polynomial, decode: Polynomial, max_num_seqs: int, step_tokens: int) -> EngineModel:
    return EngineModel(
        name="llama-3.1-8b",
        hardware=gpu.name,
        gpu=gpu,
        gpus=1,
        prefill=prefill,
        decode=decode,
        kv_cache_tokens=kv_tokens(
            gpu=gpu,
            gpus=1,
            weights_bytes=16.06e9,
            token_bytes=kv_token_bytes(layers=32, kv_heads=8, head_size=128),
        ),
        max_num_seqs=max_num_seqs,
        step_tokens=step_tokens,
    )


_MODELS = (
    _llama_8b(
        H100,
        Polynomial(constant_ms=4.730, linear_ms=0.016647, quadratic_ms=6.930e-7),
        Polynomial(constant_ms=6.381, linear_ms=0.011803, quadratic_ms=0.041467),
        max_num_seqs=128,
        step_tokens=8192,
    ),
    _llama_8b(
        L40S,
        Polynomial(constant_ms=17.207, linear_ms=0.051169, quadratic_ms=3.2512e-6),
        Polynomial(constant_ms=22.227, linear_ms=0.041771, quadratic_ms=0.186463),
        max_num_seqs=64,
        step_tokens=2048,
    ),
    EngineModel(
        name="llama-3.1-70b",
        hardware="H100x4",
        gpu=H100,
        gpus=4,
        prefill=Polynomial(constant_ms=11.367, linear_ms=0.054950, quadratic_ms=1.0241e-6),
        decode=Polynomial(constant_ms=15.192, linear_ms=0.032667, quadratic_ms=0.026276),
        kv_cache_tokens=468_752,
    ),
)

ENGINE_MODELS: Mapping[str, EngineModel] = MappingProxyType(
    {f"{model.name}/{model.hardware}": model for model in _MODELS}
)
"""By "model/hardware". The KV cache of the 70B is the published one (startup.py's source), the others' are computed."""
