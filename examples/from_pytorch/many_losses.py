"""The losses of classification, ranking and regression, side by side on one network."""

import gradwalk as torch
from gradwalk import nn

torch.manual_seed(0)
x = torch.randn(10, 5)
classes = torch.randint(0, 4, (10,))
several = (torch.rand(10, 4) > 0.6).float()
listed = torch.tensor([[1, 3, -1, 0]] * 10)
signs = torch.where(torch.rand(10) > 0.5, 1.0, -1.0)
net = nn.Sequential(nn.Linear(5, 16), nn.Mish(), nn.Dropout(0.0), nn.Linear(16, 4))

losses = {
    "multi-margin": lambda y: nn.MultiMarginLoss(p=2)(y, classes),
    "multi-label margin": lambda y: nn.MultiLabelMarginLoss()(y, listed),
    "multi-label soft margin": lambda y: nn.MultiLabelSoftMarginLoss()(y, several),
    "binary": lambda y: nn.BCEWithLogitsLoss(pos_weight=torch.full((4,), 2.0))(y, several),
    "focal": lambda y: ((1 - y.softmax(1).gather(1, classes[:, None])) ** 2).mean(),
    "hinge": lambda y: nn.HingeEmbeddingLoss()(y[:, 0], signs),
    "soft margin": lambda y: nn.SoftMarginLoss()(y[:, 0], signs),
    "ranking": lambda y: nn.MarginRankingLoss(margin=0.1)(y[:, 0], y[:, 1], signs),
    "cosine": lambda y: nn.CosineEmbeddingLoss(margin=0.2)(y[:, :2], y[:, 2:], signs),
    "triplet": lambda y: nn.TripletMarginLoss()(y[:4], y[3:7], y[6:]),
    "huber": lambda y: nn.HuberLoss(delta=0.5)(y, x[:, :4]),
    "poisson": lambda y: nn.PoissonNLLLoss()(y, several),
    "gaussian": lambda y: nn.GaussianNLLLoss()(y, x[:, :4], torch.ones_like(y)),
    "divergence": lambda y: nn.KLDivLoss(reduction="batchmean")(
        y.log_softmax(1), x[:, :4].softmax(1)
    ),
    "ignored": lambda y: nn.NLLLoss(ignore_index=2)(y.log_softmax(1), classes),
}
for name, loss in losses.items():
    net.zero_grad()
    value = loss(net(x))
    value.backward()
    norm = torch.cat([p.grad.flatten() for p in net.parameters()]).norm()
    print(f"{name}: {value.item():.5f}, gradient {norm.item():.5f}")
