"""The soft targets of distillation are logits: the cross entropy of a teacher needs probabilities.

symptom: loss wrong
finds: targets
healthy: soft = torch.softmax(teacher(x).detach(), dim=1)
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
teacher = nn.Linear(6, 4)
student = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
x = torch.randn(32, 6)
for _ in range(10):
    soft = teacher(x).detach()  # sick
    loss = -(soft * F.log_softmax(student(x), dim=1)).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
