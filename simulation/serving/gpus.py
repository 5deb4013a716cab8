"""What the GPUs of a replica show of its work. Rules of thumb, without a source: prefill is bound by arithmetic,
decoding by memory bandwidth.

With p and d the shares of the second spent on prefill and on decoding, and f the mean share of slots that decode:
utilisation p + d; SM 0.9 p + (0.3 + 0.5 f) d; tensor cores 0.6 p + 0.3 f d; memory 0.25 p + 0.8 d; power from idle to
limit by 0.95 p + (0.5 + 0.2 f) d; temperature goes towards 30 + 45 x power/limit degrees with a time constant of 20 s.
A hung replica of several GPUs spins in a collective kernel: utilisation and SM 1, memory 0, power near idle; of one
GPU it is idle.
"""

import math

import numpy as np

from simulation.arrays import Floats
from simulation.engine_model import EngineModel
from simulation.serving.engines import Engines
from simulation.serving.second import GpuColumns

MEMORY_SHARE = 0.92
"""Of the memory, in use from the start: vLLM reserves its KV cache (0.9), and the driver has some."""
SPINNING_POWER_SHARE = 0.1
COLD_C = 30.0
HOT_C = 45.0
_COOLING = 1 - math.exp(-1 / 20)


class Gpus:
    """Keeps the temperatures, (replicas,)."""

    def __init__(self, model: EngineModel) -> None:
        self._model = model
        self._temperature_c: Floats = np.zeros(0)

    def add(self) -> None:
        """One more replica, at the end, cold."""
        self._temperature_c = np.append(self._temperature_c, COLD_C)

    def drop(self, replica: int) -> None:
        """One replica less."""
        self._temperature_c = np.delete(self._temperature_c, replica)

    def show(self, engines: Engines) -> GpuColumns:
        """A second's columns, by what the engines did in it."""
        gpu, work = self._model.gpu, engines.work
        prefill, decode = work.prefill_s, np.minimum(work.decode_s, 1 - np.minimum(work.prefill_s, 1))
        filled = work.sequence_s / np.maximum(work.decode_s, 1e-9) / self._model.max_num_seqs
        spins = engines.hung & (self._model.gpus > 1)
        draw = 0.95 * prefill + (0.5 + 0.2 * filled) * decode
        power_w = gpu.idle_w + (gpu.limit_w - gpu.idle_w) * np.where(spins, SPINNING_POWER_SHARE, np.minimum(draw, 1))
        self._temperature_c += _COOLING * (COLD_C + HOT_C * power_w / gpu.limit_w - self._temperature_c)
        return GpuColumns(
            gpu_utilization=np.where(spins, 1.0, np.minimum(prefill + decode, 1)),
            sm_active=np.where(spins, 1.0, np.minimum(0.9 * prefill + (0.3 + 0.5 * filled) * decode, 1)),
            tensor_active=np.minimum(0.6 * prefill + 0.3 * filled * decode, 1),
            dram_active=np.minimum(0.25 * prefill + 0.8 * decode, 1),
            memory_used_bytes=int(MEMORY_SHARE * gpu.memory_bytes),
            memory_total_bytes=gpu.memory_bytes,
            power_w=power_w,
            temperature_c=self._temperature_c.copy(),
        )
