# SPDX-License-Identifier: Apache-2.0
"""A small causal transformer on token sequences."""

import tensorflow as tf

from . import common

VOCABULARY = 500
BATCH = 16
LENGTH = 48
WIDTH = 128
HEADS = 4
LAYERS = 2

layers = tf.keras.layers


class Positions(layers.Layer):
    """Adds a learned vector to each position."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="uniform")

    def call(self, x):
        return x + self.table


class Attention(layers.Layer):
    """Causal self-attention with several heads."""

    def build(self, shape):
        self.mix_in = layers.Dense(3 * shape[-1], use_bias=False)
        self.mix_out = layers.Dense(shape[-1], use_bias=False)
        self.mix_in.build(shape)
        self.mix_out.build(shape)
        length = shape[1]
        self.mask = tf.linalg.band_part(tf.ones((length, length)), -1, 0)

    def call(self, x):
        batch, length, width = x.shape
        x = tf.reshape(self.mix_in(x), (batch, length, 3, HEADS, width // HEADS))
        query, key, value = tf.unstack(tf.transpose(x, (2, 0, 3, 1, 4)))
        scores = tf.matmul(query, key, transpose_b=True) * (width // HEADS) ** -0.5
        weights = tf.nn.softmax(scores - 1e9 * (1.0 - self.mask))
        mixed = tf.transpose(tf.matmul(weights, value), (0, 2, 1, 3))
        return self.mix_out(tf.reshape(mixed, (batch, length, width)))


def make_step(seed: int) -> common.Step:
    """One Adam step of next-token prediction."""
    rng = common.seed_everything(seed)
    tokens = tf.keras.Input((LENGTH,), batch_size=BATCH, dtype="int32")
    x = Positions()(layers.Embedding(VOCABULARY, WIDTH)(tokens))
    for _ in range(LAYERS):
        x = layers.Add()([x, Attention()(layers.LayerNormalization()(x))])
        y = layers.Dense(4 * WIDTH, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(WIDTH)(y)])
    logits = layers.Dense(VOCABULARY)(layers.LayerNormalization()(x))
    model = tf.keras.Model(tokens, logits)

    def loss_of(network, inputs, targets):
        return common.mean_cross_entropy(targets, network(inputs, training=True))

    batches = common.token_batches(rng, VOCABULARY, BATCH, LENGTH, count=16)
    optimizer = tf.keras.optimizers.Adam(0.001)
    return common.training_step(model, loss_of, optimizer, batches)
