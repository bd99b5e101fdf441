"""After the first epoch the model is validated, and then it trains in eval mode.

symptom: loss wrong
finds: eval mode
at: model.eval()
healthy: model.train()
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 6)
y = x[:, :3].argmax(1)
for epoch in range(3):
    for rows in range(0, 64, 16):
        loss = nn.functional.cross_entropy(model(x[rows : rows + 16]), y[rows : rows + 16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(x).argmax(1) == y).sum()
    print(epoch, right)  # sick
