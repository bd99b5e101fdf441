"""Logistic regression as it was written in 2017: Variables, typed constructors, `.data`."""

import gradwalk as torch
import gradwalk.nn.functional as F
from gradwalk.autograd import Variable

torch.manual_seed(0)
points = Variable(torch.FloatTensor(64, 2).normal_())
labels = Variable(torch.LongTensor([int(x + 2 * y > 0) for x, y in points.data.tolist()]))
weight = Variable(torch.Tensor(2, 2).zero_(), requires_grad=True)
bias = Variable(torch.zeros(2), requires_grad=True)

for step in range(30):
    loss = F.cross_entropy(points.mm(weight) + bias.expand(64, 2), labels)
    if weight.grad is not None:
        weight.grad.data.zero_()
        bias.grad.data.zero_()
    loss.backward()
    weight.data -= 0.5 * weight.grad.data
    bias.data -= 0.5 * bias.grad.data
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.data.item():.4f}")

right = (torch.max(points.mm(weight) + bias, 1)[1] == labels).float().mean()
print(f"right: {right.item():.4f}, weights {weight.data.view(-1).tolist()}")
