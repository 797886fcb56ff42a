# SPDX-License-Identifier: Apache-2.0
"""What the training programs share: seeds, generated data, one step function."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

Step = Callable[[], float]


def seed_everything(seed: int) -> np.random.Generator:
    """Seeds weights and random ops; returns the generator for the data."""
    tf.keras.utils.set_random_seed(seed)
    return np.random.default_rng(seed)


def cycle(batches: Sequence) -> Iterator:
    """Goes round the batches for ever: no input pipeline, no waiting."""
    while True:
        yield from batches


def training_step(
    model: tf.keras.Model,
    loss_of: Callable,
    optimizer: tf.keras.optimizers.Optimizer,
    batches: Sequence,
    clip_norm: float | None = None,
) -> Step:
    """The usual loop's body: gradients of loss_of(model, *batch), then an update.

    The loss is read back in every step, as a program that logs it would.
    """
    optimizer.build(model.trainable_variables)

    @tf.function
    def train(*batch):
        with tf.GradientTape() as tape:
            loss = loss_of(model, *batch)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        if clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    source = cycle(batches)
    return lambda: float(train(*next(source)))


def mean_cross_entropy(labels, logits):
    """Mean over all elements of the sparse softmax cross entropy."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def token_batches(
    rng: np.random.Generator, vocabulary: int, batch: int, length: int, count: int
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Token sequences of a random first-order chain, and the same shifted by one."""
    follower = rng.integers(0, vocabulary, size=(vocabulary, 4))
    batches = []
    for _ in range(count):
        tokens = np.empty((batch, length + 1), dtype=np.int32)
        tokens[:, 0] = rng.integers(0, vocabulary, size=batch)
        for t in range(length):
            tokens[:, t + 1] = follower[tokens[:, t], rng.integers(0, 4, size=batch)]
        batches.append((tf.constant(tokens[:, :-1]), tf.constant(tokens[:, 1:])))
    return batches


def image_batches(
    rng: np.random.Generator, classes: int, batch: int, side: int, count: int
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Images that are a class's own random picture plus noise, and their classes."""
    pictures = rng.normal(size=(classes, side, side, 3))
    batches = []
    for _ in range(count):
        labels = rng.integers(0, classes, size=batch)
        noise = rng.normal(scale=4.0, size=(batch, side, side, 3))
        images = (pictures[labels] + noise).astype(np.float32)
        batches.append((tf.constant(images), tf.constant(labels, dtype=tf.int32)))
    return batches
