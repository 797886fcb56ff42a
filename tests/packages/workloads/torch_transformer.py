# SPDX-License-Identifier: Apache-2.0
"""A small causal transformer of torch.nn's own layers on token sequences."""

import torch
from torch import nn

from . import torch_common as common

VOCABULARY = 500
BATCH = 16
LENGTH = 48
WIDTH = 128
HEADS = 4
LAYERS = 2


class Model(nn.Module):
    """Embedding and positions, encoder layers under a causal mask, logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.logits = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions
        return self.logits(self.layers(x, mask=self.mask, is_causal=True))


def make_step(seed: int) -> common.Step:
    """One Adam step of next-token prediction."""
    rng = common.seed_everything(seed)
    model = Model()
    batches = common.token_batches(rng, VOCABULARY, BATCH, LENGTH, count=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    return common.training_step(model, common.mean_cross_entropy, optimizer, batches)
