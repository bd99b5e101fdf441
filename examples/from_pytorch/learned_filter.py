"""A filter learned in the frequency domain: `rfft`, a complex parameter, `stft`."""

import math

import gradwalk as torch

torch.manual_seed(0)
t = torch.arange(128) / 128
clean = torch.sin(2 * math.pi * 5 * t) + 0.5 * torch.sin(2 * math.pi * 12 * t)
noisy = clean + 0.5 * torch.randn(16, 128)

response = torch.ones(65, dtype=torch.complex64, requires_grad=True)
optimizer = torch.optim.SGD([response], lr=2e-2)
for step in range(40):
    filtered = torch.fft.irfft(torch.fft.rfft(noisy) * response, n=128)
    loss = ((filtered - clean) ** 2).mean() * 50
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        largest = response.grad.abs().max()
        print(f"step {step + 1}: loss {loss.item():.4f}, gradient {largest.item():.4f}")

kept = response.detach().abs()
print(
    "kept of 5 and 12 Hz", kept[5].item(), kept[12].item(), "of the rest", kept[20:].mean().item()
)
print("turned by", torch.angle(response.detach())[5].item(), "rad")
window = torch.hann_window(32)
spectrum = torch.stft(clean, 32, window=window, return_complex=True)
print(
    "spectrogram",
    tuple(spectrum.shape),
    "energy",
    torch.view_as_real(spectrum).square().sum().item(),
)
