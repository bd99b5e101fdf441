"""Layers that learn their sizes from the first batch, hooks, and the state of a module."""

import gradwalk as torch
from gradwalk import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.LazyConv2d(8, 3, padding=1),
    nn.LazyBatchNorm2d(),
    nn.Hardswish(),
    nn.AdaptiveMaxPool2d(2),
    nn.Flatten(),
    nn.LazyLinear(10),
)
seen = {}
for name, layer in net.named_children():
    layer.register_forward_hook(
        lambda m, inputs, out, name=name: seen.update({name: tuple(out.shape)})
    )
net(torch.randn(2, 3, 8, 8))
print(seen)
torch.manual_seed(1)
for p in net.parameters():
    nn.init.trunc_normal_(p, std=0.2)
print(sum(p.numel() for p in net.parameters()), "parameters;", sorted(net.state_dict())[:3])

copy = nn.Sequential(*[nn.LazyConv2d(8, 3, padding=1), nn.LazyBatchNorm2d()])
copy.load_state_dict({k: v for k, v in net.state_dict().items() if k[0] in "01"})
x = torch.randn(4, 3, 8, 8)
net.eval(), copy.eval()
print("a copy agrees", torch.equal(copy(x), net[:2](x)))

gradients = []
handle = net[5].register_full_backward_hook(
    lambda m, into, out: gradients.append(out[0].norm().item())
)
net(x).pow(2).sum().backward()
handle.remove()
print(f"gradient at the last layer {gradients[0]:.4f}")
print(net.get_submodule("0").in_channels, net.get_parameter("5.weight").shape == (10, 32))
