# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch programs share: seeds, generated data, one step function."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch

Step = Callable[[], float]


def seed_everything(seed: int) -> np.random.Generator:
    """Seeds weights and random ops; returns the generator for the data."""
    torch.manual_seed(seed)
    return np.random.default_rng(seed)


def training_step(
    model: torch.nn.Module,
    loss_of: Callable,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[tuple],
) -> Step:
    """The usual loop's body: gradients of loss_of(model, *batch), then an update.

    The loss is read back in every step, as a program that logs it would.
    """
    source = itertools.cycle(batches)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(model, *next(source))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def inference_step(model: torch.nn.Module, requests: Sequence[torch.Tensor]) -> Step:
    """Answers one request after the other; the mean of the answer stands for the loss."""
    source = itertools.cycle(requests)
    model.eval()

    def step() -> float:
        with torch.inference_mode():
            return model(next(source)).mean().item()

    return step


def mean_cross_entropy(
    model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Mean over all elements of the cross entropy of the model's last dimension."""
    logits = model(inputs)
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def token_batches(
    rng: np.random.Generator, vocabulary: int, batch: int, length: int, count: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Token sequences of a random first-order chain, and the same shifted by one."""
    follower = rng.integers(0, vocabulary, size=(vocabulary, 4))
    batches = []
    for _ in range(count):
        tokens = np.empty((batch, length + 1), dtype=np.int64)
        tokens[:, 0] = rng.integers(0, vocabulary, size=batch)
        for t in range(length):
            tokens[:, t + 1] = follower[tokens[:, t], rng.integers(0, 4, size=batch)]
        whole = torch.from_numpy(tokens)
        batches.append((whole[:, :-1].contiguous(), whole[:, 1:].contiguous()))
    return batches


def labelled_batches(
    rng: np.random.Generator, classes: int, shape: tuple[int, ...], count: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Examples that are a class's own random pattern plus noise, and their classes."""
    patterns = rng.normal(size=(classes, *shape[1:]))
    batches = []
    for _ in range(count):
        labels = rng.integers(0, classes, size=shape[0])
        noisy = patterns[labels] + rng.normal(scale=4.0, size=shape)
        batches.append((torch.from_numpy(noisy.astype(np.float32)), torch.from_numpy(labels)))
    return batches
