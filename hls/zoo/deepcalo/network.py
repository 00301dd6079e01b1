# SPDX-License-Identifier: Apache-2.0
"""DeepCalo in Keras with the published layers; weights.py makes the weights.

Image only: 56x11x4, upsampled by five in phi, a 5x5 convolution with 16 filters, then four blocks of pooling and two 3x3
convolutions with 32, 64, 128 and 256 filters, LeakyReLU, dense layers 2304-256-256-1: 1 833 745 parameters. With scalars and
tracks, a second network ends in 1024-992 and gives each of the 496 feature maps a factor and an offset (FiLM). Its layers
between the inputs and the 1024 units are not published; the ones here are our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.deepcalo import events

BLOCKS = (16, 32, 64, 128, 256)  # feature maps of each block; the first block has one convolution, the others two
IMAGE_PARAMETERS = 1_833_745
FILM_PARAMETERS = 3_519_953  # the published one has about 3.6 million
_SLOPE = 0.125  # of LeakyReLU below zero; a power of two, hence a shift


@dataclass(frozen=True)
class Sizes:
    """Sizes of the layers, by default the published ones; tests use smaller ones.

    Attributes:
        eta, phi: pixels of the image.
        blocks: feature maps of each block.
        dense: units of the dense layers.
        track, scalars, film: of the second network, units of the layer over tracks, of the dense layers, and of the last layer.
    """

    eta: int = events.ETA
    phi: int = events.PHI
    blocks: tuple[int, ...] = BLOCKS
    dense: int = 256
    track: int = 32
    scalars: tuple[int, ...] = (256, 512)
    film: int = 1024


PUBLISHED = Sizes()


class _Layers:
    """Builder of layers of given sizes."""

    def __init__(self, sizes: Sizes) -> None:
        self.keras, self.sizes = keras_2.keras()[1].layers, sizes

    def convolution(self, x: Any, filters: int, size: int, name: str) -> Any:
        return self.keras.Conv2D(filters, size, padding="same", name=name)(x)

    def dense(self, x: Any, units: int, name: str) -> Any:
        return self.keras.Dense(units, name=name)(x)

    def leaky(self, x: Any, name: str) -> Any:
        return self.keras.LeakyReLU(alpha=_SLOPE, name=name)(x)


def network(*, seed: int = 1, sizes: Sizes = PUBLISHED) -> Any:
    """Build the network on the image alone: (n, 56, 11, 4) -> (n, 1), the energy in GeV.

    Args:
        seed: of the initial weights.
    """
    keras_2.seed_weights(seed)
    layers = _Layers(sizes)
    image = layers.keras.Input((sizes.eta, sizes.phi, events.LAYERS), name="em_barrel")
    return keras_2.keras()[1].Model(image, _image_branch(layers, image, None), name="deepcalo")


def film_network(*, seed: int = 1, sizes: Sizes = PUBLISHED) -> Any:
    """Build the network with scalars and tracks: (n, 15), (n, 57, 6) and (n, 56, 11, 4) -> (n, 1), the energy in GeV.

    Every feature map is multiplied by gamma and shifted by beta.

    Args:
        seed: of the initial weights.
    """
    keras_2.seed_weights(seed)
    layers = _Layers(sizes)
    image = layers.keras.Input((sizes.eta, sizes.phi, events.LAYERS), name="em_barrel")
    scalars = layers.keras.Input((len(events.SCALARS),), name="scalars")
    tracks = layers.keras.Input((events.TRACKS, events.TRACK_FEATURES), name="tracks")
    film = _film(layers, scalars, tracks)
    output = _image_branch(layers, image, film)
    # the kernel reads its inputs in this order, so that gamma and beta are ready before the first feature map
    return keras_2.keras()[1].Model([scalars, tracks, image], output, name="deepcalo_film")


def _image_branch(layers: _Layers, image: Any, film: Any) -> Any:
    """Append the image's layers and return the energy.

    Args:
        film: the tensors that gamma and beta are computed from, or None.
    """
    x = layers.keras.UpSampling2D((1, 5), name="finer_phi")(image)
    for block, filters in enumerate(layers.sizes.blocks):
        if block:
            x = layers.keras.MaxPooling2D(2, name=f"pool{block}")(x)
        for i in range(2 if block else 1):
            x = layers.convolution(x, filters, 3 if block else 5, f"conv{block}_{i}")
            if film is not None and i == 0:
                x = _modulated(layers, x, film, block)
            x = layers.leaky(x, f"leaky{block}_{i}")
    x = layers.keras.Flatten(name="flatten")(x)
    for i in range(2):
        x = layers.leaky(layers.dense(x, layers.sizes.dense, f"dense{i}"), f"leaky_dense{i}")
    return layers.dense(x, 1, "energy")


def _film(layers: _Layers, scalars: Any, tracks: Any) -> tuple[Any, Any]:
    """Return the 1024 units twice, for gamma and for beta, because a stream in hls4ml has at most seven readers."""
    each = layers.leaky(layers.dense(tracks, layers.sizes.track, "track0"), "leaky_track0")
    x = layers.keras.Concatenate(name="merged")([scalars, layers.keras.GlobalAveragePooling1D(name="all_tracks")(each)])
    for i, units in enumerate((*layers.sizes.scalars, layers.sizes.film)):
        x = layers.leaky(layers.dense(x, units, f"film{i}"), f"leaky_film{i}")
    return x, layers.keras.Reshape((layers.sizes.film,), name="film_again")(x)


def _modulated(layers: _Layers, x: Any, film: tuple[Any, Any], block: int) -> Any:
    """Return x * gamma + beta.

    The published dense layer of 992 units is split into ten here, which avoids slices and has the same weights. hls4ml
    multiplies only tensors of the same shape, so each factor, an image of one pixel, is repeated over the image.
    """
    _, height, width, channels = x.shape
    gamma, beta = (
        layers.keras.UpSampling2D((height, width), name=f"{what}{block}_image")(
            layers.keras.Reshape((1, 1, channels), name=f"{what}{block}_map")(layers.dense(made_of, channels, f"{what}{block}"))
        )
        for what, made_of in zip(("gamma", "beta"), film, strict=True)
    )
    return layers.keras.Add(name=f"shifted{block}")([layers.keras.Multiply(name=f"scaled{block}")([x, gamma]), beta])
