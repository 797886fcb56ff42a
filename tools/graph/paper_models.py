# SPDX-License-Identifier: Apache-2.0
"""The four training programs of Liu et al. (IPDPS 2019), on generated data of the data sets' shapes.

Batch sizes as in the paper, as far as known: ResNet-50 64 (CIFAR-10), DCGAN 64 (MNIST),
Inception-v3 16 (ImageNet), LSTM 20 x 20 (PTB, its tutorial's small model). Each function
returns a callable that makes one step.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

layers = tf.keras.layers
Step = Callable[[], float]


def classifier_step(
    model: tf.keras.Model,
    optimizer: tf.keras.optimizers.Optimizer,
    inputs: np.ndarray,
    labels: np.ndarray,
    clip_norm: float | None = None,
) -> Step:
    """Sparse softmax cross entropy of the logits, its gradients, an update."""
    optimizer.build(model.trainable_variables)

    @tf.function
    def train(batch, targets):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=targets, logits=model(batch, training=True)
            )
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        if clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    batch, targets = tf.constant(inputs), tf.constant(labels)
    return lambda: float(train(batch, targets))


def image_step(network: Callable, batch: int, side: int, classes: int) -> Step:
    """One SGD step of a network of keras.applications, as published, from random weights."""
    rng = np.random.default_rng(1)
    tf.keras.utils.set_random_seed(1)
    model = network(
        weights=None,
        input_tensor=tf.keras.Input((side, side, 3), batch_size=batch),
        classes=classes,
        classifier_activation=None,
    )
    images = rng.normal(size=(batch, side, side, 3)).astype(np.float32)
    labels = rng.integers(0, classes, size=batch).astype(np.int32)
    optimizer = tf.keras.optimizers.SGD(0.001, momentum=0.9)
    return classifier_step(model, optimizer, images, labels)


def resnet50() -> Step:
    """ResNet-50 on images as large as CIFAR-10's."""
    return image_step(tf.keras.applications.ResNet50, batch=64, side=32, classes=10)


def inception_v3() -> Step:
    """Inception-v3 on images as large as ImageNet's."""
    network = tf.keras.applications.InceptionV3
    return image_step(network, batch=16, side=299, classes=1000)


def lstm() -> Step:
    """Two LSTM layers of 200 over 20 words, unrolled as in the tutorial; 10,000 words are known."""
    vocabulary, hidden, batch, length = 10000, 200, 20, 20
    rng = np.random.default_rng(1)
    tf.keras.utils.set_random_seed(1)
    tokens = tf.keras.Input((length,), batch_size=batch, dtype="int32")
    x = layers.Embedding(vocabulary, hidden)(tokens)
    for _ in range(2):
        cell = layers.LSTMCell(hidden)
        x = layers.RNN(cell, return_sequences=True, unroll=True)(x)
    model = tf.keras.Model(tokens, layers.Dense(vocabulary)(x))
    words = rng.integers(0, vocabulary, size=(batch, length + 1)).astype(np.int32)
    optimizer = tf.keras.optimizers.SGD(1.0)
    return classifier_step(model, optimizer, words[:, :-1], words[:, 1:], clip_norm=5.0)


def make_generator(batch: int, latent: int) -> tf.keras.Model:
    """Noise to 28 x 28 pictures."""
    noise = tf.keras.Input((latent,), batch_size=batch)
    x = layers.Dense(7 * 7 * 256, use_bias=False)(noise)
    x = layers.LeakyReLU()(layers.BatchNormalization()(x))
    x = layers.Reshape((7, 7, 256))(x)
    for width, stride in ((128, 1), (64, 2)):
        x = layers.Conv2DTranspose(width, 5, stride, padding="same", use_bias=False)(x)
        x = layers.LeakyReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2DTranspose(1, 5, 2, padding="same", use_bias=False, activation="tanh")(x)
    return tf.keras.Model(noise, x)


def make_discriminator(batch: int) -> tf.keras.Model:
    """28 x 28 pictures to one score."""
    images = tf.keras.Input((28, 28, 1), batch_size=batch)
    x = images
    for width in (64, 128):
        x = layers.Conv2D(width, 5, strides=2, padding="same")(x)
        x = layers.Dropout(0.3)(layers.LeakyReLU()(x))
    return tf.keras.Model(images, layers.Dense(1)(layers.Flatten()(x)))


def logistic_losses(scores: Sequence, labels: Sequence):
    """The sum of the mean logistic losses."""
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
    return sum(
        tf.reduce_mean(cross_entropy(labels=tf.fill(score.shape, label), logits=score))
        for score, label in zip(scores, labels, strict=True)
    )


def dcgan() -> Step:
    """A generator and a discriminator of convolutions, both updated in one step."""
    batch, latent = 64, 100
    rng = np.random.default_rng(1)
    tf.keras.utils.set_random_seed(1)
    generator, discriminator = make_generator(batch, latent), make_discriminator(batch)
    optimizers = [tf.keras.optimizers.Adam(1e-4) for _ in range(2)]
    for optimizer, network in zip(optimizers, (generator, discriminator), strict=True):
        optimizer.build(network.trainable_variables)

    @tf.function
    def train(images, noise):
        with tf.GradientTape(persistent=True) as tape:
            made = discriminator(generator(noise, training=True), training=True)
            real = discriminator(images, training=True)
            generator_loss = logistic_losses([made], [1.0])
            critic_loss = logistic_losses([real, made], [1.0, 0.0])
        pairs = ((generator_loss, generator), (critic_loss, discriminator))
        for optimizer, (loss, network) in zip(optimizers, pairs, strict=True):
            variables = network.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return generator_loss + critic_loss

    images = tf.constant(rng.normal(size=(batch, 28, 28, 1)).astype(np.float32))
    noise = tf.constant(rng.normal(size=(batch, latent)).astype(np.float32))
    return lambda: float(train(images, noise))
