# SPDX-License-Identifier: Apache-2.0
"""Two layers of GRU cells on token sequences."""

import tensorflow as tf

from . import common, recurrent

HIDDEN = 200


def make_step(seed: int) -> common.Step:
    """One Adam step of the language model with GRU cells."""
    return recurrent.make_step(seed, tf.keras.layers.GRUCell, HIDDEN)
