# SPDX-License-Identifier: Apache-2.0
"""A word-level language model on recurrent cells, run by a while loop in the graph."""

from collections.abc import Callable

import tensorflow as tf

from . import common

VOCABULARY = 1000
BATCH = 20
LENGTH = 20
LAYERS = 2


def make_step(seed: int, cell: Callable, hidden: int) -> common.Step:
    """cell(hidden) makes one recurrent cell; its layers are not fused."""
    rng = common.seed_everything(seed)
    tokens = tf.keras.Input((LENGTH,), batch_size=BATCH, dtype="int32")
    x = tf.keras.layers.Embedding(VOCABULARY, hidden)(tokens)
    for _ in range(LAYERS):
        x = tf.keras.layers.RNN(cell(hidden), return_sequences=True)(x)
    model = tf.keras.Model(tokens, tf.keras.layers.Dense(VOCABULARY)(x))

    def loss_of(network, inputs, targets):
        return common.mean_cross_entropy(targets, network(inputs, training=True))

    batches = common.token_batches(rng, VOCABULARY, BATCH, LENGTH, count=16)
    optimizer = tf.keras.optimizers.Adam(0.002)
    return common.training_step(model, loss_of, optimizer, batches, clip_norm=5.0)
