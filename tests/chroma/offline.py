"""A plugin of pytest for Chroma's suite: its default embedding function would fetch a model from the network."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    from chromadb.utils.embedding_functions import onnx_mini_lm_l6_v2

    def embed(self, input):
        seeds = (int.from_bytes(hashlib.sha256(str(text).encode()).digest()[:8], "big") for text in input)
        return [np.random.default_rng(seed).standard_normal(384).astype(np.float32) for seed in seeds]

    monkeypatch.setattr(onnx_mini_lm_l6_v2.ONNXMiniLM_L6_V2, "__call__", embed)
