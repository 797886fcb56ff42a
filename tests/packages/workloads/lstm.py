# SPDX-License-Identifier: Apache-2.0
"""Two layers of LSTM cells on token sequences: thousands of tiny ops a step."""

import tensorflow as tf

from . import common, recurrent

HIDDEN = 200


def make_step(seed: int) -> common.Step:
    """One Adam step of the language model with LSTM cells."""
    return recurrent.make_step(seed, tf.keras.layers.LSTMCell, HIDDEN)
