# SPDX-License-Identifier: Apache-2.0
"""A small convolutional net with batch norm on generated pictures."""

import torch
from torch import nn

from . import torch_common as common

CLASSES = 10
BATCH = 32
SIDE = 32


def block(channels_in: int, channels_out: int) -> nn.Sequential:
    """Convolution, batch norm, rectifier, half the side."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def make_model() -> nn.Sequential:
    """Three blocks and a classifier."""
    side = SIDE // 8
    return nn.Sequential(
        block(3, 16), block(16, 32), block(32, 64), nn.Flatten(), nn.Linear(64 * side * side, CLASSES)
    )


def make_step(seed: int) -> common.Step:
    """One step of gradient descent with momentum."""
    rng = common.seed_everything(seed)
    model = make_model()
    batches = common.labelled_batches(rng, CLASSES, (BATCH, 3, SIDE, SIDE), count=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    return common.training_step(model, common.mean_cross_entropy, optimizer, batches)
