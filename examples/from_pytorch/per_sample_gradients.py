"""Private training: `vmap` of `grad` gives each sample's gradient, which is clipped alone."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.func import functional_call, grad, vmap

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3),
    nn.GroupNorm(2, 4),
    nn.ReLU(),
    nn.AvgPool2d(2),
    nn.Flatten(),
    nn.Linear(36, 3),
)
images, labels = torch.randn(16, 1, 8, 8), torch.randint(0, 3, (16,))
parameters = {name: p.detach() for name, p in net.named_parameters()}


def loss_of_one(parameters, image, label):
    scores = functional_call(net, parameters, (image.unsqueeze(0),))
    return nn.functional.cross_entropy(scores, label.unsqueeze(0))


for step in range(5):
    each = vmap(grad(loss_of_one), in_dims=(None, 0, 0))(parameters, images, labels)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    scale = (1.0 / norms).clamp(max=1.0)
    for name, g in each.items():
        clipped = torch.einsum("n...,n->...", g, scale) / len(images)
        parameters[name] = parameters[name] - 0.5 * clipped
    print(f"step {step + 1}: norms {norms.min().item():.3f} to {norms.max().item():.3f}")
mean = vmap(loss_of_one, in_dims=(None, 0, 0))(parameters, images, labels).mean()
print(f"loss {mean.item():.4f}")
