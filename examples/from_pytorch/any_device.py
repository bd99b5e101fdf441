"""One program for every machine: `accelerator`, DataParallel, compile, checkpointing."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.utils.checkpoint import checkpoint
from gradwalk.utils.data import DataLoader, TensorDataset, random_split

here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
device = here if here is not None else torch.device("cpu")
torch.manual_seed(1)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x):
        return x + checkpoint(self.body, x, use_reentrant=False)


model = nn.DataParallel(
    nn.Sequential(nn.Linear(4, 16), Residual(16), Residual(16), nn.Linear(16, 3))
)
model = model.to(device)
inputs = torch.randn(90, 4)
data = TensorDataset(inputs, inputs[:, :3].argmax(dim=1))
train, held = random_split(data, [60, 30])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for epoch in range(3):
    model.train()
    total = 0.0
    for x, y in DataLoader(train, batch_size=20, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    model.eval()
    with torch.inference_mode():
        right = sum(
            (model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in DataLoader(held, 10)
        )
    print(f"epoch {epoch + 1}: loss {total / len(train):.4f}, right {right} of {len(held)}")
print(sorted(model.state_dict())[:2])
