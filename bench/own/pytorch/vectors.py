# SPDX-License-Identifier: Apache-2.0
"""PyTorch networks of vectors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.own.pytorch.graph import Graph


def jet_tagger() -> Any:
    """Duarte et al., arXiv:1804.06913, with a normalisation of the input."""
    return nn.Sequential(
        nn.BatchNorm1d(16), nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(),
        nn.Linear(16, 5), nn.Softmax(-1),
    )  # fmt: skip


def variational_encoder() -> Any:
    """Govorkova et al., arXiv:2108.03986: two outputs."""
    hidden = nn.Sequential(nn.Linear(12, 8), nn.LeakyReLU(0.1))
    return Graph(
        lambda s, x: (s.mean(s.hidden(x)), s.width(s.hidden(x))), hidden=hidden, mean=nn.Linear(8, 3), width=nn.Linear(8, 3)
    )


def gated() -> Any:
    """Dauphin et al., arXiv:1612.08083."""
    return nn.Sequential(nn.Linear(8, 16), nn.GLU(), nn.Linear(8, 3))


def highway() -> Any:
    """Srivastava et al., arXiv:1505.00387."""

    def forward(s: Any, x: Any) -> Any:
        gate = torch.sigmoid(s.gate(x))
        return s.out(gate * functional.relu(s.hidden(x)) + (1 - gate) * x)

    return Graph(forward, gate=nn.Linear(8, 8), hidden=nn.Linear(8, 8), out=nn.Linear(8, 2))


def activations() -> Any:
    """One activation after the other."""
    kinds = (nn.PReLU, nn.ELU, nn.SELU, nn.Hardswish, nn.Hardtanh, nn.Softplus, nn.Mish, nn.Softsign, nn.Hardsigmoid)
    return nn.Sequential(*(layer for kind in kinds for layer in (nn.Linear(8, 8), kind())), nn.Linear(8, 2))


def siamese() -> Any:
    """Bromley et al., NIPS 1993: one encoder for two vectors."""
    encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    return Graph(
        lambda s, x: torch.sigmoid(s.out(torch.abs(s.encoder(x[:, 0]) - s.encoder(x[:, 1])))),
        encoder=encoder,
        out=nn.Linear(4, 1),
    )


def scaled_input() -> Any:
    """A mean and a deviation as buffers, as most analyses have them."""
    mean, deviation = torch.tensor([0.0, 1, -1, 0.5, 2]), torch.tensor([1.0, 2, 0.5, 1, 3])
    inner = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    return Graph(lambda s, x: s.inner((x - s.mean) / s.deviation), inner=inner, mean=mean, deviation=deviation)


def residual_perceptron() -> Any:
    """Gorishniy et al., arXiv:2106.11959."""

    def forward(s: Any, x: Any) -> Any:
        x = functional.relu(s.first(x))
        for block in s.blocks:
            x = x + block(x)
        return s.out(x)

    blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8)) for _ in range(2))
    return Graph(forward, first=nn.Linear(12, 8), blocks=blocks, out=nn.Linear(8, 1))


def chunks() -> Any:
    """A vector in two halves."""

    def forward(s: Any, x: Any) -> Any:
        a, b = torch.chunk(s.linear(x), 2, -1)
        return torch.cat([torch.clamp(a, -1, 1), torch.minimum(a, b), torch.maximum(a, b)], -1)

    return Graph(forward, linear=nn.Linear(10, 6))


#: the shape of a row
NETWORKS = {
    jet_tagger: (16,),
    variational_encoder: (12,),
    gated: (8,),
    highway: (8,),
    activations: (8,),
    siamese: (2, 6),
    scaled_input: (5,),
    residual_perceptron: (12,),
    chunks: (10,),
}
