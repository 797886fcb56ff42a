# SPDX-License-Identifier: Apache-2.0
"""A small residual network with batch normalisation on 32x32 images."""

import tensorflow as tf

from . import common

BATCH = 64
SIDE = 32
CLASSES = 10
WIDTHS = (16, 32, 64)
BLOCKS = 2

layers = tf.keras.layers


def conv_norm(x, width: int, kernel: int, stride: int = 1):
    """Convolution and batch normalisation, no activation."""
    x = layers.Conv2D(width, kernel, strides=stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def block(x, width: int, stride: int):
    """Two 3x3 convolutions beside a shortcut."""
    shortcut = x
    if stride != 1 or x.shape[-1] != width:
        shortcut = conv_norm(x, width, 1, stride)
    x = layers.ReLU()(conv_norm(x, width, 3, stride))
    return layers.ReLU()(layers.Add()([conv_norm(x, width, 3), shortcut]))


def make_step(seed: int) -> common.Step:
    """One SGD step of the image classifier."""
    rng = common.seed_everything(seed)
    images = tf.keras.Input((SIDE, SIDE, 3), batch_size=BATCH)
    x = layers.ReLU()(conv_norm(images, WIDTHS[0], 3))
    for stage, width in enumerate(WIDTHS):
        for index in range(BLOCKS):
            x = block(x, width, 2 if stage and not index else 1)
    logits = layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x))
    model = tf.keras.Model(images, logits)

    def loss_of(network, inputs, targets):
        return common.mean_cross_entropy(targets, network(inputs, training=True))

    batches = common.image_batches(rng, CLASSES, BATCH, SIDE, count=8)
    # A small rate: rounding must not grow to another loss within 50 steps.
    optimizer = tf.keras.optimizers.SGD(0.002)
    return common.training_step(model, loss_of, optimizer, batches)
