"""An ordinary training script that knows nothing of compilescope.

    compilescope report examples/plain_script.py -- --steps 6

Its last batch is smaller than the others, and evaluation switches the mode: what does that cost?
"""

import argparse

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, width: int = 16, classes: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1))
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    data, labels = torch.randn(8 * steps - 3, 16), torch.randint(3, (8 * steps - 3,))
    model = Classifier()
    model.compile(backend="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step, (x, y) in enumerate(zip(data.split(8), labels.split(8), strict=True)):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        accuracy = (model(data).argmax(-1) == labels).float().mean()
    print(f"accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
