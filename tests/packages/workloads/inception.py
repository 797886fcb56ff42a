# SPDX-License-Identifier: Apache-2.0
"""An image classifier of modules with four branches side by side."""

import tensorflow as tf

from . import common

BATCH = 48
SIDE = 48
CLASSES = 10
WIDTH = 32
MODULES = (1, 2, 4)  # WIDTH times this is the width of a stage; halved in between

layers = tf.keras.layers


def conv(x, width: int, kernel, stride: int = 1):
    """Convolution, batch normalisation, activation."""
    x = layers.Conv2D(width, kernel, strides=stride, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def module(x, width: int):
    """1x1, 3x3, factored 5x5 and pooling branches, concatenated."""
    narrow = width // 2
    straight = conv(x, width, 1)
    middle = conv(conv(x, narrow, 1), width, 3)
    far = conv(conv(conv(x, narrow, 1), width, (1, 5)), width, (5, 1))
    pooled = conv(layers.AveragePooling2D(3, strides=1, padding="same")(x), width, 1)
    return layers.Concatenate()([straight, middle, far, pooled])


def make_step(seed: int) -> common.Step:
    """One SGD step of the image classifier."""
    rng = common.seed_everything(seed)
    images = tf.keras.Input((SIDE, SIDE, 3), batch_size=BATCH)
    x = conv(images, 2 * WIDTH, 3, stride=2)
    for stage, factor in enumerate(MODULES):
        if stage:
            x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        x = module(module(x, factor * WIDTH), factor * WIDTH)
    logits = layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x))
    model = tf.keras.Model(images, logits)

    def loss_of(network, inputs, targets):
        return common.mean_cross_entropy(targets, network(inputs, training=True))

    batches = common.image_batches(rng, CLASSES, BATCH, SIDE, count=8)
    # A small rate: rounding must not grow to another loss within 50 steps.
    optimizer = tf.keras.optimizers.SGD(0.0003)
    return common.training_step(model, loss_of, optimizer, batches)
