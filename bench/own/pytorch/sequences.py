# SPDX-License-Identifier: Apache-2.0
"""PyTorch networks of sets, graphs and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from bench.own.pytorch.graph import Graph


def deep_sets() -> Any:
    """Zaheer et al., arXiv:1703.06114."""
    each = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
    return Graph(
        lambda s, x: s.all(s.each(x).sum(1)), each=each, all=nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    )


def point_net() -> Any:
    """Qi et al., arXiv:1612.00593: the maximum over points."""
    return Graph(lambda s, x: s.all(s.each(x).max(1)[0]), each=nn.Sequential(nn.Linear(4, 8), nn.ReLU()), all=nn.Linear(8, 2))


def deep_met() -> Any:
    """CMS, arXiv:2509.12012: a weight for each particle's momentum."""
    weight = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
    return Graph(lambda s, x: (s.weight(x) * x[:, :, :2]).sum(1), weight=weight)


def attention_pooling() -> Any:
    """Ilse et al., arXiv:1802.04712."""

    def forward(s: Any, x: Any) -> Any:
        x = torch.tanh(s.hidden(x))
        return s.out((torch.softmax(s.weight(x), 1) * x).sum(1))

    return Graph(forward, hidden=nn.Linear(6, 8), weight=nn.Linear(8, 1), out=nn.Linear(8, 2))


def interaction_network() -> Any:
    """Moreno et al., arXiv:1908.05318 (JEDI-net)."""
    to, by = np.nonzero(1 - np.eye(4))

    def forward(s: Any, x: Any) -> Any:
        edges = s.edge(torch.cat([torch.matmul(s.receive, x), torch.matmul(s.send, x)], -1))
        return s.out(s.node(torch.cat([x, torch.matmul(s.receive.T, edges)], -1)).sum(1))

    edge, node = (
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU()),
        nn.Sequential(nn.Linear(7, 6), nn.ReLU()),
    )
    return Graph(forward, receive=torch.eye(4)[to], send=torch.eye(4)[by], edge=edge, node=node, out=nn.Linear(6, 2))


def transformer() -> Any:
    """Vaswani et al., arXiv:1706.03762."""
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    return Graph(lambda s, x: s.out(s.encoder(x).mean(1)), encoder=encoder, out=nn.Linear(8, 3))


def vision_transformer() -> Any:
    """Dosovitskiy et al., arXiv:2010.11929: a class token and learned positions."""

    def forward(s: Any, x: Any) -> Any:
        return s.out(s.encoder(torch.cat([s.token.expand(x.shape[0], -1, -1), x], 1) + s.places)[:, 0])

    encoder = nn.TransformerEncoderLayer(4, 1, 8, batch_first=True, dropout=0.0, activation="gelu", norm_first=True)
    token, places = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(1, 7, 4))
    return Graph(forward, encoder=encoder, token=token, places=places, out=nn.Linear(4, 2))


def mixer() -> Any:
    """Tolstikhin et al., arXiv:2105.01601."""

    def forward(s: Any, x: Any) -> Any:
        x = x + s.steps(s.first(x).transpose(1, 2)).transpose(1, 2)
        return s.out((x + s.channels(s.second(x))).mean(1))

    steps, channels = (nn.Sequential(nn.Linear(n, 8), nn.GELU(), nn.Linear(8, n)) for n in (6, 4))
    return Graph(
        forward, first=nn.LayerNorm(4), steps=steps, second=nn.LayerNorm(4), channels=channels, out=nn.Linear(4, 3)
    )  # fmt: skip


def bilinear() -> Any:
    """A product of two computed matrices."""
    return Graph(lambda s, x: torch.bmm(s.a(x), s.b(x).transpose(1, 2)).flatten(1), a=nn.Linear(4, 3), b=nn.Linear(4, 3))


def lstm() -> Any:
    """Hochreiter and Schmidhuber (1997): the last state."""
    return Graph(lambda s, x: s.out(s.cell(x)[0][:, -1]), cell=nn.LSTM(4, 6, batch_first=True), out=nn.Linear(6, 2))


def gru_of_two_directions() -> Any:
    """Cho et al., arXiv:1406.1078."""
    cell = nn.GRU(4, 5, batch_first=True, bidirectional=True)
    return Graph(lambda s, x: s.out(s.cell(x)[0].mean(1)), cell=cell, out=nn.Linear(10, 2))


def temporal_convolutions() -> Any:
    """Bai et al., arXiv:1803.01271."""

    def forward(s: Any, x: Any) -> Any:
        y = functional.relu(s.second(functional.relu(s.first(x)[:, :, :-2]))[:, :, :-4])
        return s.out((y + s.shortcut(x))[:, :, -1])

    first, second = nn.Conv1d(3, 4, 3, padding=2), nn.Conv1d(4, 4, 3, padding=4, dilation=2)
    return Graph(forward, first=first, second=second, shortcut=nn.Conv1d(3, 4, 1), out=nn.Linear(4, 2))


def wavenet() -> Any:
    """van den Oord et al., arXiv:1609.03499."""

    def forward(s: Any, x: Any) -> Any:
        gated = torch.tanh(s.filter(x)) * torch.sigmoid(s.gate(x))
        return s.out(functional.pad(gated, (2, 0)) + x).mean(-1)

    return Graph(forward, filter=nn.Conv1d(3, 3, 3), gate=nn.Conv1d(3, 3, 3), out=nn.Conv1d(3, 2, 1))


def autoencoder() -> Any:
    """A strain autoencoder with transposed convolutions, as Moreno et al., arXiv:2107.12698."""
    down = (nn.Conv1d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv1d(4, 2, 3, stride=2, padding=1), nn.ReLU())
    first, second = (
        nn.ConvTranspose1d(n, m, 3, stride=2, padding=1, output_padding=1) for n, m in ((2, 4), (4, 1))
    )  # fmt: skip
    return nn.Sequential(*down, first, nn.ReLU(), second)


#: the shape of a row
NETWORKS = {
    deep_sets: (8, 5),
    point_net: (6, 4),
    deep_met: (8, 6),
    attention_pooling: (8, 6),
    interaction_network: (4, 3),
    transformer: (6, 8),
    vision_transformer: (6, 4),
    mixer: (6, 4),
    bilinear: (4, 4),
    lstm: (7, 4),
    gru_of_two_directions: (7, 4),
    temporal_convolutions: (3, 16),
    wavenet: (3, 10),
    autoencoder: (1, 12),
}
