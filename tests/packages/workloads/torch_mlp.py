# SPDX-License-Identifier: Apache-2.0
"""Three dense layers: few ops of middling size a step."""

import torch
from torch import nn

from . import torch_common as common

CLASSES = 10
BATCH = 64
WIDTH = 256


def make_step(seed: int) -> common.Step:
    """One Adam step of a classifier."""
    rng = common.seed_everything(seed)
    model = nn.Sequential(
        nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)
    )
    batches = common.labelled_batches(rng, CLASSES, (BATCH, WIDTH), count=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    return common.training_step(model, common.mean_cross_entropy, optimizer, batches)
