"""Variations of the Transformer's self-attention: one corpus, the same batches, the same learning rate.

    python benchmarks/variations.py --out runs/variations                  # all eleven: some ten minutes
    python benchmarks/variations.py --out runs/variations --only rotary    # one; the table shows all so far

As benchmarks/rivals.py, with which it shares corpus, settings and figures, for fewer steps: that is where they differ.
"""

from __future__ import annotations

from rivals import MODELS, main

VARIATIONS = {
    "the paper's": [],
    "learned": ["positions=learned", "max_positions=128"],
    "index": ["positions=index"],
    "normalized index": ["positions=normalized_index", "max_positions=128"],
    "relative": ["positions=relative"],
    "rotary": ["positions=rotary"],
    "alibi": ["positions=alibi"],
    "no positions": ["positions=none"],
    "local": ["pattern=local", "window=4"],
    "sparse": ["pattern=sparse", "window=4"],
    "low rank": ["pattern=low_rank", "rank=16", "max_positions=128"],
}

if __name__ == "__main__":
    main(__doc__, {name: [*MODELS["transformer"], *changes] for name, changes in VARIATIONS.items()}, steps=1000)
