# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules as a user writes them: every function is one for `hypersonic build modules.py:<function>`."""

from __future__ import annotations

import torch
from torch import nn


class Residual(nn.Module):
    """Adds what a layer makes of its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(x))


class Erf(nn.Module):
    """Has no layer in hls4ml."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(x)


class Fourier(nn.Module):
    """Has no ONNX operator in opset 17 that torch writes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x).abs()


class Noise(nn.Module):
    """Answers differently each time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


class Jets(nn.Module):
    """A residual network with a name for each part."""

    input_shape = (8,)

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 6)
        self.normalise = nn.BatchNorm1d(6)
        self.block = Residual(6)
        self.classify = nn.Linear(6, 3)

    def forward(self, jets: torch.Tensor) -> torch.Tensor:
        return self.classify(self.block(torch.relu(self.normalise(self.embed(jets)))))


def trained(module: nn.Module) -> nn.Module:
    """The module with statistics of its normalisations, as after training."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.5, 0.5)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module


def jets():
    return trained(Jets())


def images():
    parts = [
        nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 1), nn.ReLU(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 2),
    ]  # fmt: skip
    return trained(nn.Sequential(*parts)), (2, 4, 4)


def pulses():
    parts = [nn.Conv1d(1, 3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(9, 1)]
    return trained(nn.Sequential(*parts)), (1, 8)


class Encoder(nn.Module):
    """An encoder layer of a transformer, and the mean of its particles."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
        self.classify = nn.Linear(4, 2)

    def forward(self, particles: torch.Tensor) -> torch.Tensor:
        return self.classify(self.layer(particles).mean(dim=1))


def encoder():
    torch.manual_seed(1)
    return Encoder(), (3, 4)


def plain():
    """Weights that fixed point has: hls4ml truncates others, and hypersonic rounds them."""
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    with torch.no_grad():
        for weights in module.parameters():
            weights.copy_(torch.round(weights * 64) / 64)
    return module, (4,)


def erf():
    return nn.Sequential(nn.Linear(3, 4), Erf()), (3,)


def fourier():
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(Fourier())), (3,)


def sizes():
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 1)), (3,)


def noise():
    return Noise(), (3,)


def fails():
    raise RuntimeError("no weights here")


def number():
    return 7


def shapeless():
    return nn.Linear(2, 3)


def quantised():
    """A classifier of Brevitas whose numbers are all fixed point."""
    from brevitas.nn import QuantIdentity, QuantLinear, QuantReLU
    from brevitas.quant import Int8ActPerTensorFixedPoint, Int8WeightPerTensorFixedPoint, Uint8ActPerTensorFixedPoint

    def linear(inputs: int, outputs: int) -> nn.Module:
        return QuantLinear(inputs, outputs, bias=False, weight_quant=Int8WeightPerTensorFixedPoint)

    module = nn.Sequential(
        QuantIdentity(act_quant=Int8ActPerTensorFixedPoint, return_quant_tensor=True),
        linear(4, 6),
        QuantReLU(act_quant=Uint8ActPerTensorFixedPoint, return_quant_tensor=True),
        linear(6, 3),
    )
    module.train()
    for _ in range(20):  # the scales of activations are learned from what they see
        module(torch.randn(64, 4))
    return module, (4,)
