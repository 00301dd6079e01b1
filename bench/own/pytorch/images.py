# SPDX-License-Identifier: Apache-2.0
"""PyTorch networks of images."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.own.pytorch.graph import Graph


def lenet() -> Any:
    """LeCun et al., Proc. IEEE 86 (1998)."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(24, 10),
    )  # fmt: skip


def _normal(channels: int, filters: int, size: int, **options: Any) -> list[Any]:
    return [nn.Conv2d(channels, filters, size, bias=False, **options), nn.BatchNorm2d(filters)]


def resnet() -> Any:
    """He et al., arXiv:1512.03385."""
    block = nn.Sequential(*_normal(3, 6, 3, stride=2, padding=1), nn.ReLU(), *_normal(6, 6, 3, padding=1))
    shortcut = nn.Sequential(*_normal(3, 6, 1, stride=2))
    end = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    return Graph(lambda s, x: s.end(functional.relu(s.block(x) + s.shortcut(x))), block=block, shortcut=shortcut, end=end)


def mobilenet_v2() -> Any:
    """Sandler et al., arXiv:1801.04381."""
    block = nn.Sequential(
        *_normal(4, 8, 1), nn.ReLU6(), *_normal(8, 8, 3, padding=1, groups=8), nn.ReLU6(), *_normal(8, 4, 1)
    )  # fmt: skip
    return Graph(lambda s, x: s.out((x + s.block(x)).mean((2, 3))), block=block, out=nn.Linear(4, 3))


def efficientnet() -> Any:
    """Tan and Le, arXiv:1905.11946: a block with a squeeze and an excitation."""

    def forward(s: Any, x: Any) -> Any:
        y = s.wide(x)
        return s.out(
            functional.adaptive_avg_pool2d(s.narrow(y * s.weight(functional.adaptive_avg_pool2d(y, 1))) + x, 1).flatten(1)
        )

    wide = nn.Sequential(*_normal(3, 6, 1), nn.SiLU(), *_normal(6, 6, 3, padding=1, groups=6), nn.SiLU())
    weight = nn.Sequential(nn.Conv2d(6, 2, 1), nn.SiLU(), nn.Conv2d(2, 6, 1), nn.Sigmoid())
    return Graph(forward, wide=wide, weight=weight, narrow=nn.Sequential(*_normal(6, 3, 1)), out=nn.Linear(3, 2))


def squeeze_and_excitation() -> Any:
    """Hu et al., arXiv:1709.01507."""
    weight = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 4), nn.Sigmoid())
    return Graph(
        lambda s, x: s.out((x * s.weight(x.mean((2, 3))).view(-1, 4, 1, 1)).flatten(1)), weight=weight, out=nn.Linear(144, 2)
    )


def densenet() -> Any:
    """Huang et al., arXiv:1608.06993."""

    def forward(s: Any, x: Any) -> Any:
        x = torch.cat([x, s.first(x)], 1)
        return s.end(torch.cat([x, s.second(x)], 1))

    first, second = (
        nn.Sequential(nn.BatchNorm2d(size), nn.ReLU(), nn.Conv2d(size, 3, 3, padding=1)) for size in (2, 5)
    )  # fmt: skip
    end = nn.Sequential(nn.Conv2d(8, 4, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 3))
    return Graph(forward, first=first, second=second, end=end)


def unet() -> Any:
    """Ronneberger et al., arXiv:1505.04597."""

    def forward(s: Any, x: Any) -> Any:
        x = functional.relu(s.down(x))
        return torch.sigmoid(s.out(torch.cat([x, s.up(functional.relu(s.deep(functional.max_pool2d(x, 2))))], 1)))

    down, deep = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
    return Graph(forward, down=down, deep=deep, up=nn.ConvTranspose2d(4, 3, 2, stride=2), out=nn.Conv2d(6, 1, 1))


def inception() -> Any:
    """Szegedy et al., arXiv:1409.4842."""
    sizes = {"one": 1, "three": 3, "five": 5}
    branches = {name: nn.Conv2d(2, 2, size, padding=size // 2) for name, size in sizes.items()}

    def forward(s: Any, x: Any) -> Any:
        made = [s.one(x), s.three(x), s.five(x), s.pooled(functional.max_pool2d(x, 3, 1, 1))]
        return s.out(torch.cat(made, 1).mean((2, 3)))

    return Graph(forward, **branches, pooled=nn.Conv2d(2, 2, 1), out=nn.Linear(8, 3))


def squeezenet() -> Any:
    """Iandola et al., arXiv:1602.07360."""

    def forward(s: Any, x: Any) -> Any:
        x = functional.relu(s.squeeze(x))
        return s.out(torch.cat([functional.relu(s.one(x)), functional.relu(s.three(x))], 1)).mean((2, 3))

    three = nn.Conv2d(2, 3, 3, padding=1)
    return Graph(forward, squeeze=nn.Conv2d(3, 2, 1), one=nn.Conv2d(2, 3, 1), three=three, out=nn.Conv2d(6, 4, 1))


def convnext() -> Any:
    """Liu et al., arXiv:2201.03545."""

    def forward(s: Any, x: Any) -> Any:
        y = s.scale * s.mixed(s.places(x).permute(0, 2, 3, 1))
        return s.out((x + y.permute(0, 3, 1, 2)).mean((2, 3)))

    mixed = nn.Sequential(nn.LayerNorm(3, eps=1e-6), nn.Linear(3, 12), nn.GELU(), nn.Linear(12, 3))
    places, scale = nn.Conv2d(3, 3, 5, padding=2, groups=3), nn.Parameter(torch.rand(3))
    return Graph(forward, places=places, mixed=mixed, scale=scale, out=nn.Linear(3, 2))


def padded_pools() -> Any:
    """Zeros around an image, and a pool with padding."""
    return nn.Sequential(
        nn.ZeroPad2d(1),
        *_normal(3, 4, 3),
        nn.LeakyReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Dropout2d(),
        nn.Flatten(),
        nn.Linear(64, 2),
    )


def pixel_shuffle() -> Any:
    """Shi et al., arXiv:1609.05158."""
    upper = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2, 3, 3, padding=1), nn.ReLU())
    return nn.Sequential(upper, nn.Conv2d(3, 4, 3, padding=1), nn.PixelShuffle(2))


def group_norm() -> Any:
    """Wu and He, arXiv:1803.08494."""
    first = (nn.Conv2d(4, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU())
    return nn.Sequential(*first, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


#: the shape of a row
NETWORKS = {
    lenet: (1, 14, 14),
    resnet: (3, 8, 8),
    mobilenet_v2: (4, 8, 8),
    efficientnet: (3, 8, 8),
    squeeze_and_excitation: (4, 6, 6),
    densenet: (2, 8, 8),
    unet: (1, 8, 8),
    inception: (2, 8, 8),
    squeezenet: (3, 8, 8),
    convnext: (3, 6, 6),
    padded_pools: (3, 8, 8),
    pixel_shuffle: (2, 4, 4),
    group_norm: (4, 6, 6),
}
