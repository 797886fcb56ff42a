# SPDX-License-Identifier: Apache-2.0
"""Training steps of four small models; prints a hash of what each has learned.

    python torch_steps.py [--threads N] [--steps N]
"""

import argparse
import hashlib

import torch
from torch import nn


class Language(nn.Module):
    """Words in, words out: an embedding, layers over the sequence, a projection."""

    def __init__(self, layers):
        super().__init__()
        self.words, self.layers, self.out = nn.Embedding(300, 64), layers, nn.Linear(64, 300)

    def forward(self, words):
        states = self.layers(self.words(words))
        return self.out(states[0] if isinstance(states, tuple) else states).transpose(1, 2)


def models():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    words = torch.randint(300, (16, 40))
    yield "lstm", Language(nn.LSTM(64, 64, 2, batch_first=True)), words, words
    yield "transformer", Language(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)), words, words
    images = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4096, 10)
    )
    yield "conv", images, torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
    dense = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10))
    yield "mlp", dense, torch.randn(256, 256), torch.randint(10, (256,))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    for name, model, given, wanted in models():
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        for _ in range(arguments.steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(given), wanted).backward()
            optimizer.step()
        learned = hashlib.sha256()
        for parameter in model.parameters():
            learned.update(parameter.detach().contiguous().numpy().tobytes())
        print(name, learned.hexdigest()[:16])
    print("threads", torch.get_num_threads())


if __name__ == "__main__":
    main()
