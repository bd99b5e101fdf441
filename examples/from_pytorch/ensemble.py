"""Five networks trained as one: parameters stacked, `vmap` over them, `jvp` through them."""

import gradwalk as torch
from gradwalk import nn
from gradwalk.func import functional_call, grad_and_value, jacrev, jvp, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
members = [
    nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).state_dict() for _ in range(5)
]
stacked = {name: torch.stack([m[name] for m in members]) for name in members[0]}
x = torch.linspace(-2, 2, 20).unsqueeze(1)
y = torch.sin(2 * x)


def loss(parameters):
    return ((functional_call(net, parameters, (x,)) - y) ** 2).mean()


for step in range(50):
    gradients, losses = vmap(grad_and_value(loss))(stacked)
    stacked = {name: p - 0.1 * gradients[name] for name, p in stacked.items()}
    if step % 25 == 24:
        print("losses", [round(v, 4) for v in losses.tolist()])

outputs = vmap(lambda p, x: functional_call(net, p, (x,)), in_dims=(0, None))(stacked, x)
print("spread inside and outside", outputs.std(0)[10].item(), outputs.std(0)[0].item())
one = {name: p[0] for name, p in stacked.items()}
value, slope = jvp(lambda x: functional_call(net, one, (x,)), (x,), (torch.ones_like(x),))
each = vmap(jacrev(lambda x: functional_call(net, one, (x,))))(x)
print("slopes agree", torch.allclose(slope.flatten(), each.flatten(), atol=1e-5))
noise = vmap(lambda x: x + torch.randn(3), randomness="different")(torch.zeros(4))
print("rows differ", (noise[0] != noise[1]).all().item())
