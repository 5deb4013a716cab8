"""A llama model with random weights in a GGUF file of 1.5 MB: nonsense texts, true token counts, made in a second.

Needs the optional extra `engine` (gguf).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

CONTEXT_TOKENS = 4096
EMBEDDING = 128
FEED_FORWARD = 256
LAYERS = 2
HEADS = 4
KV_HEADS = 2

_CONTROL_TOKENS = (b"<unk>", b"<s>", b"</s>")
_CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def write_tiny_model(path: Path, seed: int = 0) -> Path:
    """Write the model to `path`, replacing what is there whole, and return `path`. The same seed, the same bytes.

    Its tokens are single bytes: a prompt of n ASCII characters has n + 1 tokens and a space before them, so n + 2.
    Raises ImportError without the extra `engine`, OSError where the folder cannot be written.
    """
    import gguf  # the optional extra: only the demo and the tests have it

    half = path.with_name(path.name + ".half")
    writer = gguf.GGUFWriter(half, "llama")
    _describe(writer, gguf)
    tokens = _add_vocabulary(writer, gguf)
    for name, tensor in _tensors(tokens, np.random.default_rng(seed)):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return half.replace(path)


def _describe(writer: Any, gguf: Any) -> None:
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(EMBEDDING // HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_vocabulary(writer: Any, gguf: Any) -> int:
    """A byte for a token (SentencePiece's byte fallback), and the printable characters; how many there are."""
    kind = gguf.TokenType
    texts = [
        *_CONTROL_TOKENS,
        *(b"<0x%02X>" % value for value in range(256)),
        "\u2581".encode(),
        *(bytes([value]) for value in range(33, 127)),
    ]
    plain = len(texts) - 256 - len(_CONTROL_TOKENS)
    writer.add_vocab_size(len(texts))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_types([kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256, *[kind.NORMAL] * plain])
    writer.add_token_scores([0.0] * (len(texts) - plain) + [-float(rank) for rank in range(plain)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_CHAT_TEMPLATE)
    return len(texts)


def _tensors(tokens: int, random: np.random.Generator) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    def ones() -> np.ndarray[Any, Any]:
        return np.ones(EMBEDDING, np.float32)

    kv_width = KV_HEADS * EMBEDDING // HEADS
    yield "token_embd.weight", normal(tokens, EMBEDDING)
    yield "output_norm.weight", ones()
    yield "output.weight", normal(tokens, EMBEDDING)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", ones()
        yield block + "ffn_norm.weight", ones()
        yield block + "attn_q.weight", normal(EMBEDDING, EMBEDDING)
        yield block + "attn_k.weight", normal(kv_width, EMBEDDING)
        yield block + "attn_v.weight", normal(kv_width, EMBEDDING)
        yield block + "attn_output.weight", normal(EMBEDDING, EMBEDDING)
        yield block + "ffn_gate.weight", normal(FEED_FORWARD, EMBEDDING)
        yield block + "ffn_up.weight", normal(FEED_FORWARD, EMBEDDING)
        yield block + "ffn_down.weight", normal(EMBEDDING, FEED_FORWARD)
