"""log_softmax normalises over the batch; written with functions and plain tensors.

symptom: loss wrong
finds: softmax axis, rows mix
healthy: return F.log_softmax(h @ params["w2"] + params["b2"], dim=1)
"""

import torch
from torch.nn import functional as F

torch.manual_seed(0)
params = {
    "w1": torch.randn(7, 16) * 0.3,
    "b1": torch.zeros(16),
    "w2": torch.randn(16, 4) * 0.3,
    "b2": torch.zeros(4),
}
for p in params.values():
    p.requires_grad_()


def forward(x):
    h = torch.tanh(x @ params["w1"] + params["b1"])
    return F.log_softmax(h @ params["w2"] + params["b2"], dim=0)  # sick


optimizer = torch.optim.Adam(params.values(), lr=0.02)
x, y = torch.randn(24, 7), torch.randint(0, 4, (24,))
for _ in range(10):
    optimizer.zero_grad()
    F.nll_loss(forward(x), y).backward()
    optimizer.step()
