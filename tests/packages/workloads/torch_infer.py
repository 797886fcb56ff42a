# SPDX-License-Identifier: Apache-2.0
"""A served model: one request at a time through a net of the ConvNet's or the transformer's kind."""

from . import torch_common as common


def make_step(seed: int, model: str) -> common.Step:
    """Answers one request with `conv` or `transformer`."""
    rng = common.seed_everything(seed)
    if model == "conv":
        from . import torch_conv

        shape = (1, 3, torch_conv.SIDE, torch_conv.SIDE)
        batches = common.labelled_batches(rng, torch_conv.CLASSES, shape, count=16)
        network = torch_conv.make_model()
    else:
        from . import torch_transformer

        length = torch_transformer.LENGTH
        batches = common.token_batches(rng, torch_transformer.VOCABULARY, 1, length, count=16)
        network = torch_transformer.Model()
    return common.inference_step(network, [inputs for inputs, _ in batches])
