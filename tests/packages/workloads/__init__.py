# SPDX-License-Identifier: Apache-2.0
"""The training programs that workload.py runs, one module each.

Every module has ``make_step(seed)``, some with a second argument: it builds the model and its data and
returns a function that runs one training step and returns its loss.
"""
