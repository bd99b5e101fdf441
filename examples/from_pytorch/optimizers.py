"""Thirteen optimizers and eight schedules on one valley; states saved and restored."""

import copy

import gradwalk as torch
from gradwalk import optim
from gradwalk.optim import lr_scheduler as schedules

MAKERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.02, momentum=0.9),
    "Adam": lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
    "Adamax": lambda p: optim.Adamax(p, lr=0.1),
    "NAdam": lambda p: optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: optim.RAdam(p, lr=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.02, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.3),
    "Adadelta": lambda p: optim.Adadelta(p, lr=5.0),
    "ASGD": lambda p: optim.ASGD(p, lr=0.02),
    "Rprop": lambda p: optim.Rprop(p, lr=0.05),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.1),
    "LBFGS": lambda p: optim.LBFGS(p, lr=0.5, line_search_fn="strong_wolfe"),
}
SCHEDULES = {
    "StepLR": lambda o: schedules.StepLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 6),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=4, cycle_momentum=False),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda n: 1 / (1 + n)),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, 20, power=2.0),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, 0.1, total_iters=4), schedules.CosineAnnealingLR(o, 10)], [4]
    ),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda n: 0.95),
}


def valley(w):
    return (w[:, 0] ** 2 + 5 * w[:, 1] ** 2 + 0.5 * torch.sin(3 * w[:, 0])).sum()


def train(make, steps=12):
    w = torch.nn.Parameter(torch.tensor([[2.0, -1.0], [-1.5, 0.5]]))
    optimizer = make([w])

    def closure():
        optimizer.zero_grad()
        loss = valley(w)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return optimizer, w, closure


for name, make in MAKERS.items():
    optimizer, w, closure = train(make)
    saved, at = copy.deepcopy(optimizer.state_dict()), w.detach().clone()
    optimizer.step(closure)
    again = make([w])
    expected = w.detach().clone()
    w.data.copy_(at)
    again.load_state_dict(saved)
    again.step(closure)
    print(f"{name}: {valley(w).item():.5f}, restored {torch.allclose(w, expected)}")

for name, make in SCHEDULES.items():
    optimizer = optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule, rates = make(optimizer), []
    for _ in range(12):
        optimizer.step()
        schedule.step()
        rates.append(round(schedule.get_last_lr()[0], 6))
    print(name, rates)
