# SPDX-License-Identifier: Apache-2.0
"""A generator and a discriminator of convolutions, trained against each other."""

import tensorflow as tf

from . import common

BATCH = 64
SIDE = 32
LATENT = 64
WIDTH = 32

layers = tf.keras.layers


def make_generator() -> tf.keras.Model:
    """Noise to images, by transposed convolutions."""
    noise = tf.keras.Input((LATENT,), batch_size=BATCH)
    x = layers.Dense(4 * 4 * 4 * WIDTH, use_bias=False)(noise)
    x = layers.Reshape((4, 4, 4 * WIDTH))(x)
    for factor in (2, 1):
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Conv2DTranspose(
            factor * WIDTH, 4, strides=2, padding="same", use_bias=False
        )(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh")(x)
    return tf.keras.Model(noise, x)


def make_discriminator() -> tf.keras.Model:
    """Images to one score, by convolutions."""
    images = tf.keras.Input((SIDE, SIDE, 3), batch_size=BATCH)
    x = images
    for factor in (1, 2, 4):
        x = layers.Conv2D(factor * WIDTH, 4, strides=2, padding="same")(x)
        x = layers.LeakyReLU(0.2)(x)
    return tf.keras.Model(images, layers.Dense(1)(layers.Flatten()(x)))


def mean_logistic_loss(scores, real: bool):
    """Mean logistic loss of scores that should say real or not real."""
    labels = tf.ones_like(scores) if real else tf.zeros_like(scores)
    return tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores)
    )


def make_step(seed: int) -> common.Step:
    """One Adam step of both networks; its loss is the sum of the two losses."""
    rng = common.seed_everything(seed)
    generator, discriminator = make_generator(), make_discriminator()
    generator_optimizer = tf.keras.optimizers.Adam(5e-5, beta_1=0.5)
    discriminator_optimizer = tf.keras.optimizers.Adam(5e-5, beta_1=0.5)
    generator_optimizer.build(generator.trainable_variables)
    discriminator_optimizer.build(discriminator.trainable_variables)

    @tf.function
    def train(images, noise):
        with tf.GradientTape() as for_generator, tf.GradientTape() as for_critic:
            made = generator(noise, training=True)
            made_scores = discriminator(made, training=True)
            real_scores = discriminator(images, training=True)
            generator_loss = mean_logistic_loss(made_scores, real=True)
            critic_loss = mean_logistic_loss(real_scores, real=True)
            critic_loss += mean_logistic_loss(made_scores, real=False)
        for tape, loss, network, optimizer in (
            (for_generator, generator_loss, generator, generator_optimizer),
            (for_critic, critic_loss, discriminator, discriminator_optimizer),
        ):
            variables = network.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return generator_loss + critic_loss

    batches = []
    for images, _ in common.image_batches(rng, 10, BATCH, SIDE, count=8):
        noise = rng.normal(size=(BATCH, LATENT)).astype("float32")
        batches.append((tf.tanh(images), tf.constant(noise)))
    source = common.cycle(batches)
    return lambda: float(train(*next(source)))
