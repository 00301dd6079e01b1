# SPDX-License-Identifier: Apache-2.0
"""Replacements for optimiser passes of hls4ml 1.3.0 that give wrong results.

Fusing normalisations: hls4ml multiplies the weights of a layer by the scales along their last axis. A depthwise convolution has
its channels on the axis before that, and a scale that comes from a constant has a number for each element of the tensor, not
for each channel.

Weights that are powers of two: hls4ml writes each as a sign and an exponent, with a function that numpy 2 no longer has. It
takes the width of the exponent for the width of the number, its C++ drops the bits of products that are shifted far to the
right, and it does not support such biases.

Merges of two shapes: hls4ml's C++ leaves elements out, and in io_stream its templates stop with an AssertionError.

Binary and ternary activations: hls4ml merges one with the normalisation before it, as if all scales were positive and nothing
else read it, and rounds a binary one's threshold in the wrong direction.

Dot: hls4ml's inference of types stops with an AssertionError where an accumulator has none.

Einsum and EinsumDense: hls4ml has C++ for Strategy Latency alone, and stops with a TypeError for Strategy Resource.

Global pooling: hls4ml gives sums and results the model's default type, in which they wrap.

LSTM and GRU: hls4ml gives sums the model's default type, in which they wrap, and QKeras' weights without their quantisers.

TimeDistributed: hls4ml gives its copies of a step a type of their own, for which the C++ does not compile.

Bits that stand for -1 and 1: hls4ml reads them as 0 and 1 in every layer but a product, and so does the reader of an output.

Softmax: in io_parallel hls4ml takes a tensor of Keras 2 for one vector, and the type of an accumulator without
a type of its own differs between its C++ and its graph.
"""
