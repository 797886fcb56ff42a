# SPDX-License-Identifier: Apache-2.0
"""Two layers of torch.nn.LSTM on token sequences."""

import torch

from . import torch_common as common

VOCABULARY = 1000
BATCH = 20
LENGTH = 20
HIDDEN = 200


class Model(torch.nn.Module):
    """Embedding, two LSTM layers, logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.lstm = torch.nn.LSTM(HIDDEN, HIDDEN, num_layers=2, batch_first=True)
        self.logits = torch.nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.logits(self.lstm(self.embedding(tokens))[0])


def make_step(seed: int) -> common.Step:
    """One Adam step of the language model."""
    rng = common.seed_everything(seed)
    model = Model()
    batches = common.token_batches(rng, VOCABULARY, BATCH, LENGTH, count=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    return common.training_step(model, common.mean_cross_entropy, optimizer, batches)
