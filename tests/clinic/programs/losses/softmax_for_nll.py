"""nll_loss gets probabilities instead of their logarithms: the loss is negative.

symptom: loss wrong
finds: probabilities
healthy: chances = torch.log_softmax(logits, dim=1)
"""

import torch
from torch.nn import functional as F

torch.manual_seed(0)
weight = (torch.randn(5, 3) * 0.1).requires_grad_()
bias = torch.zeros(3).requires_grad_()
x = torch.randn(30, 5)
y = x[:, :3].argmax(1)
for _ in range(12):
    logits = x @ weight + bias
    chances = torch.softmax(logits, dim=1)  # sick
    loss = F.nll_loss(chances, y)
    loss.backward()
    with torch.no_grad():
        for p in (weight, bias):
            p -= 0.3 * p.grad
            p.grad = None
